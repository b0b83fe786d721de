//! `merge`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::args::{InfoFormat, MergeArgs};
use super::dedup::derive;
use crate::Error;
use crate::contexts::of_identity;
use crate::dedup::DedupOptions;
use crate::lake::{Context, Disk, Lake, Table};
use crate::transfer::merge::{MergeError, MergeOptions, MergeReport, merge, new_conflicts};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{counted, print, with_bar};

pub(super) fn run(global: &GlobalArgs, args: &MergeArgs) -> Result<(), Error> {
    let contexts = args.lakes.iter().map(Lake::contexts).collect::<Result<Vec<_>, _>>()?;
    let contexts = contexts.into_iter().flatten().map(|context| context.lake).collect();
    let groups = by_context(contexts);
    if let [lakes] = &groups[..] {
        let (lake, report) = merged(global, lakes, &args.into)?;
        let merged = counted_anew(global, lakes, lake, report)?;
        return match args.format {
            InfoFormat::Json => print(&format!("{:#}\n", as_json(&merged))),
            InfoFormat::Text => print(&as_text(&merged)),
        };
    }
    let reports = whole(&args.into, |into| {
        let of_group = |lakes: &Vec<Lake>| {
            let folder = of_identity(into, lakes[0].identity())?;
            Ok(merged(global, lakes, &folder)?.1)
        };
        groups.iter().map(of_group).collect::<Result<Vec<_>, Error>>()
    })?;
    let (mut all, mut text) = (serde_json::Map::new(), String::new());
    for Context { name, lake } in Lake::contexts(&args.into)? {
        let is_it =
            |(lakes, _): &(&Vec<Lake>, _)| lakes[0].identity().is_of_context(lake.identity());
        let Some((lakes, report)) = groups.iter().zip(&reports).find(is_it) else { continue };
        let merged = counted_anew(global, lakes, lake, report.clone())?;
        let _ = write!(text, "{name}: {}", as_text(&merged));
        all.insert(name, as_json(&merged));
    }
    match args.format {
        InfoFormat::Json => {
            print(&format!("{:#}\n", json!({ "path": args.into, "contexts": all })))
        }
        InfoFormat::Text => print(&text),
    }
}

/// The lakes in groups of one context each, in the order of the first of each group.
fn by_context(lakes: Vec<Lake>) -> Vec<Vec<Lake>> {
    let mut groups: Vec<Vec<Lake>> = Vec::new();
    for lake in lakes {
        let of_it = |group: &&mut Vec<Lake>| group[0].identity().is_of_context(lake.identity());
        match groups.iter_mut().find(of_it) {
            Some(group) => group.push(lake),
            None => groups.push(vec![lake]),
        }
    }
    groups
}

/// Makes a lake of several contexts whole or not at all: `fill` gets a folder beside `into`, which
/// takes the name of `into` once it is filled. A kill leaves that folder, which the next merge
/// names; after a power cut, the lake may have the one name or the other.
fn whole<T>(into: &Path, fill: impl FnOnce(&Path) -> Result<T, Error>) -> Result<T, Error> {
    let is_empty = fs::read_dir(into).is_ok_and(|mut entries| entries.next().is_none());
    let is_folder = into.symlink_metadata().map(|found| found.is_dir() && is_empty);
    let name = into.file_name().map(|name| name.to_string_lossy());
    let (Some(name), true) = (name, is_folder.unwrap_or(true)) else {
        let said = format!("{} is no new or empty folder: name one", into.display());
        return Err(Error::usage(said));
    };
    let beside = into.with_file_name(format!(".{name}.merging"));
    if beside.exists() {
        let said =
            format!("{} is of a merge that runs, or was killed: then remove it", beside.display());
        return Err(Error::usage(said));
    }
    let filled = fill(&beside).and_then(|done| {
        fs::rename(&beside, into)?;
        Ok(done)
    });
    if filled.is_err() {
        fs::remove_dir_all(&beside).ok();
    }
    filled
}

/// What was merged into one context.
struct Merged {
    lake: Lake,
    report: MergeReport,
    /// Conflicts that none of the lakes has alone.
    conflicts: u64,
}

/// Merges lakes of one context into a folder.
fn merged(
    global: &GlobalArgs,
    lakes: &[Lake],
    into: &Path,
) -> Result<(Lake, MergeReport), MergeError> {
    let template = "{bar:24.cyan} {human_pos}/{human_len} rows read";
    with_bar(global, template, |progress| {
        merge(Disk::default(), lakes, into, &MergeOptions::default(), progress)
    })
}

/// Counts the steps of a lake that was merged from `lakes`.
fn counted_anew(
    global: &GlobalArgs,
    lakes: &[Lake],
    lake: Lake,
    report: MergeReport,
) -> Result<Merged, Error> {
    let derived = lake
        .maintenance()
        .map_err(Error::from)
        .and_then(|mut maintenance| derive(global, &mut maintenance, DedupOptions::default()));
    derived.map_err(|failed| {
        let path = lake.path().display();
        failed.after(&format!("the lakes are merged into {path}, and its derived tables are empty"))
    })?;
    let conflicts = new_conflicts(&lake, lakes)?.len() as u64;
    Ok(Merged { lake, report, conflicts })
}

fn as_json(merged: &Merged) -> serde_json::Value {
    let Merged { lake, report, conflicts } = merged;
    let sources = report.sources.iter().map(|source| {
        json!({
            "path": source.path,
            "episodes": source.episodes,
            "open_episodes_left_out": source.episodes_open,
        })
    });
    let rows = report.rows.iter().map(|(table, rows)| (table.name().to_owned(), json!(rows)));
    json!({
        "path": lake.path(),
        "lakes": sources.collect::<Vec<_>>(),
        "runs": report.runs,
        "rows": rows.collect::<serde_json::Map<_, _>>(),
        "shared_episodes": report.episodes_shared,
        "retracted_episodes": report.episodes_retracted,
        "new_conflicts": conflicts,
    })
}

fn as_text(merged: &Merged) -> String {
    let Merged { lake, report, conflicts } = merged;
    let rows = |wanted| {
        report.rows.iter().find(|(table, _)| *table == wanted).map_or(0, |(_, rows)| *rows)
    };
    let path = lake.path().display();
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
    if *conflicts > 0 {
        line(format!(
            "{} that none of the lakes has alone: see `steplake --lake {path} sql \"SELECT * FROM conflicts\"`",
            counted(*conflicts, "conflict")
        ));
    }
    text
}
