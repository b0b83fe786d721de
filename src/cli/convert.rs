//! `convert`.

use serde_json::json;

use super::args::{ConvertArgs, InfoFormat};
use super::dedup::STEPS_READ;
use super::generate::interrupt;
use super::progress;
use crate::convert::{ConvertRequest, convert, text};
use crate::dedup::{DedupOptions, dedup};
use crate::environments::Environments;
use crate::lake::Lake;
use crate::replay::convert::ConversionReport;
use crate::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{bar, print};

/// The template of the bar.
const STEPS_DONE: &str = "{bar:24.cyan} {human_pos}/{human_len} steps {per_sec} {eta}";

pub(super) fn run(
    environments: &Environments,
    global: &GlobalArgs,
    args: &ConvertArgs,
) -> Result<(), Error> {
    let interrupt = interrupt()?;
    let lake = Lake::open(&global.lake)?;
    let request = ConvertRequest { into: args.into.clone(), jobs: args.jobs };
    let steps_bar = bar(global, 0, STEPS_DONE);
    let mut show = |done, all| progress::show(&steps_bar, done, all, &interrupt);
    let converted = convert(environments, &lake, &request, &mut show);
    drop(steps_bar);
    let (new, report) = converted.map_err(|error| match error.kind() {
        ErrorKind::Interrupted => {
            Error::new(ErrorKind::Interrupted, "interrupted: there is no new lake")
        }
        _ => error,
    })?;
    // What comes now can fail, and nobody wants to convert again to see the report.
    let printed = match args.format {
        InfoFormat::Json => print(&format!("{:#}\n", as_json(&new, &report))),
        InfoFormat::Text => print(&text(&new, &report)),
    };
    let bar = bar(global, 0, STEPS_READ);
    let mut show = |done, all| progress::show(&bar, done, all, &interrupt);
    let derived = new
        .maintenance()
        .and_then(|mut maintenance| dedup(&mut maintenance, DedupOptions::default(), &mut show));
    drop(bar);
    derived.map_err(|failed| {
        let path = args.into.display();
        Error::from(failed)
            .after(&format!("the lake is converted into {path}, and its derived tables are empty"))
    })?;
    printed
}

fn as_json(new: &Lake, report: &ConversionReport) -> serde_json::Value {
    let left_out = report.left_out.iter().map(|(why, &count)| (why.to_string(), json!(count)));
    json!({
        "path": new.path(),
        "episodes": report.episodes,
        "steps": report.steps,
        "states_proven_by_ir": report.proven_by_ir,
        "states_proven_by_values": report.proven_by_values,
        "steps_unproven": report.steps_unproven,
        "steps_elsewhere": report.elsewhere,
        "steps_not_compared": report.steps_not_compared,
        "steps_dropped": report.steps_dropped,
        "episodes_left_out": left_out.collect::<serde_json::Map<_, _>>(),
        "rows_left_out": report.rows_left_out,
    })
}
