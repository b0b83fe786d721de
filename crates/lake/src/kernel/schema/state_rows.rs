//! Rows of states from several inputs, merged into segments that have each state once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::{AsArray as _, RecordBatch, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::{FieldRef, SchemaRef};

use super::table::{Table, has_large_rows};
use crate::kernel::error::LakeError;
use crate::kernel::handle::Lake;
use crate::kernel::segments::segment::Segment;
use crate::kernel::segments::segment_series::SegmentSeries;
use steplake_model::StateId;

/// Number of rows in a batch that is read, and in one that is written.
const ROWS: usize = 2048;
const LARGE_ROWS: usize = 64;

/// The number of rows of the batches in which inputs should come: each input has one in memory.
pub(crate) fn rows_at_once(schema: &SchemaRef) -> usize {
    if has_large_rows(schema) { LARGE_ROWS } else { ROWS }
}

/// Rows of a table of states, sorted by its key, each state once.
pub(crate) type SortedRows<'a> = Box<dyn Iterator<Item = Result<RecordBatch, LakeError>> + 'a>;

/// The batch with the columns of `schema`: its own by name, and null where it lacks one.
pub(crate) fn conform(batch: &RecordBatch, schema: &SchemaRef) -> RecordBatch {
    if batch.schema_ref() == schema {
        return batch.clone();
    }
    let rows = batch.num_rows();
    let column = |field: &FieldRef| match batch.column_by_name(field.name()) {
        Some(column) => Arc::clone(column),
        None => new_null_array(field.data_type(), rows),
    };
    let columns = schema.fields().iter().map(column).collect();
    RecordBatch::try_new(Arc::clone(schema), columns).expect("columns of one name have one type")
}

/// Makes a batch whose values come from several ones. `places` has, for each column, the batch and
/// the row of each value.
pub(crate) fn gathered(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    places: &[Vec<(usize, usize)>],
) -> RecordBatch {
    let column = |(column, places): (usize, &Vec<_>)| {
        let arrays = batches.iter().map(|batch| batch.column(column).as_ref()).collect::<Vec<_>>();
        interleave(&arrays, places).expect("the rows are in the batches")
    };
    let columns = places.iter().enumerate().map(column).collect();
    RecordBatch::try_new(Arc::clone(schema), columns).expect("the batches have the schema")
}

/// The rows of one state.
pub(crate) struct SameState<'a> {
    pub(crate) state: StateId,
    /// The numbers of the inputs that have a row of the state, in ascending order.
    pub(crate) inputs: &'a [usize],
    cursors: &'a [RowCursor<'a>],
}

impl SameState<'_> {
    /// The row in an input: a batch of one row, in the columns of the lake.
    pub(crate) fn row(&self, input: usize) -> RecordBatch {
        let cursor = &self.cursors[input];
        cursor.batch.as_ref().expect("the cursor is not at its end").slice(cursor.row, 1)
    }

    /// The choice of one input for all columns.
    pub(crate) fn all_of(&self, input: usize) -> Vec<usize> {
        let batch = self.cursors[input].batch.as_ref();
        vec![input; batch.map_or(0, RecordBatch::num_columns)]
    }
}

/// For each column of a row that is written, the input from which it is taken; none if no row is.
pub(crate) type Chosen = Option<Vec<usize>>;

/// Merges sorted inputs into segments of `table`. For each state, `choose` returns where its
/// row comes from, or none to leave the state out. Calls `read` with the number of rows
/// of each batch that is read. Keeps one batch of each input in memory, and the rows of one that is
/// written.
///
/// The segments are durable, and not part of the lake yet.
///
/// # Errors
///
/// Those of the inputs, of the disk, of `choose` and of `read`.
pub(crate) fn merge_states<E: From<LakeError>>(
    lake: &Lake,
    table: Table,
    inputs: Vec<SortedRows<'_>>,
    choose: &mut dyn FnMut(&SameState<'_>) -> Result<Chosen, E>,
    read: &mut dyn FnMut(usize) -> Result<(), E>,
) -> Result<Vec<Segment>, E> {
    let schema = lake.schemas.get(table);
    let rows_max = rows_at_once(schema);
    let mut cursors = Vec::new();
    for rows in inputs {
        let mut cursor = RowCursor { rows, batch: None, row: 0, output_index: None };
        cursor.advance(schema, read)?;
        cursors.push(cursor);
    }
    let next =
        |cursor: &RowCursor<'_>, place| cursor.state().map(|state| Reverse((state.order(), place)));
    let mut heap: BinaryHeap<_> =
        cursors.iter().enumerate().filter_map(|(place, cursor)| next(cursor, place)).collect();
    let mut output = Output {
        series: SegmentSeries::new(lake, table),
        schema: Arc::clone(schema),
        batches: Vec::new(),
        places: vec![Vec::new(); schema.fields().len()],
    };
    while let Some(Reverse(((key, state), first))) = heap.pop() {
        let mut same = vec![first];
        while let Some(Reverse((other, place))) = heap.peek()
            && *other == (key, state)
        {
            same.push(*place);
            heap.pop();
        }
        let rows = SameState { state, inputs: &same, cursors: &cursors };
        if let Some(chosen) = choose(&rows)? {
            output.push(&mut cursors, &chosen);
        }
        for place in same {
            cursors[place].advance(schema, read)?;
            heap.extend(next(&cursors[place], place));
        }
        if output.places[0].len() >= rows_max {
            output.flush()?;
            for cursor in &mut cursors {
                cursor.output_index = None;
            }
        }
    }
    output.flush()?;
    Ok(output.series.finish()?)
}

/// The current row of an input.
struct RowCursor<'a> {
    rows: SortedRows<'a>,
    batch: Option<RecordBatch>,
    row: usize,
    /// The index of the batch in the output.
    output_index: Option<usize>,
}

impl RowCursor<'_> {
    fn state(&self) -> Option<StateId> {
        let batch = self.batch.as_ref()?;
        Some(StateId::from_slice(batch["state_id"].as_fixed_size_binary().value(self.row)))
    }

    fn advance<E: From<LakeError>>(
        &mut self,
        schema: &SchemaRef,
        read: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        self.row += 1;
        while self.batch.as_ref().is_none_or(|batch| self.row >= batch.num_rows()) {
            let batch = self.rows.next().transpose()?;
            self.batch = batch.map(|batch| conform(&batch, schema));
            (self.row, self.output_index) = (0, None);
            match &self.batch {
                None => break,
                Some(batch) => read(batch.num_rows())?,
            }
        }
        Ok(())
    }
}

/// Rows to be written.
struct Output {
    series: SegmentSeries,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// For each column, the batch and the row of each value.
    places: Vec<Vec<(usize, usize)>>,
}

impl Output {
    /// Adds a row that has each column from the current row of one of the cursors.
    fn push(&mut self, cursors: &mut [RowCursor<'_>], chosen: &[usize]) {
        for (places, &place) in self.places.iter_mut().zip(chosen) {
            let cursor = &mut cursors[place];
            let batch = *cursor.output_index.get_or_insert_with(|| {
                self.batches.push(cursor.batch.clone().expect("the cursor is not at its end"));
                self.batches.len() - 1
            });
            places.push((batch, cursor.row));
        }
    }

    fn flush(&mut self) -> Result<(), LakeError> {
        if !self.batches.is_empty() {
            self.series.write(&gathered(&self.schema, &self.batches, &self.places))?;
            self.series.boundary()?;
        }
        self.batches.clear();
        self.places.iter_mut().for_each(Vec::clear);
        Ok(())
    }
}
