//! Reads a derived table with several threads, in the order of its key.

use std::num::NonZeroUsize;

use crate::lake::shares::{each_share, key_ranges};
use crate::lake::{Batches, LakeError, ScanColumns, Segment, Snapshot, Table};

/// Shares for each thread, so that threads finish at about the same time.
const SHARES_A_THREAD: usize = 4;

/// A share of a derived table.
enum Share<'a> {
    /// A segment of its only layer.
    Segment(&'a Segment),
    /// A range of keys of all layers together.
    Keys(std::ops::RangeInclusive<i64>),
}

/// Calls `work` for the consecutive shares of `table`, several in parallel, and returns the results
/// in order. Batches have all columns.
///
/// # Errors
///
/// [`LakeError::NotDerived`], and the first error of the store or of `work`.
pub(super) fn in_shares<T: Send>(
    snapshot: &Snapshot,
    table: Table,
    threads: NonZeroUsize,
    work: impl Fn(Batches<'_>) -> Result<T, LakeError> + Sync,
) -> Result<Vec<T>, LakeError> {
    snapshot.demand_derived(table)?;
    let shares = shares(snapshot, table, threads);
    each_share(&shares, threads, |share| read(snapshot, table, share).and_then(&work))
}

fn read<'a>(
    snapshot: &'a Snapshot,
    table: Table,
    share: &Share<'a>,
) -> Result<Batches<'a>, LakeError> {
    Ok(match share {
        Share::Segment(segment) => snapshot.scan_segment(segment, ScanColumns::All),
        Share::Keys(range) => Box::new(snapshot.scan_layers(table, range)?),
    })
}

fn shares(snapshot: &Snapshot, table: Table, threads: NonZeroUsize) -> Vec<Share<'_>> {
    if snapshot.layers().len() > 1 {
        return key_ranges(threads.get() * SHARES_A_THREAD).map(Share::Keys).collect();
    }
    let mut segments: Vec<&Segment> = snapshot.segments(table).iter().collect();
    segments.sort_by_key(|segment| segment.key_range);
    segments.into_iter().map(Share::Segment).collect()
}
