//! Observations and IR of the states of all lakes, each state once.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::SchemaRef;

use super::error::MergeError;
use super::kept::Kept;
use super::source::SourceLake;
use crate::kernel::schema::state_rows::{
    Chosen, SameState, SortedRows, merge_states, rows_at_once,
};
use crate::kernel::segments::scan::scan;
use crate::kernel::{Lake, LakeError, ScanColumns, Segment, Table};

/// Sorted rows of states of one lake, from one file or several consecutive ones.
struct SortedRun {
    /// The place of the lake.
    lake: usize,
    /// The columns of the lake.
    schema: SchemaRef,
    segments: Vec<Segment>,
    hot: Vec<RecordBatch>,
    /// Whether it is one file, which the new lake has too if its rows are those of the new lake.
    is_kept: bool,
}

impl SortedRun {
    fn rows(&self, rows_max: usize) -> SortedRows<'_> {
        scan(&self.schema, &self.segments, &self.hot, ScanColumns::All, rows_max)
    }
}

/// Writes a table of states, except the rows of files that stay. Reads a bounded number of files at
/// a time, a few rows of each.
pub(super) fn write(
    lake: &Lake,
    sources: &[SourceLake],
    table: Table,
    files_at_once: usize,
    kept: &mut Kept,
    read: &mut dyn FnMut(usize),
) -> Result<Vec<Segment>, MergeError> {
    kept.retain_largest(&sources[0], table, files_at_once);
    let (segments, changed) = write_others(lake, sources, table, files_at_once, kept, read)?;
    if changed.is_empty() {
        return Ok(segments);
    }
    // Once more, with the rows of these files. All other files are known to stay.
    remove_except(lake, &segments, &[])?;
    kept.remove(&changed);
    let (segments, changed) = write_others(lake, sources, table, files_at_once, kept, &mut |_| ())?;
    assert!(changed.is_empty(), "the first pass has found all of them");
    Ok(segments)
}

/// Writes the rows that are not in files that stay. Also returns such files as cannot stay, since
/// one of their rows differs in the new lake.
fn write_others(
    lake: &Lake,
    sources: &[SourceLake],
    table: Table,
    files_at_once: usize,
    kept: &Kept,
    read: &mut dyn FnMut(usize),
) -> Result<(Vec<Segment>, BTreeSet<PathBuf>), MergeError> {
    let files_max = (files_at_once / sources.len()).max(2);
    let (mut runs, mut interim, mut changed) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (place, source) in sources.iter().enumerate() {
        let run = |segments, hot, is_kept| {
            let schema = source.snapshot.schema(table);
            SortedRun { lake: place, schema, segments, hot, is_kept }
        };
        let mut of_lake = Vec::new();
        for segment in source.files(table) {
            let is_kept = kept.has(place, segment);
            let file = run(vec![segment.clone()], Vec::new(), is_kept);
            if is_kept { runs.push(file) } else { of_lake.push(file) }
        }
        let hot = source.hot(table).collect::<Vec<_>>();
        if !hot.is_empty() {
            of_lake.push(run(Vec::new(), hot, false));
        }
        while of_lake.len() > files_max {
            let rest = of_lake.split_off(files_max);
            let segments = merge_runs(lake, sources, table, &of_lake, &mut changed, &mut |_| ())?;
            interim.extend(segments.clone());
            of_lake = rest;
            let schema = Arc::clone(lake.schemas.get(table));
            let hot = Vec::new();
            of_lake.push(SortedRun { lake: place, schema, segments, hot, is_kept: false });
        }
        runs.extend(of_lake);
    }
    let segments = merge_runs(lake, sources, table, &runs, &mut changed, read)?;
    remove_except(lake, &interim, &segments)?;
    Ok((segments, changed))
}

/// Removes files that were written for the time being. A segment of the result may have the same
/// content as one of them, and then has the same path.
fn remove_except(lake: &Lake, interim: &[Segment], result: &[Segment]) -> Result<(), LakeError> {
    let is_unused = |file: &&Segment| !result.iter().any(|kept| kept.path == file.path);
    interim.iter().filter(is_unused).try_for_each(|file| lake.disk.remove(&file.path))
}

/// Merges sorted runs into segments. Adds to `changed` the files that cannot stay.
fn merge_runs(
    lake: &Lake,
    sources: &[SourceLake],
    table: Table,
    runs: &[SortedRun],
    changed: &mut BTreeSet<PathBuf>,
    read: &mut dyn FnMut(usize),
) -> Result<Vec<Segment>, MergeError> {
    let rows_max = rows_at_once(lake.schemas.get(table));
    merge_states(
        lake,
        table,
        runs.iter().map(|run| run.rows(rows_max)).collect(),
        &mut |rows| choose_written(table, rows, runs, sources, changed),
        &mut |count| {
            read(count);
            Ok(())
        },
    )
}

/// Chooses the row of a state; none if it is that of a file which stays. Adds to `changed` the
/// files that cannot stay, since they have another row of the state.
fn choose_written(
    table: Table,
    same: &SameState<'_>,
    runs: &[SortedRun],
    sources: &[SourceLake],
    changed: &mut BTreeSet<PathBuf>,
) -> Result<Chosen, MergeError> {
    let mut kept = same.inputs.iter().copied().filter(|&run| runs[run].is_kept);
    let (first, second) = (kept.next(), kept.next());
    let Some(first) = first else {
        return choose(table, same, &|run| &sources[runs[run].lake]).map(Some);
    };
    if same.inputs.len() > 1 {
        let chosen = choose(table, same, &|run| &sources[runs[run].lake])?;
        let known = same.row(first);
        let is_same = |(column, &run): (usize, &usize)| {
            run == first || same.row(run).column(column) == known.column(column)
        };
        if second.is_some() || !chosen.iter().enumerate().all(is_same) {
            let kept = same.inputs.iter().map(|&run| &runs[run]).filter(|run| run.is_kept);
            changed.extend(kept.map(|run| run.segments[0].path.clone()));
        }
    }
    Ok(None)
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
