//! `measure`.

use super::args::MeasureArgs;
use super::generate::interrupt;
use super::progress::show;
use crate::assembly::arguments::GlobalArgs;
use crate::assembly::command_error::{Code, CommandError};
use crate::assembly::measurement::measure_lake;
use crate::assembly::output::{bar, print};
use crate::lake::Lake;

/// The template of the bar.
const TIMES_TAKEN: &str = "{bar:24.cyan} {human_pos}/{human_len} times {per_sec} {eta}";

pub(super) fn run(global: &GlobalArgs, args: &MeasureArgs) -> Result<(), CommandError> {
    let interrupt = interrupt()?;
    let lake = Lake::open(&global.lake)?;
    let bar = bar(global, 0, TIMES_TAKEN);
    let mut show = |done, all| show(&bar, done, all, &interrupt);
    let report = measure_lake(&lake, &args.request(), &mut show);
    drop(bar);
    match report {
        Ok(report) => {
            print(&report.text())?;
            report.demand_right_results()
        }
        Err(error) if error.code() == Code::Interrupted => Err(CommandError::new(
            Code::Interrupted,
            "interrupted: the samples of complete programs are kept; --benchmark names the others",
        )),
        Err(error) => Err(error),
    }
}
