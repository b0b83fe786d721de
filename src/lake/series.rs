//! Rows of one table into segments of bounded size.

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::Int64Type;

use super::error::LakeError;
use super::handle::Lake;
use super::segment::Segment;
use super::segment_writer::SegmentWriter;
use super::table::Table;

/// Rows of a segment, after which a new one is begun where one may begin.
const SEGMENT_ROWS_MAX: u64 = 1 << 22;
/// The same for the bytes of its rows in memory.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Segments of one table that are being written, one after another.
///
/// None of them is part of the lake before the manifest lists it: dropped or killed, this leaves
/// files that whoever has the same right next removes.
pub(crate) struct SegmentSeries {
    lake: Lake,
    table: Table,
    open: Option<SegmentWriter>,
    /// Bytes of the rows of the open one.
    bytes: u64,
    /// The last leading key of the open one.
    last_key: Option<i64>,
    finished: Vec<Segment>,
}

impl SegmentSeries {
    pub(crate) fn new(lake: &Lake, table: Table) -> Self {
        let (lake, finished) = (lake.clone(), Vec::new());
        Self { lake, table, open: None, bytes: 0, last_key: None, finished }
    }

    /// Adds rows, which are in the order of the table's key. Where they go back behind those
    /// before, a new segment begins.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), LakeError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let leading = &batch[self.table.key()[0].as_str()];
        let keys = leading.as_primitive_opt::<Int64Type>();
        let (first, last) =
            (keys.map(|keys| keys.value(0)), keys.map(|keys| keys.value(keys.len() - 1)));
        if first < self.last_key {
            self.end_segment()?;
        }
        if self.open.is_none() {
            self.open = Some(SegmentWriter::create(
                &self.lake,
                self.table,
                self.lake.schemas.get(self.table),
            )?);
        }
        let writer = self.open.as_mut().expect("it was just opened");
        writer.write(batch)?;
        self.bytes += batch.get_array_memory_size() as u64;
        self.last_key = last;
        Ok(())
    }

    /// Says that a new segment may begin here: the steps of an episode stay together.
    pub(crate) fn boundary(&mut self) -> Result<(), LakeError> {
        let rows = self.open.as_ref().map_or(0, SegmentWriter::rows);
        if rows >= SEGMENT_ROWS_MAX || self.bytes >= SEGMENT_BYTES_MAX {
            self.end_segment()?;
        }
        Ok(())
    }

    fn end_segment(&mut self) -> Result<(), LakeError> {
        if let Some(writer) = self.open.take() {
            self.finished.push(writer.finish()?.segment);
        }
        (self.bytes, self.last_key) = (0, None);
        Ok(())
    }

    /// Makes all of it durable.
    pub(crate) fn finish(mut self) -> Result<Vec<Segment>, LakeError> {
        self.end_segment()?;
        Ok(self.finished)
    }
}
