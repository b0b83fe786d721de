//! Segments of bounded size for the rows of one table.

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::Int64Type;

use super::segment::Segment;
use super::segment_writer::SegmentWriter;
use crate::kernel::error::LakeError;
use crate::kernel::handle::Lake;
use crate::kernel::schema::table::Table;

/// Rows of a segment after which a new one begins at the next boundary.
const SEGMENT_ROWS_MAX: u64 = 1 << 22;
/// Bytes of rows in memory after which a new segment begins at the next boundary.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Segments of one table that are being written, one after another.
///
/// None of them is part of the lake before the manifest lists it. If this is dropped, or the
/// process dies, files may be left for the next holder of the same right to remove.
pub(crate) struct SegmentSeries {
    lake: Lake,
    table: Table,
    open: Option<SegmentWriter>,
    /// Bytes of the rows of the open segment.
    bytes: u64,
    /// The last leading key of the open segment.
    last_key: Option<i64>,
    /// The segments, and whether the file of each is new.
    finished: Vec<(Segment, bool)>,
}

impl SegmentSeries {
    pub(crate) fn new(lake: &Lake, table: Table) -> Self {
        let (lake, finished) = (lake.clone(), Vec::new());
        Self { lake, table, open: None, bytes: 0, last_key: None, finished }
    }

    /// Adds rows, which are sorted by the table's key. If their keys are smaller than those before,
    /// a new segment begins.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), LakeError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let leading = &batch[self.table.key()[0]];
        let keys = leading.as_primitive_opt::<Int64Type>();
        if keys.map(|keys| keys.value(0)) < self.last_key {
            self.end_segment()?;
        }
        let schema = self.lake.schemas.get(self.table);
        let writer = match &mut self.open {
            Some(writer) => writer,
            none => none.insert(SegmentWriter::create(&self.lake, self.table, schema)?),
        };
        writer.write(batch)?;
        self.bytes += batch.get_array_memory_size() as u64;
        self.last_key = keys.map(|keys| keys.value(keys.len() - 1));
        Ok(())
    }

    /// Marks a place where a new segment may begin. The steps of an episode stay together.
    pub(crate) fn boundary(&mut self) -> Result<(), LakeError> {
        let rows = self.open.as_ref().map_or(0, |writer| writer.rows);
        if rows >= SEGMENT_ROWS_MAX || self.bytes >= SEGMENT_BYTES_MAX {
            self.end_segment()?;
        }
        Ok(())
    }

    /// Makes what was written durable.
    pub(crate) fn end_segment(&mut self) -> Result<(), LakeError> {
        if let Some(writer) = self.open.take() {
            self.finished.push(writer.finish_fresh()?);
        }
        (self.bytes, self.last_key) = (0, None);
        Ok(())
    }

    /// Makes all segments durable.
    pub(crate) fn finish(mut self) -> Result<Vec<Segment>, LakeError> {
        self.end_segment()?;
        Ok(self.finished.into_iter().map(|(segment, _)| segment).collect())
    }

    /// The segments that are durable, and whether the file of each is new: another one of this
    /// content may have been there before.
    pub(crate) fn into_finished(self) -> Vec<(Segment, bool)> {
        self.finished
    }
}
