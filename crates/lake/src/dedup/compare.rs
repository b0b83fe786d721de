//! Comparison of the derived tables with the steps that they count.

use super::DedupOptions;
use super::pass;
use crate::kernel::progress::demand;
use crate::kernel::{Lake, LakeError, OnProgress, Snapshot, Table};
use crate::layers::{Difference, Differences};
use crate::upkeep::{DERIVE, Finding};

/// What a comparison of the derived tables with the steps found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// What differs: a finding for each table and each kind of difference.
    pub findings: Vec<Finding>,
    /// Steps with an action that were counted.
    pub steps: u64,
    /// Rows of the derived tables.
    pub rows: u64,
}

/// Counts the steps that the derived tables of a snapshot count, and compares each row. Reads the
/// lake, and writes temporary files into its folder if the edges do not fit into memory. Calls
/// `progress` with the steps read and the total; a break stops it.
///
/// # Errors
///
/// [`LakeError::Corrupt`] with a damaged file, disk errors, [`LakeError::Interrupted`]. That the
/// tables differ is no error but a finding.
pub fn compare(
    lake: &Lake,
    snapshot: &Snapshot,
    options: DedupOptions,
    progress: &mut OnProgress<'_>,
) -> Result<Compared, LakeError> {
    let steps = snapshot.counted().cloned().collect::<Vec<_>>();
    let retracted = snapshot.retracted_actions();
    let total = steps.iter().map(|segment| segment.rows).sum();
    let mut at = |done| progress(done, total);
    let scattered = pass::scatter(lake, snapshot, &steps, &retracted, &options, &mut at)?;
    let steps = scattered.steps;
    let mut go_on = || at(total);
    let layers: Vec<_> = snapshot.layers().into_values().collect();
    let differences = pass::compare(scattered, &layers, &mut go_on)?;
    demand(go_on())?;
    let tables = Table::ALL.into_iter().filter(|table| table.is_derived());
    let rows = tables.flat_map(|table| snapshot.segments(table)).map(|segment| segment.live_rows());
    Ok(Compared { findings: findings(lake, differences), steps, rows: rows.sum() })
}

fn findings(lake: &Lake, differences: Differences) -> Vec<Finding> {
    let finding = |((table, difference), (edge, count)): ((Table, Difference), (String, u64))| {
        let what = format!("{edge} {}: {DERIVE}", wrong(difference));
        Finding::of(lake.table_folder(table), what, count)
    };
    differences.0.into_iter().map(finding).collect()
}

/// How a row differs from what follows from the steps.
pub(super) fn wrong(difference: Difference) -> &'static str {
    match difference {
        Difference::Foreign => "has a row that does not follow from the steps",
        Difference::Missing => "lacks a row that follows from the steps",
        Difference::Other => "has other values than follow from the steps",
    }
}
