//! Observations and IR of the states of all lakes, each state once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::SchemaRef;

use super::error::MergeError;
use super::source::{Source, conform, gathered};
use crate::lake::decode::{order, state_id};
use crate::lake::scan::scan;
use crate::lake::segment_series::SegmentSeries;
use crate::lake::table::has_large_rows;
use crate::lake::{Lake, LakeError, ScanColumns, Segment, Table};
use crate::model::StateId;

/// Number of rows in a batch that is read, and in one that is written.
const ROWS: usize = 2048;
const LARGE_ROWS: usize = 64;

/// Sorted rows of states of one lake, from one file or several consecutive ones.
struct SortedRun {
    /// The place of the lake.
    lake: usize,
    /// The columns of the lake.
    schema: SchemaRef,
    segments: Vec<Segment>,
    hot: Vec<RecordBatch>,
}

/// Writes a table of states. Reads a bounded number of files at a time, a few rows of each.
pub(super) fn write(
    lake: &Lake,
    sources: &[Source],
    table: Table,
    files_at_once: usize,
    read: &mut dyn FnMut(usize),
) -> Result<Vec<Segment>, MergeError> {
    let files_max = (files_at_once / sources.len()).max(2);
    let (mut runs, mut interim) = (Vec::new(), Vec::new());
    for (place, source) in sources.iter().enumerate() {
        let run = |segments, hot| {
            let schema = source.snapshot.schema(table);
            SortedRun { lake: place, schema, segments, hot }
        };
        let sealed = source.snapshot.segments(table).iter();
        let mut of_lake =
            sealed.map(|segment| run(vec![segment.clone()], Vec::new())).collect::<Vec<_>>();
        let hot = source.hot(table).collect::<Vec<_>>();
        if !hot.is_empty() {
            of_lake.push(run(Vec::new(), hot));
        }
        while of_lake.len() > files_max {
            let rest = of_lake.split_off(files_max);
            let segments = merge_runs(lake, sources, table, &of_lake, &mut |_| ())?;
            interim.extend(segments.clone());
            of_lake = rest;
            let schema = Arc::clone(lake.schemas.get(table));
            of_lake.push(SortedRun { lake: place, schema, segments, hot: Vec::new() });
        }
        runs.extend(of_lake);
    }
    let segments = merge_runs(lake, sources, table, &runs, read)?;
    // The result may have the same content as a temporary file, and then has the same path.
    let unused = interim.iter().filter(|file| !segments.iter().any(|kept| kept.path == file.path));
    for file in unused {
        lake.disk.remove(&file.path)?;
    }
    Ok(segments)
}

/// The current row of a sorted run.
struct Cursor<'a> {
    lake: usize,
    rows: Box<dyn Iterator<Item = Result<RecordBatch, LakeError>> + 'a>,
    batch: Option<RecordBatch>,
    row: usize,
    /// The index of the batch in the output.
    output_index: Option<usize>,
}

impl Cursor<'_> {
    fn state(&self) -> Option<StateId> {
        let batch = self.batch.as_ref()?;
        Some(state_id(batch["state_id"].as_fixed_size_binary(), self.row))
    }

    fn advance(&mut self, read: &mut dyn FnMut(usize)) -> Result<(), LakeError> {
        self.row += 1;
        while self.batch.as_ref().is_none_or(|batch| self.row >= batch.num_rows()) {
            self.batch = self.rows.next().transpose()?;
            (self.row, self.output_index) = (0, None);
            match &self.batch {
                None => break,
                Some(batch) => read(batch.num_rows()),
            }
        }
        Ok(())
    }

    fn current(&self) -> RecordBatch {
        self.batch.as_ref().expect("the cursor is not at its end").slice(self.row, 1)
    }
}

/// Merges sorted runs into segments.
fn merge_runs(
    lake: &Lake,
    sources: &[Source],
    table: Table,
    runs: &[SortedRun],
    read: &mut dyn FnMut(usize),
) -> Result<Vec<Segment>, MergeError> {
    let schema = lake.schemas.get(table);
    let rows_max = if has_large_rows(schema) { LARGE_ROWS } else { ROWS };
    let mut cursors = Vec::new();
    for run in runs {
        let batches = scan(&run.schema, &run.segments, &run.hot, ScanColumns::All, rows_max);
        let rows = Box::new(batches.map(|batch| Ok(conform(&batch?, schema))));
        let mut cursor = Cursor { lake: run.lake, rows, batch: None, row: 0, output_index: None };
        cursor.advance(read)?;
        cursors.push(cursor);
    }
    let next =
        |cursor: &Cursor<'_>, place| cursor.state().map(|state| Reverse((order(state), place)));
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
        let chosen = choose(table, state, &same, &cursors, sources)?;
        output.push(&mut cursors, &chosen);
        for place in same {
            cursors[place].advance(read)?;
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
    fn push(&mut self, cursors: &mut [Cursor<'_>], chosen: &[usize]) {
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

/// Chooses one of the rows of a state for each column. Rows of `observations` must agree where they
/// have values, and the first value is chosen. Rows of `ir` must have equal bitcode, and the
/// smallest compressed form is chosen.
fn choose(
    table: Table,
    state: StateId,
    same: &[usize],
    cursors: &[Cursor<'_>],
    sources: &[Source],
) -> Result<Vec<usize>, MergeError> {
    let first = same[0];
    let columns = cursors[first].batch.as_ref().map_or(0, RecordBatch::num_columns);
    let mut chosen = vec![first; columns];
    if same.len() == 1 {
        return Ok(chosen);
    }
    let rows = same.iter().map(|&place| (place, cursors[place].current())).collect::<Vec<_>>();
    let differs = |first: usize, second: usize, what: String, advice| {
        let [first, second] = [first, second].map(|place| &sources[cursors[place].lake]);
        Err(MergeError::differs(what, first, second, advice))
    };
    if table == Table::Ir {
        let sha1 = &rows[0].1["bitcode_sha1"];
        if let Some((other, _)) = rows.iter().find(|(_, row)| &row["bitcode_sha1"] != sha1) {
            let advice = "one of the two lakes was not recorded by the compiler that it names; \
                          `steplake verify` finds out which";
            return differs(first, *other, format!("the bitcode of state {state} differs"), advice);
        }
        let packed =
            |(_, row): &&(usize, RecordBatch)| row["bitcode"].as_binary::<i32>().value(0).to_vec();
        let (smallest, _) = rows.iter().min_by_key(packed).expect("there are several rows");
        chosen.fill(*smallest);
        return Ok(chosen);
    }
    for (column, chosen) in chosen.iter_mut().enumerate() {
        let values = rows.iter().map(|(place, row)| (*place, row.column(column)));
        let mut values = values.filter(|(_, value)| value.is_valid(0));
        let Some((place, value)) = values.next() else { continue };
        if let Some((other, _)) = values.find(|(_, other)| *other != value) {
            let advice = "one of the two lakes was not recorded by the compiler that it names; \
                          `steplake verify --replay` finds out which";
            let what = format!("the observations of state {state} differ");
            return differs(place, other, what, advice);
        }
        *chosen = place;
    }
    Ok(chosen)
}
