//! `backfill`.

use super::args::BackfillArgs;
use super::generate::interrupt;
use super::progress::show;
use crate::assembly::arguments::GlobalArgs;
use crate::assembly::backfill::backfill;
use crate::assembly::command_error::{Code, CommandError};
use crate::assembly::output::{bar, print};
use crate::lake::Lake;

/// The template of the bar.
const STATES_DONE: &str = "{bar:24.cyan} {human_pos}/{human_len} states {per_sec} {eta}";

pub(super) fn run(global: &GlobalArgs, args: &BackfillArgs) -> Result<(), CommandError> {
    let interrupt = interrupt()?;
    let lake = Lake::open(&global.lake)?;
    let bar = bar(global, 0, STATES_DONE);
    let mut show = |done, all| show(&bar, done, all, &interrupt);
    let report = backfill(&lake, &args.spaces, args.jobs, &mut show);
    drop(bar);
    match report {
        Ok(report) => print(&report.text()),
        Err(error) if error.code() == Code::Interrupted => Err(CommandError::new(
            Code::Interrupted,
            "interrupted: what was computed is kept, and the same command continues",
        )),
        Err(error) => Err(error),
    }
}
