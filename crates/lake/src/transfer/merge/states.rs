//! Observations and IR of the states of all lakes, each state once.

use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::SchemaRef;

use super::error::MergeError;
use super::source::SourceLake;
use crate::kernel::schema::state_rows::{SameState, SortedRows, merge_states, rows_at_once};
use crate::kernel::segments::scan::scan;
use crate::kernel::{Lake, ScanColumns, Segment, Table};

/// Sorted rows of states of one lake, from one file or several consecutive ones.
struct SortedRun {
    /// The place of the lake.
    lake: usize,
    /// The columns of the lake.
    schema: SchemaRef,
    segments: Vec<Segment>,
    hot: Vec<RecordBatch>,
}

impl SortedRun {
    fn rows(&self, rows_max: usize) -> SortedRows<'_> {
        scan(&self.schema, &self.segments, &self.hot, ScanColumns::All, rows_max)
    }
}

/// Writes a table of states. Reads a bounded number of files at a time, a few rows of each.
pub(super) fn write(
    lake: &Lake,
    sources: &[SourceLake],
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

/// Merges sorted runs into segments.
fn merge_runs(
    lake: &Lake,
    sources: &[SourceLake],
    table: Table,
    runs: &[SortedRun],
    read: &mut dyn FnMut(usize),
) -> Result<Vec<Segment>, MergeError> {
    let rows_max = rows_at_once(lake.schemas.get(table));
    let source = |run: usize| &sources[runs[run].lake];
    merge_states(
        lake,
        table,
        runs.iter().map(|run| run.rows(rows_max)).collect(),
        &mut |rows| choose(table, rows, &source).map(Some),
        &mut |count| {
            read(count);
            Ok(())
        },
    )
}

/// Chooses one of the rows of a state for each column. Rows of `observations` must agree where they
/// have values, and the first value is chosen. Rows of `ir` must have equal bitcode, and the
/// smallest compressed form is chosen.
fn choose<'a>(
    table: Table,
    same: &SameState<'_>,
    source: &dyn Fn(usize) -> &'a SourceLake,
) -> Result<Vec<usize>, MergeError> {
    let (state, mut chosen) = (same.state, same.all_of(same.inputs[0]));
    if same.inputs.len() == 1 {
        return Ok(chosen);
    }
    let rows = same.inputs.iter().map(|&place| (place, same.row(place))).collect::<Vec<_>>();
    let differs = |first: usize, second: usize, what: String, advice| {
        Err(MergeError::differs(what, source(first), source(second), advice))
    };
    if table == Table::Ir {
        let sha1 = &rows[0].1["bitcode_sha1"];
        if let Some((other, _)) = rows.iter().find(|(_, row)| &row["bitcode_sha1"] != sha1) {
            let advice = "either one of the two lakes was not recorded by the compiler that it \
                          names, which a verification of each finds out, or one of the two \
                          programs was forged to have the id of the other";
            let first = same.inputs[0];
            return differs(first, *other, format!("the IR of state {state} differs"), advice);
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
                          a verification that replays transitions finds out which";
            let what = format!("the observations of state {state} differ");
            return differs(place, other, what, advice);
        }
        *chosen = place;
    }
    Ok(chosen)
}
