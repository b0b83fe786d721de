//! `seal`, `compact`, `info`.

use std::fmt::Write;
use std::ops::ControlFlow;

use indicatif::HumanBytes;

use super::args::{InfoArgs, InfoFormat};
use crate::Error;
use crate::console::source::snapshot;
use crate::info::hot_rows;
use crate::lake::{Context, Lake, Table};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{counted, print, with_bar};

/// The template of the bar of a compaction.
const ROWS_READ: &str = "{bar:24.cyan} {human_pos}/{human_len} rows read";

pub(super) fn seal(global: &GlobalArgs) -> Result<(), Error> {
    let lake = Lake::open(&global.lake)?;
    let report = lake.writer()?.seal()?;
    tracing::info!(?report, "sealed");
    let hot: u64 = {
        let snapshot = lake.snapshot()?;
        Table::ALL.iter().map(|&table| hot_rows(&snapshot, table)).sum()
    };
    let files = counted(report.segments.len() as u64, "file");
    let mut text = format!("sealed {} into {files}", counted(report.rows, "row"));
    if hot > 0 {
        let stay = if hot == 1 { "stays" } else { "stay" };
        let _ =
            write!(text, "; {} of unfinished episodes {stay} in the hot log", counted(hot, "row"));
    }
    text.push('\n');
    print(&text)
}

pub(super) fn compact(global: &GlobalArgs) -> Result<(), Error> {
    let mut writer = Lake::open(&global.lake)?.writer()?;
    let report = with_bar(global, ROWS_READ, |show| {
        writer.compact(&mut |done, all| {
            show(done, all);
            ControlFlow::Continue(())
        })
    })?;
    if report.merged == 0 {
        return print("nothing to merge\n");
    }
    let (merged, made) = (counted(report.merged, "file"), counted(report.made, "file"));
    let bytes = HumanBytes(report.bytes);
    print(&format!(
        "merged {merged} into {made} ({bytes} written); earlier snapshots have the old files until \
         `steplake expire` and `steplake gc`\n"
    ))
}

pub(super) fn info(global: &GlobalArgs, args: &InfoArgs) -> Result<(), Error> {
    let contexts = Lake::contexts(&global.lake)?;
    if global.context.is_some() || contexts.len() == 1 {
        let snapshot = snapshot(&contexts[0].lake, args.snapshot)?;
        return match args.format {
            InfoFormat::Json => print(&format!("{:#}\n", crate::info::json(&snapshot)?)),
            InfoFormat::Text => print(&crate::info::text(&snapshot)?),
        };
    }
    let (mut text, mut all) = (String::new(), serde_json::Map::new());
    for Context { name, lake } in contexts {
        let snapshot = lake.snapshot()?;
        match args.format {
            InfoFormat::Json => {
                all.insert(name, crate::info::json(&snapshot)?);
            }
            InfoFormat::Text => {
                let _ = writeln!(text, "{name}:\n{}", crate::info::text(&snapshot)?);
            }
        }
    }
    match args.format {
        InfoFormat::Json => print(&format!("{:#}\n", serde_json::json!({ "contexts": all }))),
        InfoFormat::Text => print(&text),
    }
}
