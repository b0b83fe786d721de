//! Compaction: many small segments of the recorded tables become few large ones.
//!
//! Each seal adds a segment to every table that it has rows of. A segment of a table of states has
//! keys from everywhere, so whoever looks a state up looks into all of them. Compaction merges
//! segments by their keys, and changes no row: readers of the table see the same rows before and
//! after, in fewer files.
//!
//! # Which segments
//!
//! The *level* of a segment is the logarithm of its rows, to the base [`FAN_IN`]. As soon as a
//! level has [`FAN_IN`] segments, they become one, of the next level. So a row is written once for
//! each level, and a table has fewer than [`FAN_IN`] segments of each level. What takes more than
//! [`DUE_BYTES_MAX`] is only merged when somebody asks for it ([`Extent::All`]).
//!
//! Large results are cut into several segments by ranges of keys. Of a table with a row for each
//! state, these count together as one: each counts for the share of all keys that it spans, and has
//! the level of the whole. Of other tables, large segments stay as they are: rows of episodes come
//! in the order of their keys, so their large segments hardly overlap.
//!
//! Steps that the derived tables count and steps that they do not count yet stay apart.
//!
//! # What is durable when
//!
//! The new segments are durable before one transaction lists them and retires the old ones, in a
//! snapshot of its own for each table. After a crash before that transaction, the lake is as
//! before; the next writer removes unfinished files, and a collection complete ones. Older
//! snapshots have the old segments until they expire.
//!
//! # Who else may work
//!
//! Who compacts has the right to write. Others may maintain the lake while segments are merged. A
//! dedup names the segments of `steps` that it counts, so the transaction needs the right to
//! maintain as well; it is refused if somebody has it, or had it meanwhile and changed a segment.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::segment::Segment;
use super::sorted_merge::merge_segments;
use crate::kernel::error::LakeError;
use crate::kernel::files::lock::{Lock, Right};
use crate::kernel::files::reserve::free_bytes;
use crate::kernel::handle::Lake;
use crate::kernel::ids::SnapshotId;
use crate::kernel::progress::{OnProgress, demand};
use crate::kernel::schema::table::Table;
use crate::kernel::versions::edit::{self, VersionEdit};
use crate::kernel::versions::manifest::{self, SnapshotKind};
use crate::kernel::versions::sqlite::Catalog;

/// How many segments of a level become one of the next.
const FAN_IN: u32 = 16;

/// The logarithm of [`FAN_IN`].
const FAN_IN_BITS: u32 = FAN_IN.ilog2();

/// Rows from which on the keys of a segment tell which share of all keys it spans.
const SPREAD_ROWS: u64 = 1 << 10;

/// Rows from which on a segment of a table without spread keys stays as it is.
const ROWS_ENOUGH: u64 = 1 << 20;

/// Most bytes that are merged unasked, of each table. The old segments stay until they expire, so
/// the lake of a long recording, whose segments have megabytes, would grow by a tenth with more.
const DUE_BYTES_MAX: u64 = 32 << 20;

/// How much is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What is due after a seal: full levels of small segments.
    Due,
    /// Everything: each table has one segment, or one series of segments, afterwards.
    All,
}

impl Extent {
    /// Most segments that are merged at once: each takes memory.
    fn inputs_max(self) -> usize {
        match self {
            Self::Due => 64,
            Self::All => 256,
        }
    }
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// The segments that were merged.
    pub merged: u64,
    /// The segments that they became.
    pub made: u64,
    /// The bytes that were written for this.
    pub bytes: u64,
}

impl CompactReport {
    /// Whether there may be more to merge. What does not become less would be merged for ever.
    pub fn goes_on(&self) -> bool {
        self.merged > self.made
    }
}

/// Prepares compactions, on any thread. See
/// [`Writer::compactor`](crate::kernel::Writer::compactor).
#[derive(Debug)]
pub struct Compactor {
    lake: Lake,
    _lock: Arc<Lock>,
}

/// A prepared compaction of a table: segments that are durable but not yet part of the lake. If it
/// is dropped, its files stay until a collection.
#[derive(Debug)]
pub struct PreparedCompaction {
    edit: VersionEdit,
    /// Which of the segments are new files. The others have the content of a file that was there.
    fresh: Vec<bool>,
    compactor: Compactor,
}

