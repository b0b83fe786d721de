//! Reads a derived table on all cores, in the order of its key.

use std::num::NonZeroUsize;

use arrow::array::RecordBatch;
use datafusion::common::Result;

use crate::lake::shares::{each_share, key_ranges};
use crate::lake::{LakeError, Part, ScanColumns, Segment, Snapshot, Table};
use crate::layers::KeyRange;

/// The fewest rows of a share.
const SHARE_ROWS_MIN: u64 = 1 << 17;

/// A share of a derived table.
enum Share {
    /// A part of its only layer.
    Part(Part),
    /// A range of keys of all layers together.
    Range(KeyRange),
}

/// Calls `work` for consecutive shares of `table`, several in parallel, and returns the results in
/// order. Each batch has the columns `columns`, or all columns.
///
/// # Errors
///
/// The first error, of the store or of `work`.
pub(super) fn in_shares<T: Send>(
    snapshot: &Snapshot,
    table: Table,
    columns: &[&str],
    threads: NonZeroUsize,
    work: impl Fn(&mut dyn Iterator<Item = Result<RecordBatch, LakeError>>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let shares = shares(snapshot, table, threads)?;
    each_share(&shares, threads, |share| read(snapshot, table, columns, share, &work))
}

fn read<T>(
    snapshot: &Snapshot,
    table: Table,
    columns: &[&str],
    share: &Share,
    work: &impl Fn(&mut dyn Iterator<Item = Result<RecordBatch, LakeError>>) -> Result<T>,
) -> Result<T> {
    match share {
        Share::Part(part) => {
            // A part begins with the last row of the one before.
            let mut above = usize::from(part.has_row_before());
            let mut batches = snapshot.scan_part(part, columns)?.map(|batch| {
                let batch = batch?;
                let skipped = above.min(batch.num_rows());
                above -= skipped;
                Ok(batch.slice(skipped, batch.num_rows() - skipped))
            });
            work(&mut batches)
        }
        Share::Range(range) => work(&mut snapshot.scan_layers(table, range)?),
    }
}

/// The stretches, in the order of the table's key.
fn shares(snapshot: &Snapshot, table: Table, threads: NonZeroUsize) -> Result<Vec<Share>> {
    if snapshot.layers().len() > 1 {
        return Ok(key_ranges(threads.get()).map(Share::Range).collect());
    }
    let mut segments: Vec<&Segment> = snapshot.segments(table).iter().collect();
    segments.sort_by_key(|segment| segment.key_range);
    let parts = segments.into_iter().map(|segment| Snapshot::parts(segment, SHARE_ROWS_MIN));
    let parts: Vec<Vec<Part>> = parts.collect::<Result<_, _>>()?;
    Ok(parts.into_iter().flatten().map(Share::Part).collect())
}

/// The sealed batches of a table that is not derived, one after another.
pub(super) fn each_sealed(
    snapshot: &Snapshot,
    table: Table,
    columns: &[&str],
    mut work: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let segments = snapshot.segments(table).iter();
    let mut batches =
        segments.flat_map(|segment| snapshot.scan_segment(segment, ScanColumns::Named(columns)));
    batches.try_for_each(|batch| work(batch?))
}
