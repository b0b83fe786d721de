//! `dedup`.

use std::ops::ControlFlow;
use std::path::Path;

use super::args::DedupArgs;
use crate::Error;
use crate::dedup::{self, DedupOptions, DedupReport};
use crate::lake::Lake;
use crate::upkeep::Maintenance;
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{counted, counted_are, print, with_bar};

/// The template of the bar of a dedup.
pub(super) const STEPS_READ: &str = "{bar:24.cyan} {human_pos}/{human_len} steps read";

pub(super) fn dedup(global: &GlobalArgs, args: &DedupArgs) -> Result<(), Error> {
    let lake = Lake::open(&global.lake)?;
    let mut maintenance = lake.maintenance()?;
    let settings = DedupOptions {
        full: args.full,
        memory_bytes_max: args.memory.0,
        ..DedupOptions::default()
    };
    if let Some(folder) = &args.counted {
        return take_counted(global, &mut maintenance, folder, settings);
    }
    let waiting = dedup::seal_closed(&lake)?;
    let report = derive(global, &mut maintenance, settings)?;
    if waiting > 0 {
        tracing::warn!(
            "another process is recording: {} of finished episodes not sealed and therefore not counted; \
             `steplake dedup` counts them later",
            counted_are(waiting, "step")
        );
    }
    print(&summary(&report))
}

/// Takes derived tables that were counted elsewhere.
fn take_counted(
    global: &GlobalArgs,
    maintenance: &mut Maintenance,
    folder: &Path,
    settings: DedupOptions,
) -> Result<(), Error> {
    let report = with_bar(global, STEPS_READ, |show| {
        dedup::take_counted(maintenance, folder, settings, &mut |done, all| {
            show(done, all);
            ControlFlow::Continue(())
        })
    })?;
    let uncounted = maintenance.lake().snapshot()?.uncounted_steps();
    if uncounted > 0 {
        tracing::warn!(
            "recorded since, and not in these tables: {}; `steplake dedup` counts them",
            counted(uncounted, "step")
        );
    }
    print(&summary(&report))
}

/// Brings the derived tables up to date.
pub(super) fn derive(
    global: &GlobalArgs,
    maintenance: &mut Maintenance,
    settings: DedupOptions,
) -> Result<DedupReport, Error> {
    let report = with_bar(global, STEPS_READ, |show| {
        dedup::dedup(maintenance, settings, &mut |done, all| {
            show(done, all);
            ControlFlow::Continue(())
        })
    });
    Ok(report?)
}

/// Summarises what was counted and found, in one line.
fn summary(report: &DedupReport) -> String {
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
    format!("{} counted: {tables}\n", counted(report.steps, "step"))
}