impl PreparedCompaction {
    /// Makes it part of the lake. If somebody maintains the lake, or has changed one of its
    /// segments meanwhile, removes its files instead; in the latter case, the report is empty.
    /// `held` is the right to maintain, if the caller has it.
    pub(crate) fn publish(
        self,
        catalog: &mut Catalog,
        held: Option<&Lock>,
    ) -> Result<CompactReport, LakeError> {
        let Compactor { lake, .. } = &self.compactor;
        let discard = |catalog: &Catalog| {
            let files = self.edit.add.iter().cloned().zip(self.fresh.iter().copied());
            discard(catalog, lake, files)
        };
        let mut taken = None;
        if held.is_none() {
            match Lock::take(&lake.disk, &lake.path, Right::Maintain) {
                Ok(lock) => taken = Some(lock),
                Err(error) => {
                    discard(catalog)?;
                    return Err(error);
                }
            }
        }
        let newest = catalog.reading(|log| manifest::segments(log, lake, SnapshotId::NEWEST))?;
        if !self.edit.retire.iter().all(|segment| newest.contains(segment)) {
            discard(catalog)?;
            return Ok(CompactReport::default());
        }
        // After a commit that failed, the database may list the files all the same, so they stay.
        edit::apply(catalog, lake, &self.edit)?;
        drop(taken);
        let VersionEdit { add, retire, .. } = &self.edit;
        Ok(CompactReport {
            merged: retire.len() as u64,
            made: add.len() as u64,
            bytes: add.iter().map(|segment| segment.bytes).sum(),
        })
    }
}

impl Compactor {
    pub(crate) fn new(lake: Lake, lock: Arc<Lock>) -> Self {
        Self { lake, _lock: lock }
    }

    /// Merges segments of a recorded table in the newest snapshot, and makes the results durable.
    /// Returns none if there is nothing to merge, or, of what is due, if the disk has no room for
    /// it. Calls `progress` with the rows read and those to read.
    ///
    /// # Errors
    ///
    /// [`LakeError::BeingMaintained`] if somebody maintains the lake, so that what is due would be
    /// merged in vain; [`LakeError::Corrupt`] with the damaged file; [`LakeError::DiskFull`] and
    /// other disk errors; [`LakeError::Interrupted`]. The lake does not change in any case.
    pub fn prepare(
        self,
        table: Table,
        extent: Extent,
        progress: &mut OnProgress<'_>,
    ) -> Result<Option<PreparedCompaction>, LakeError> {
        let lake = &self.lake;
        let catalog = Catalog::open_for_reading(lake)?;
        let mut segments =
            catalog.reading(|log| manifest::segments(log, lake, SnapshotId::NEWEST))?;
        segments.retain(|segment| segment.table == table);
        let Some(group) = group(&segments, extent) else { return Ok(None) };
        if extent == Extent::Due {
            drop(Lock::take(&lake.disk, &lake.path, Right::Maintain)?);
            let bytes = group.iter().map(|segment| segment.bytes).sum::<u64>();
            if free_bytes(&lake.path).is_ok_and(|free| free / 8 < bytes) {
                return Ok(None);
            }
        }
        let (rows, mut done) = (group.iter().map(|segment| segment.rows).sum::<u64>(), 0);
        let mut read = |more| {
            done += more;
            demand(progress(done, rows))
        };
        let mut made = Vec::new();
        if let Err(error) = merge_segments(lake, table, &group, &mut made, &mut read) {
            discard(&catalog, lake, made)?;
            return Err(error);
        }
        let (add, fresh): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let detail = format!("{} files of {table} became {}", group.len(), add.len());
        let mut edit = VersionEdit::new(SnapshotKind::Compact, detail);
        if group[0].is_counted {
            edit.counted.clone_from(&add);
        }
        (edit.add, edit.retire) = (add, group);
        Ok(Some(PreparedCompaction { edit, fresh, compactor: self }))
    }
}

/// Removes new files that nothing lists.
fn discard(
    catalog: &Catalog,
    lake: &Lake,
    made: impl IntoIterator<Item = (Segment, bool)>,
) -> Result<(), LakeError> {
    let listed: HashSet<PathBuf> =
        catalog.reading(|log| manifest::listed_paths(log, &lake.path))?;
    for (segment, fresh) in made {
        if fresh && !listed.contains(&segment.path) {
            // A file that cannot be removed now stays until a collection.
            let _ = lake.disk.remove(&segment.path);
        }
    }
    Ok(())
}

/// The segments of one table that are to be merged, of one level, the smallest ones.
fn group(segments: &[Segment], extent: Extent) -> Option<Vec<Segment>> {
    let mut levels: BTreeMap<(bool, u32), Vec<&Segment>> = BTreeMap::new();
    for segment in segments.iter().filter(|segment| !stays(segment)) {
        let level = match extent {
            Extent::Due => level(segment),
            Extent::All => 0,
        };
        levels.entry((segment.is_counted, level)).or_default().push(segment);
    }
    let (bytes_max, wanted) = match extent {
        // Shares are estimates.
        Extent::Due => (DUE_BYTES_MAX, f64::from(FAN_IN) - 0.5),
        Extent::All => (u64::MAX, 1.5),
    };
    levels.into_values().find_map(|mut level| {
        level.sort_by_key(|segment| segment.bytes);
        let mut bytes = 0;
        let few = level.into_iter().take(extent.inputs_max()).take_while(|segment| {
            bytes += segment.bytes;
            bytes <= bytes_max
        });
        let group = few.cloned().collect::<Vec<_>>();
        (group.iter().map(share).sum::<f64>() > wanted).then_some(group)
    })
}

