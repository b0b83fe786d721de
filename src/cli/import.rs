//! `import`.

use std::fmt::Write;

use serde_json::json;

use super::args::{ImportArgs, InfoFormat};
use super::dedup::derive;
use crate::Error;
use crate::contexts;
use crate::dedup::DedupOptions;
use crate::environments::imports::identity_of_logs;
use crate::lake::Lake;
use crate::transfer::import::{ImportError, ImportReport, Importer};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{counted, print, with_bar};

pub(super) fn run(global: &GlobalArgs, args: &ImportArgs) -> Result<(), Error> {
    let identity = identity_of_logs(&args.compiler, &args.target)?;
    // A file that is no log should leave no lake.
    args.logs.iter().try_for_each(|log| Importer::check(log))?;
    let folder = contexts::of_identity(&global.lake, &identity)?;
    let lake = Lake::open_or_create(folder, &identity)?;
    let mut reports = Vec::new();
    let imported = import(global, &lake, args, &mut reports);
    if reports.iter().any(|report| report.run.is_some()) {
        let mut maintenance = lake.maintenance()?;
        derive(global, &mut maintenance, DedupOptions::default())
            .map_err(|failed| failed.after("the logs are imported, and not yet counted"))?;
    }
    match args.format {
        InfoFormat::Json => {
            let logs = reports.iter().map(as_json).collect::<Vec<_>>();
            print(&format!("{:#}\n", json!({ "path": lake.path(), "logs": logs })))?;
        }
        InfoFormat::Text => print(&reports.iter().map(as_text).collect::<String>())?,
    }
    Ok(imported?)
}

/// Imports the logs, one after another. Adds a report for each that is in the lake.
fn import(
    global: &GlobalArgs,
    lake: &Lake,
    args: &ImportArgs,
    reports: &mut Vec<ImportReport>,
) -> Result<(), ImportError> {
    let template = "{bar:24.cyan} {human_pos}/{human_len} rows read";
    let mut importer = Importer::new(lake)?;
    for log in &args.logs {
        let report;
        (importer, report) = with_bar(global, template, |progress| importer.import(log, progress))?;
        reports.push(report);
    }
    Ok(())
}

fn as_json(report: &ImportReport) -> serde_json::Value {
    let skipped = report.skipped.iter().map(|(reason, count, first)| {
        json!({
            "reason": reason.as_str(),
            "skips_row": reason.skips_row(),
            "count": count,
            "first": first,
        })
    });
    json!({
        "log": report.path,
        "run": report.run.map(|run| run.0),
        "benchmarks": report.benchmarks,
        "episodes": report.episodes,
        "forks": report.forks,
        "steps": report.steps,
        "failures": report.failures,
        "states": report.states,
        "rows_known": report.rows_known,
        "skipped": skipped.collect::<Vec<_>>(),
    })
}

fn as_text(report: &ImportReport) -> String {
    let path = report.path.display();
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes it");
    match report.run {
        None => line(format!("nothing in {path} is new")),
        Some(run) => line(format!(
            "imported {path} as run {}: {}, {} ({} of them forks), {}, {}, {} of the compiler",
            run.0,
            counted(report.benchmarks, "new benchmark"),
            counted(report.episodes, "episode"),
            report.forks,
            counted(report.steps, "step"),
            counted(report.states, "new state"),
            counted(report.failures, "failure"),
        )),
    }
    if report.rows_known > 0 {
        line(format!("  in the lake already: {}", counted(report.rows_known, "row")));
    }
    for (reason, count, first) in report.skipped.iter() {
        let what = if reason.skips_row() { counted(count, "row") } else { counted(count, "value") };
        let done = if reason.skips_row() { "skipped" } else { "null" };
        line(format!("  {done}: {what}, since {} (first: {first})", reason.as_str()));
    }
    if report.run.is_some() {
        line(
            "  left out: the graphs, which are pickled (reading a pickle executes it); those of \
             LLVM 10 cannot be computed again here"
                .to_owned(),
        );
    }
    text
}
