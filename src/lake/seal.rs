//! Sealing: rows of closed episodes move from the hot log into segments.

use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::not;

use super::catalog;
use super::edit::VersionEdit;
use super::error::LakeError;
use super::handle::Lake;
use super::hot::{HotBatch, decode, masks, sorted_batches};
use super::lock::Lock;
use super::manifest::SnapshotKind;
use super::segment::Segment;
use super::segment_writer::{FinishedSegment, SegmentWriter};
use super::sqlite::Catalog;
use super::table::Table;

/// Prepares seals, on any thread. See [`Writer::sealer`](super::Writer::sealer).
#[derive(Debug)]
pub struct Sealer {
    lake: Lake,
    lock: Arc<Lock>,
}

/// What a seal did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SealReport {
    /// The segments that were added.
    pub segments: Vec<Segment>,
    /// Rows that were moved.
    pub rows: u64,
    /// What [`Writer::hot_bytes`](super::Writer::hot_bytes) says now.
    pub hot_bytes: u64,
}

/// Segments that are durable on disk and not yet part of the lake. Dropped, it leaves files that
/// the next writer removes.
#[derive(Debug)]
pub struct Prepared {
    /// The change of the lake: its segments and frames.
    pub(crate) edit: VersionEdit,
    /// Which of the segments are new files, and not the same content again.
    fresh: Vec<bool>,
    /// Bytes of the frames that stay as they are.
    untouched_bytes: u64,
    lake: Lake,
    _lock: Arc<Lock>,
}

impl Prepared {
    pub(crate) fn left_bytes(&self) -> u64 {
        self.untouched_bytes + self.edit.frames.iter().map(|frame| frame.bytes).sum::<u64>()
    }

    pub(crate) fn report(self, hot_bytes: u64) -> SealReport {
        let segments = self.edit.add;
        let rows = segments.iter().map(|segment| segment.rows).sum();
        SealReport { segments, rows, hot_bytes }
    }

    fn add(&mut self, finished: FinishedSegment) {
        self.edit.add.push(finished.segment);
        self.fresh.push(finished.fresh);
    }

    /// Removes the files.
    pub(crate) fn discard(self) {
        for (segment, _) in self.edit.add.iter().zip(self.fresh).filter(|&(_, fresh)| fresh) {
            // What cannot be removed now, the next writer removes.
            let _ = self.lake.disk.remove(&segment.path);
        }
    }
}

/// One line for the list of snapshots.
fn detail(segments: &[Segment]) -> String {
    let (rows, files) = (segments.iter().map(|segment| segment.rows).sum::<u64>(), segments.len());
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    format!("{rows} row{} in {files} file{}", plural(rows), plural(files as u64))
}

impl Sealer {
    pub(crate) fn new(lake: Lake, lock: Arc<Lock>) -> Self {
        Self { lake, lock }
    }

    /// Writes what is closed at this moment into segments and makes them durable. The writer may
    /// append meanwhile. The hot log is read into memory.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when the hot log is damaged, [`LakeError::DiskFull`] and what else
    /// a disk does. Nothing of the lake is changed in any case.
    pub fn prepare(&self) -> Result<Prepared, LakeError> {
        let frames = Catalog::open_for_reading(&self.lake)?.reading(catalog::frames)?;
        let hot = decode(&self.lake, frames)?;
        let mut prepared = Prepared {
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
                Ok(finished) => finished.into_iter().for_each(|finished| prepared.add(finished)),
                Err(error) => {
                    prepared.discard();
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
    ) -> Result<Option<FinishedSegment>, LakeError> {
        let mut batches = sorted_batches(table, hot).peekable();
        if batches.peek().is_none() {
            return Ok(None);
        }
        let mut writer = SegmentWriter::create(&self.lake, table, self.lake.schemas.get(table))?;
        for batch in batches {
            writer.write(&batch)?;
        }
        writer.finish().map(Some)
    }
}
