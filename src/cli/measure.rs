//! `measure`.

use super::args::MeasureArgs;
use super::generate::interrupt;
use super::progress::show;
use crate::environments::Environments;
use crate::lake::Lake;
use crate::measurement::measure_lake;
use crate::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{bar, print};

/// The template of the bar.
const TIMES_TAKEN: &str = "{bar:24.cyan} {human_pos}/{human_len} times {per_sec} {eta}";

pub(super) fn run(
    environments: &Environments,
    global: &GlobalArgs,
    args: &MeasureArgs,
) -> Result<(), Error> {
    let interrupt = interrupt()?;
    let lake = Lake::open(&global.lake)?;
    let bar = bar(global, 0, TIMES_TAKEN);
    let mut show = |done, all| show(&bar, done, all, &interrupt);
    let report = measure_lake(environments, &lake, &args.request(), &mut show);
    drop(bar);
    match report {
        Ok(report) => {
            print(&report.text())?;
            report.demand_right_results()
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Err(Error::new(
            ErrorKind::Interrupted,
            "interrupted: the samples of complete programs are kept; --benchmark names the others",
        )),
        Err(error) => Err(error),
    }
}
