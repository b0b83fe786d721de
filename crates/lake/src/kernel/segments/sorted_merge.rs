//! Sorted segments of one table, merged into new ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, RecordBatch};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::row::{Row, RowConverter, Rows, SortField};
use parquet::file::metadata::PageIndexPolicy;

use super::reading::{RowChoice, SegmentRows};
use super::scan::ScanColumns;
use super::segment::Segment;
use super::segment_series::SegmentSeries;
use crate::kernel::error::LakeError;
use crate::kernel::handle::Lake;
use crate::kernel::schema::state_rows::rows_at_once;
use crate::kernel::schema::table::Table;

/// A batch that is written has at most so many times the rows of one that is read.
const WRITTEN_OVER_READ: usize = 8;

/// Bytes of memory that the batches of all inputs should take, and the rows that are written.
const READ_BYTES: u64 = 128 << 20;
const WRITTEN_BYTES: u64 = 64 << 20;

/// Estimate of the bytes of a row in memory over those in a file.
const COMPRESSED: u64 = 8;

/// Merges segments of one table, each sorted by its key, into new segments with the same rows.
/// Columns that an input lacks are null. Rows of one leading key stay in one segment, as the steps
/// of an episode have to. Each input has one batch in memory. Calls `read` with the rows of each
/// batch that is read.
///
/// The new segments are durable and not part of the lake yet. `made` has them, and whether the file
/// of each is new; after an error, it has those that were complete.
///
/// # Errors
///
/// [`LakeError::Corrupt`] with a damaged input, disk errors, and those of `read`.
pub(crate) fn merge_segments(
    lake: &Lake,
    table: Table,
    inputs: &[Segment],
    made: &mut Vec<(Segment, bool)>,
    read: &mut dyn FnMut(u64) -> Result<(), LakeError>,
) -> Result<(), LakeError> {
    let schema = lake.schemas.get(table);
    let places = ScanColumns::All.places(schema);
    let fields = table.key().iter().map(|key| {
        let field = schema.field_with_name(key).expect("a key is a column");
        SortField::new(field.data_type().clone())
    });
    let converter = RowConverter::new(fields.collect()).expect("keys can be compared");
    let (rows_read, rows_written) = batch_rows(inputs, schema);
    let mut cursors = Vec::new();
    for segment in inputs {
        // Damage must not be written anew, under a digest of its own.
        segment.check_while(&mut || read(0))?;
        let rows = segment
            .reader(schema, &places, PageIndexPolicy::Skip, |_| RowChoice::all(rows_read))?;
        cursors.push(Cursor { rows, table, batch: None, row: 0, output: None });
    }
    let series = SegmentSeries::new(lake, table);
    let mut output = Output { series, batches: Vec::new(), places: Vec::new(), last: None };
    let merged = merge(&mut cursors, &converter, &mut output, rows_written, read);
    *made = output.series.into_finished();
    merged
}

/// Writes the rows of all inputs in the order of their keys.
fn merge(
    cursors: &mut [Cursor],
    converter: &RowConverter,
    output: &mut Output,
    rows_max: usize,
    read: &mut dyn FnMut(u64) -> Result<(), LakeError>,
) -> Result<(), LakeError> {
    let mut heap = BinaryHeap::new();
    for (input, cursor) in cursors.iter_mut().enumerate() {
        cursor.load(converter, read)?;
        heap.extend(cursor.key().map(|key| Reverse((key.owned(), input))));
    }
    while let Some(Reverse((_, input))) = heap.pop() {
        let next = heap.peek().map(|Reverse((key, _))| key.row());
        // The rows that come before those of all other inputs.
        while let Some(key) = cursors[input].key()
            && next.is_none_or(|next| key <= next)
        {
            output.push(&mut cursors[input])?;
            if output.places.len() == rows_max {
                output.flush()?;
                for cursor in &mut *cursors {
                    cursor.output = None;
                }
            }
            cursors[input].advance(converter, read)?;
        }
        heap.extend(cursors[input].key().map(|key| Reverse((key.owned(), input))));
    }
    output.flush()?;
    output.series.end_segment()
}

