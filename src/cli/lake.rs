//! `seal`, `info`.

use std::fmt::Write;

use super::args::{InfoArgs, InfoFormat};
use crate::assembly::arguments::GlobalArgs;
use crate::assembly::command_error::CommandError;
use crate::assembly::lake_info::{self, hot_rows};
use crate::assembly::output::{counted, print};
use crate::console::source::snapshot;
use crate::lake::{Lake, Table};

pub(super) fn seal(global: &GlobalArgs) -> Result<(), CommandError> {
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

pub(super) fn info(global: &GlobalArgs, args: &InfoArgs) -> Result<(), CommandError> {
    let snapshot = snapshot(&Lake::open(&global.lake)?, args.snapshot)?;
    match args.format {
        InfoFormat::Json => print(&format!("{:#}\n", lake_info::json(&snapshot)?)),
        InfoFormat::Text => print(&lake_info::text(&snapshot)?),
    }
}
