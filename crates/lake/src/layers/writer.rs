//! Writing of layers of the derived tables.

use arrow::array::RecordBatch;

use crate::kernel::segments::segment_writer::SegmentWriter;
use crate::kernel::{DeletionVector, Lake, LakeError, LayerId, Segment, Table};

/// Rows of a segment of a derived table, after which a new segment begins.
const SEGMENT_ROWS_MAX: u64 = 1 << 23;

/// A new layer of the derived tables.
///
/// It is not part of the lake until a version edit adds its segments. If it is dropped before that,
/// its files are removed; what a crash leaves stays until a collection.
#[derive(Debug)]
pub struct LayerWriter {
    lake: Lake,
    pub(super) layer: LayerId,
    open: Vec<SegmentWriter>,
    /// The finished segments, and whether each made a new file.
    finished: Vec<(Segment, bool)>,
}

impl LayerWriter {
    pub(super) fn new(lake: Lake, layer: LayerId) -> Self {
        Self { lake, layer, open: Vec::new(), finished: Vec::new() }
    }

    /// Adds rows to a derived table, in the order of the table's key.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors.
    ///
    /// # Panics
    ///
    /// If the table is not a derived one.
    pub fn write(&mut self, table: Table, batch: &RecordBatch) -> Result<(), LakeError> {
        assert!(table.is_derived(), "{table} is no derived table");
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let known = self.open.iter().position(|writer| writer.table == table);
        let place = known.unwrap_or(self.open.len());
        if known.is_none() {
            self.open.push(SegmentWriter::create(&self.lake, table, batch.schema_ref())?);
        }
        self.open[place].write(batch)?;
        if self.open[place].rows >= SEGMENT_ROWS_MAX {
            let writer = self.open.swap_remove(place);
            self.finished.push(writer.finish_fresh()?);
        }
        Ok(())
    }

    /// Makes all rows so far durable. More rows would begin new segments.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors.
    pub(crate) fn sync(&mut self) -> Result<(), LakeError> {
        for writer in self.open.drain(..) {
            self.finished.push(writer.finish_fresh()?);
        }
        Ok(())
    }

    /// The segments that are durable.
    pub(crate) fn durable(&self) -> impl Iterator<Item = &Segment> {
        self.finished.iter().map(|(segment, _)| segment)
    }

    /// Makes all segments durable.
    pub(super) fn finish(mut self) -> Result<Vec<Segment>, LakeError> {
        self.sync()?;
        let layered = |(mut segment, _): (Segment, bool)| {
            segment.row.layer = Some(self.layer);
            segment.row.deletions = Some(DeletionVector::NONE);
            segment
        };
        Ok(std::mem::take(&mut self.finished).into_iter().map(layered).collect())
    }
}

impl Drop for LayerWriter {
    fn drop(&mut self) {
        // A file that was there before may belong to an older snapshot.
        for (segment, _) in self.finished.iter().filter(|(_, is_new)| *is_new) {
            // A file that cannot be removed now stays until a collection.
            let _ = self.lake.disk.remove(&segment.path);
        }
    }
}
