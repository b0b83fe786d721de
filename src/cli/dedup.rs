//! `dedup`.

use std::str::FromStr;

use indicatif::HumanCount;

use super::args::{Cli, DedupArgs};
use super::failure::Failed;
use super::{counted, print, progress};
use crate::dedup::{self, DedupOptions, Report};
use crate::lake::Lake;
use crate::upkeep::Maintenance;

pub(super) fn dedup(cli: &Cli, args: &DedupArgs) -> Result<(), Failed> {
    let lake = Lake::open(&cli.lake)?;
    let mut maintenance = lake.maintenance()?;
    let waiting = dedup::seal_closed(&lake)?;
    let settings = DedupOptions {
        full: args.full,
        memory_bytes_max: args.memory.0,
        ..DedupOptions::default()
    };
    let report = derive(cli, &mut maintenance, settings)?;
    if waiting > 0 {
        tracing::warn!(
            "another process is recording: {} of finished episodes not sealed yet and not counted; \
             `steplake dedup` counts them later",
            if waiting == 1 {
                "1 step is".to_owned()
            } else {
                format!("{} steps are", HumanCount(waiting))
            }
        );
    }
    print(&said(&report))
}

/// Brings the derived tables up to date.
pub(super) fn derive(
    cli: &Cli,
    maintenance: &mut Maintenance,
    settings: DedupOptions,
) -> Result<Report, Failed> {
    let bar = progress::bar(cli, 0, "{bar:24.cyan} {human_pos}/{human_len} steps read");
    let report = dedup::dedup(maintenance, settings, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    })?;
    bar.finish_and_clear();
    Ok(report)
}

/// Reports what was counted and found, in one line.
fn said(report: &Report) -> String {
    let tables = [
        counted(report.transitions, "transition"),
        counted(report.conflicts, "conflict"),
        counted(report.failures, "failure"),
    ];
    let mut tables = tables.join(", ");
    if report.layers > 1 {
        // A row may be in several layers.
        tables = format!("at most {tables}, in {} layers", report.layers);
    }
    if report.unchanged {
        return format!("nothing new since the last time: {tables}\n");
    }
    format!("{}: {tables}\n", counted(report.steps, "step"))
}

/// A number of bytes, with `K`, `M`, `G` or `T` for the powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err(Self::wanted(text)),
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        number.map(Self).ok_or_else(|| Self::wanted(text))
    }
}

impl Bytes {
    fn wanted(text: &str) -> String {
        format!("`{text}` is no number of bytes: write 512M or 2G")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_their_unit() {
        for (text, bytes) in
            [("7", 7), ("0", 0), ("3k", 3 << 10), ("512M", 512 << 20), ("2GiB", 2 << 30)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "2X", "99999999999T"] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.contains("512M"), "{error}");
        }
    }
}