/// The rows of a batch that is read, and of one that is written.
fn batch_rows(inputs: &[Segment], schema: &SchemaRef) -> (usize, usize) {
    let sum = |of: fn(&Segment) -> u64| inputs.iter().map(of).sum::<u64>().max(1);
    let (rows, bytes) = (sum(|segment| segment.rows), sum(|segment| segment.bytes));
    let row_bytes = (COMPRESSED * bytes / rows).max(1);
    let rows = |bytes: u64, rows_max: usize| {
        usize::try_from(bytes / row_bytes).unwrap_or(usize::MAX).clamp(1, rows_max)
    };
    let rows_max = rows_at_once(schema);
    let each = READ_BYTES / inputs.len().max(1) as u64;
    (rows(each, rows_max), rows(WRITTEN_BYTES, WRITTEN_OVER_READ * rows_max))
}

/// The current row of an input.
struct Cursor {
    rows: SegmentRows,
    table: Table,
    /// The batch with the row, and the keys of its rows; none at the end.
    batch: Option<(RecordBatch, Rows)>,
    row: usize,
    /// The place of the batch in the output, if the output has rows of it.
    output: Option<usize>,
}

impl Cursor {
    fn key(&self) -> Option<Row<'_>> {
        self.batch.as_ref().map(|(_, keys)| keys.row(self.row))
    }

    /// The value of the leading column of the key, if it is a number.
    fn leading(&self) -> Option<i64> {
        let (batch, _) = self.batch.as_ref()?;
        let leading = batch[self.table.key()[0]].as_primitive_opt::<Int64Type>()?;
        Some(leading.value(self.row))
    }

    fn advance(
        &mut self,
        converter: &RowConverter,
        read: &mut dyn FnMut(u64) -> Result<(), LakeError>,
    ) -> Result<(), LakeError> {
        self.row += 1;
        match &self.batch {
            Some((batch, _)) if self.row < batch.num_rows() => Ok(()),
            _ => self.load(converter, read),
        }
    }

    /// Reads the next batch with rows.
    fn load(
        &mut self,
        converter: &RowConverter,
        read: &mut dyn FnMut(u64) -> Result<(), LakeError>,
    ) -> Result<(), LakeError> {
        (self.batch, self.row, self.output) = (None, 0, None);
        let Some(batch) =
            self.rows.find(|batch| !matches!(batch, Ok(rows) if rows.num_rows() == 0))
        else {
            return Ok(());
        };
        let batch = batch?;
        read(batch.num_rows() as u64)?;
        let columns: Vec<ArrayRef> =
            self.table.key().iter().map(|key| Arc::clone(&batch[*key])).collect();
        let keys = converter.convert_columns(&columns).expect("the columns have their types");
        self.batch = Some((batch, keys));
        Ok(())
    }
}

/// Rows to be written.
struct Output {
    series: SegmentSeries,
    batches: Vec<RecordBatch>,
    /// The batch and the row of each.
    places: Vec<(usize, usize)>,
    /// The leading key of the last row.
    last: Option<i64>,
}

impl Output {
    /// Adds the current row of an input.
    fn push(&mut self, cursor: &mut Cursor) -> Result<(), LakeError> {
        let leading = cursor.leading();
        if self.places.is_empty() && (leading.is_none() || leading != self.last) {
            self.series.boundary()?;
        }
        self.last = leading;
        let batch = *cursor.output.get_or_insert_with(|| {
            let (batch, _) = cursor.batch.as_ref().expect("the cursor is not at its end");
            self.batches.push(batch.clone());
            self.batches.len() - 1
        });
        self.places.push((batch, cursor.row));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), LakeError> {
        if !self.places.is_empty() {
            let batches = self.batches.iter().collect::<Vec<_>>();
            let rows = interleave_record_batch(&batches, &self.places);
            self.series.write(&rows.expect("the batches have one schema"))?;
        }
        self.batches.clear();
        self.places.clear();
        Ok(())
    }
}
