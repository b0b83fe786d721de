//! `optimize`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use indicatif::HumanCount;

use super::args::OptimizeArgs;
use super::generate::{interrupt, show_while};
use super::progress::RunBar;
use crate::assembly::arguments::GlobalArgs;
use crate::assembly::command_error::{Code, CommandError};
use crate::assembly::messages::line;
use crate::assembly::optimization::{Goal, OptimizeRequest, Optimized, optimize};
use crate::assembly::output::{counted, counted_are, print};
use crate::generate::{Progress, Stop};
use crate::model::as_f64;

pub(super) fn run(global: &GlobalArgs, args: &OptimizeArgs) -> Result<(), CommandError> {
    let interrupt = interrupt()?;
    let goal = args.objective.goal();
    let request = OptimizeRequest {
        program: args.program.clone(),
        goal,
        budget: args.budget,
        seed: args.seed,
    };
    let progress = Progress::default();
    let bar = RunBar::new(global, Stop::Episodes(args.budget), 0);
    let done =
        show_while(bar, &progress, || optimize(&global.lake, &request, &progress, &interrupt))?;
    if let Some(path) = &args.output {
        write(path, &done)?;
    }
    print(&report(&done, goal, args, global))
}

/// Writes the result.
fn write(path: &Path, done: &Optimized) -> Result<(), CommandError> {
    let is_object = path.extension().is_some_and(|extension| extension == "o");
    let content = if is_object { &done.object } else { &done.bitcode };
    fs::write(path, content).map_err(|error| {
        let said = format!("{} cannot be written: {}", path.display(), line(&error));
        CommandError::new(Code::Failed, said)
    })
}

/// Returns what was found as lines for people.
fn report(done: &Optimized, goal: Goal, args: &OptimizeArgs, global: &GlobalArgs) -> String {
    let size = |number: i64| HumanCount(u64::try_from(number).unwrap_or(0)).to_string();
    let Optimized { before, oz, o3, after, .. } = *done;
    let mut text = format!(
        "{}: {} {} untouched, {} after -Oz, {} after -O3\n",
        done.uri,
        size(before),
        goal.unit(),
        size(oz),
        size(o3)
    );
    let tried = counted(args.budget, "sequence");
    let _ = match &done.actions {
        Some(actions) => writeln!(
            text,
            "{tried} tried: {} {} after {}: {} than -Oz, {} than -O3",
            size(after),
            goal.unit(),
            passes(actions.len()),
            compared(after, oz),
            compared(after, o3),
        ),
        None => {
            writeln!(text, "{tried} tried: none is smaller than what -Oz makes, which is taken")
        }
    };
    if let Some(difference) = done.wrong.first() {
        let count = counted_are(done.wrong.len() as u64, "smaller program");
        let _ = writeln!(
            text,
            "{count} left out, which the compiler got wrong: {difference}; `steplake verify \
             --semantics 100` finds the pass"
        );
    }
    if done.is_checked {
        text += "checked: the program does what it does untouched\n";
    }
    for remark in &done.remarks {
        let _ = writeln!(text, "not checked by running: {remark}");
    }
    let _ = writeln!(text, "{}", done.command);
    let _ = writeln!(text, "recorded in {}", global.lake.display());
    if let Some(path) = &args.output {
        let _ = writeln!(text, "written to {}", path.display());
    }
    text
}

/// Counts passes.
fn passes(count: usize) -> String {
    if count == 1 { "1 pass".to_owned() } else { format!("{count} passes") }
}

/// Says how much smaller or larger a size is than another.
fn compared(size: i64, other: i64) -> String {
    let share = (1.0 - as_f64(size) / as_f64(other.max(1))) * 100.0;
    if share >= 0.0 { format!("{share:.1}% less") } else { format!("{:.1}% more", -share) }
}
