//! Sealing: moves rows of closed episodes from the hot log into segments.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::not;

use super::hot::{HotBatch, decode, masks, sorted_batches};
use super::segment::Segment;
use super::segment_writer::SegmentWriter;
use crate::kernel::error::LakeError;
use crate::kernel::files::lock::Lock;
use crate::kernel::handle::Lake;
use crate::kernel::schema::table::Table;
use crate::kernel::versions::catalog;
use crate::kernel::versions::edit::VersionEdit;
use crate::kernel::versions::manifest::SnapshotKind;
use crate::kernel::versions::sqlite::Catalog;

/// Prepares seals, on any thread. See [`Writer::sealer`](crate::kernel::Writer::sealer).
#[derive(Debug)]
pub struct Sealer {
    pub(crate) lake: Lake,
    pub(crate) lock: Arc<Lock>,
}

/// What a seal did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SealReport {
    /// The segments that were added.
    pub segments: Vec<Segment>,
    /// The number of rows in them.
    pub rows: u64,
    /// [`Writer::hot_bytes`](crate::kernel::Writer::hot_bytes) after the seal.
    pub hot_bytes: u64,
}

/// A prepared seal: segments that are durable but not yet part of the lake. If it is dropped, its
/// files stay until a collection.
#[derive(Debug)]
pub struct PreparedSeal {
    /// The change of the lake: its segments and frames.
    pub(crate) edit: VersionEdit,
    /// Which of the segments are new files. The others have the content of a file that was there.
    fresh: Vec<bool>,
    /// Bytes of the frames that do not change.
    untouched_bytes: u64,
    lake: Lake,
    _lock: Arc<Lock>,
}

impl PreparedSeal {
    pub(crate) fn left_bytes(&self) -> u64 {
        self.untouched_bytes + self.edit.frames.iter().map(|frame| frame.bytes).sum::<u64>()
    }

    pub(crate) fn report(self, hot_bytes: u64) -> SealReport {
        let segments = self.edit.add;
        let rows = segments.iter().map(|segment| segment.rows).sum();
        SealReport { segments, rows, hot_bytes }
    }

    /// Removes its files that nothing has listed: another preparation may have made equal ones.
    pub(crate) fn discard(self, listed: &HashSet<PathBuf>) {
        for (segment, fresh) in self.edit.add.iter().zip(self.fresh) {
            if fresh && !listed.contains(&segment.path) {
                // A file that cannot be removed now stays until a collection.
                let _ = self.lake.disk.remove(&segment.path);
            }
        }
    }
}

/// A one-line description for the list of snapshots.
fn detail(segments: &[Segment]) -> String {
    let (rows, files) = (segments.iter().map(|segment| segment.rows).sum::<u64>(), segments.len());
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    format!("{rows} row{} in {files} file{}", plural(rows), plural(files as u64))
}

impl Sealer {
    /// Writes the rows of closed episodes into segments and makes these durable. The writer may
    /// append meanwhile. The whole hot log is read into memory.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if the hot log is damaged, [`LakeError::DiskFull`] and other disk
    /// errors. The lake does not change in any case.
    pub fn prepare(&self) -> Result<PreparedSeal, LakeError> {
        let frames = Catalog::open_for_reading(&self.lake)?.reading(catalog::frames)?;
        let hot = decode(&self.lake, frames)?;
        let mut prepared = PreparedSeal {
            edit: VersionEdit::new(SnapshotKind::Seal, String::new()),
            fresh: Vec::new(),
            untouched_bytes: 0,
            lake: self.lake.clone(),
            _lock: Arc::clone(&self.lock),
        };
        let masks = masks(&hot);
        for table in Table::ALL.into_iter().filter(|table| table.is_recorded()) {
            let places = hot.iter().zip(&masks).filter(|(hot, _)| hot.table == table);
            match self.write_segment(table, &places.collect::<Vec<_>>()) {
                Ok(None) => {}
                Ok(Some((segment, fresh))) => {
                    prepared.edit.add.push(segment);
                    prepared.fresh.push(fresh);
                }
                Err(error) => {
                    prepared.discard(&HashSet::new());
                    return Err(error);
                }
            }
        }
        prepared.edit.detail = detail(&prepared.edit.add);
        for (hot, mask) in hot.iter().zip(&masks) {
            match mask.true_count() {
                0 => prepared.untouched_bytes += hot.bytes,
                taken => {
                    prepared.edit.frames_gone.push(hot.seq);
                    if taken < mask.len() {
                        let stays = not(mask).expect("a mask has no nulls");
                        prepared.edit.frames.push(hot.filtered(&stays));
                    }
                }
            }
        }
        Ok(prepared)
    }

    fn write_segment(
        &self,
        table: Table,
        hot: &[(&HotBatch, &BooleanArray)],
    ) -> Result<Option<(Segment, bool)>, LakeError> {
        let mut batches = sorted_batches(table, hot).peekable();
        if batches.peek().is_none() {
            return Ok(None);
        }
        let mut writer = SegmentWriter::create(&self.lake, table, self.lake.schemas.get(table))?;
        for batch in batches {
            writer.write(&batch)?;
        }
        writer.finish_fresh().map(Some)
    }
}