/// Whether a table has a row for each state: the keys are parts of hashes, so they lie everywhere.
fn has_spread_keys(table: Table) -> bool {
    matches!(table, Table::Observations | Table::Ir)
}

/// Whether a segment is large enough.
fn stays(segment: &Segment) -> bool {
    !has_spread_keys(segment.table) && segment.rows >= ROWS_ENOUGH
}

/// The share of all keys that a segment spans; 1 where keys do not tell.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn share(segment: &Segment) -> f64 {
    match segment.key_range {
        Some((least, greatest))
            if has_spread_keys(segment.table) && segment.rows >= SPREAD_ROWS =>
        {
            greatest.abs_diff(least).max(1) as f64 / u64::MAX as f64
        }
        _ => 1.0,
    }
}

/// The level of a segment, or of the series that it is a part of.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate"
)]
fn level(segment: &Segment) -> u32 {
    let rows = (segment.rows as f64 / share(segment)) as u64;
    rows.max(1).ilog2() / FAN_IN_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::files::digest::BlockDigests;
    use crate::kernel::files::disk::Disk;
    use crate::kernel::segments::segment::FileRow;

    const ALL_KEYS: (i64, i64) = (i64::MIN, i64::MAX);

    fn segment(table: Table, rows: u64, key_range: (i64, i64)) -> Segment {
        let row = FileRow {
            table,
            rows,
            bytes: 100 * rows,
            digest: String::new(),
            key_range: Some(key_range),
            layer: None,
            is_counted: false,
            deletions: None,
        };
        let (path, blocks) = (PathBuf::new(), BlockDigests::new(Vec::new()));
        Segment { row, path, blocks, disk: Disk::default() }
    }

    /// Seals `rows` rows so many times, merges what is due, and returns the number of segments at
    /// the end and how often a row was written.
    fn grown(seals: u64, rows: u64) -> (usize, u64) {
        let mut segments = Vec::new();
        let mut written = 0;
        for _ in 0..seals {
            segments.push(segment(Table::Ir, rows, ALL_KEYS));
            written += rows;
            while let Some(group) = group(&segments, Extent::Due) {
                for merged in &group {
                    let place = segments.iter().position(|it| it.rows == merged.rows).unwrap();
                    segments.remove(place);
                }
                let rows = group.iter().map(|segment| segment.rows).sum();
                segments.push(segment(Table::Ir, rows, ALL_KEYS));
                written += rows;
            }
        }
        (segments.len(), written.div_ceil(seals * rows))
    }

    #[test]
    fn files_are_few_and_rows_are_written_a_few_times() {
        for (seals, rows, files_max, written_max) in
            [(15, 7, 15, 1), (1000, 1, 48, 4), (1000, 900, 48, 4), (20_000, 10, 64, 5)]
        {
            let (files, written) = grown(seals, rows);
            assert!(files <= files_max && written <= written_max, "{seals}: {files} {written}");
        }
    }

    #[test]
    fn a_series_of_segments_by_key_counts_as_one() {
        let rows = 1 << 22;
        let width = i64::MAX / 4;
        let series = (0..8).map(|part| {
            let first = i64::MIN.wrapping_add(width.wrapping_mul(part));
            segment(Table::Observations, rows, (first, first + width))
        });
        let series = series.collect::<Vec<_>>();
        assert_eq!(group(&series, Extent::All), None);
        let levels = series.iter().map(level).collect::<HashSet<_>>();
        let whole = segment(Table::Observations, 8 * rows, ALL_KEYS);
        assert_eq!(levels, HashSet::from([level(&whole)]));
        let more = [series, vec![segment(Table::Observations, 3, (1, 2))]].concat();
        assert_eq!(group(&more, Extent::All).unwrap().len(), 9);
    }

    #[test]
    fn what_is_too_much_at_once_is_merged_in_parts() {
        // Sixteen of these take more than is merged unasked.
        let large = vec![segment(Table::Ir, DUE_BYTES_MAX / 1500, ALL_KEYS); 100];
        assert_eq!(group(&large, Extent::Due), None);
        assert_eq!(group(&large, Extent::All).unwrap().len(), 100);
        let small = vec![segment(Table::Ir, DUE_BYTES_MAX / 2000, ALL_KEYS); 100];
        assert_eq!(group(&small, Extent::Due).unwrap().len(), 20);
    }

    #[test]
    fn large_segments_of_episodes_stay() {
        let large = vec![segment(Table::Steps, ROWS_ENOUGH, (1, 2)); 100];
        assert!([Extent::All, Extent::Due].iter().all(|&extent| group(&large, extent).is_none()));
    }
}
