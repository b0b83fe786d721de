//! `merge`.

use std::fmt::Write;

use serde_json::json;

use super::args::{InfoFormat, MergeArgs};
use super::dedup::derive;
use crate::Error;
use crate::dedup::DedupOptions;
use crate::lake::{Disk, Lake, Table};
use crate::transfer::merge::{MergeOptions, MergeReport, merge, new_conflicts};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{counted, print, with_bar};

pub(super) fn run(global: &GlobalArgs, args: &MergeArgs) -> Result<(), Error> {
    let lakes = args.lakes.iter().map(Lake::open).collect::<Result<Vec<_>, _>>()?;
    let template = "{bar:24.cyan} {human_pos}/{human_len} rows read";
    let (merged, report) = with_bar(global, template, |progress| {
        merge(Disk::default(), &lakes, &args.into, &MergeOptions::default(), progress)
    })?;
    let derived = merged
        .maintenance()
        .map_err(Error::from)
        .and_then(|mut maintenance| derive(global, &mut maintenance, DedupOptions::default()));
    derived.map_err(|failed| {
        let path = args.into.display();
        failed.after(&format!("the lakes are merged into {path}, and its derived tables are empty"))
    })?;
    let conflicts = new_conflicts(&merged, &lakes)?.len() as u64;
    match args.format {
        InfoFormat::Json => print(&format!("{:#}\n", as_json(&merged, &report, conflicts))),
        InfoFormat::Text => print(&as_text(&merged, &report, conflicts)),
    }
}

fn as_json(merged: &Lake, report: &MergeReport, conflicts: u64) -> serde_json::Value {
    let sources = report.sources.iter().map(|source| {
        json!({
            "path": source.path,
            "episodes": source.episodes,
            "open_episodes_left_out": source.episodes_open,
        })
    });
    let rows = report.rows.iter().map(|(table, rows)| (table.name().to_owned(), json!(rows)));
    json!({
        "path": merged.path(),
        "lakes": sources.collect::<Vec<_>>(),
        "runs": report.runs,
        "rows": rows.collect::<serde_json::Map<_, _>>(),
        "shared_episodes": report.episodes_shared,
        "retracted_episodes": report.episodes_retracted,
        "new_conflicts": conflicts,
    })
}

fn as_text(merged: &Lake, report: &MergeReport, conflicts: u64) -> String {
    let rows = |wanted| {
        report.rows.iter().find(|(table, _)| *table == wanted).map_or(0, |(_, rows)| *rows)
    };
    let path = merged.path().display();
    let mut text = format!(
        "merged {} into {path}: {}, {}, {}, {}\n",
        counted(report.sources.len() as u64, "lake"),
        counted(report.runs, "run"),
        counted(rows(Table::Episodes), "episode"),
        counted(rows(Table::Steps), "step"),
        counted(rows(Table::Observations), "state"),
    );
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes it");
    if report.episodes_shared > 0 {
        let shared = counted(report.episodes_shared, "episode");
        line(format!("in several of the lakes and taken once: {shared}"));
    }
    if report.episodes_retracted > 0 {
        let retracted = counted(report.episodes_retracted, "episode");
        line(format!("left out, since one of the lakes retracted them: {retracted}"));
    }
    for source in report.sources.iter().filter(|source| source.episodes_open > 0) {
        let open = counted(source.episodes_open, "episode");
        line(format!("left out of {}, since not over: {open}", source.path.display()));
    }
    if conflicts > 0 {
        line(format!(
            "{} that none of the lakes has alone: see `steplake --lake {path} sql \"SELECT * FROM conflicts\"`",
            counted(conflicts, "conflict")
        ));
    }
    text
}
