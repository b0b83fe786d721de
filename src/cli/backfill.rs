//! `backfill`.

use super::args::BackfillArgs;
use super::generate::interrupt;
use super::progress::show;
use crate::backfill::backfill;
use crate::environments::Environments;
use crate::lake::Lake;
use crate::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{bar, print};

/// The template of the bar.
const STATES_DONE: &str = "{bar:24.cyan} {human_pos}/{human_len} states {per_sec} {eta}";

pub(super) fn run(
    environments: &Environments,
    global: &GlobalArgs,
    args: &BackfillArgs,
) -> Result<(), Error> {
    let interrupt = interrupt()?;
    let lake = Lake::open(&global.lake)?;
    let bar = bar(global, 0, STATES_DONE);
    let mut show = |done, all| show(&bar, done, all, &interrupt);
    let report = backfill(environments, &lake, &args.spaces, args.jobs, &mut show);
    drop(bar);
    match report {
        Ok(report) => print(&report.text()),
        Err(error) if error.kind() == ErrorKind::Interrupted => Err(Error::new(
            ErrorKind::Interrupted,
            "interrupted: what was computed is kept, and the same command continues",
        )),
        Err(error) => Err(error),
    }
}
