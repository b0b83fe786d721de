//! Derived tables that were counted elsewhere: another program has read the steps, and written the
//! tables to a folder. They become the only layer of a lake, if they are those of the lake.
//!
//! # What is checked
//!
//! The [note](note) of the job says which steps it counted. The lake has to be of the same
//! identity, with the same retracted actions and the same numbers of runs.
//!
//! Each row is checked by itself, and the rows of the three tables against each other: they have to
//! follow from *some* steps by `layers::rule`. The [sum](super::sum) of all edges says early
//! whether these are other steps. In the end, the steps are counted here, and each row is compared
//! with what follows from them. So nothing is taken that a dedup would not have made.

mod note;
mod rows;
mod tables;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow::array::RecordBatch;

use self::note::Note;
use self::rows::RowCheck;
use self::tables::TableFiles;
use super::compare::wrong;
use super::sum::{EdgeSum, sum_of_steps};
use super::{DedupOptions, DedupReport, pass};
use crate::kernel::progress::demand;
use crate::kernel::{LakeError, LayerId, OnProgress, RecordBatches, Segment, Snapshot, Table};
use crate::layers::{Differences, Edge, LayerChange, LayerWriter, TableCursor};
use crate::upkeep::Maintenance;

/// Rows after which the caller is asked whether to go on.
const ASK_ROWS: u64 = 1 << 14;

/// Takes the tables in a folder, which another program has counted, as the derived tables of the
/// lake, in one transaction. They become its only layer. Steps that were sealed since they were
/// counted stay uncounted; nothing is sealed here. Calls `progress` with the steps read and the
/// total, also while it reads the tables; a break stops it.
///
/// The folder is only read. It may not change meanwhile.
///
/// # Errors
///
/// [`LakeError::OtherTables`] if these are not the tables of the lake, or if they lack steps that
/// the lake has counted; [`LakeError::Corrupt`] with a damaged file of the lake,
/// [`LakeError::DiskFull`] and other disk errors, [`LakeError::Interrupted`]. The tables of the
/// lake are then unchanged.
pub fn take_counted(
    maintenance: &mut Maintenance,
    folder: &Path,
    progress: &mut OnProgress<'_>,
) -> Result<DedupReport, LakeError> {
    let begun = Instant::now();
    let snapshot = maintenance.lake().sealed()?;
    let note = Note::read(folder)?;
    let refuse = |what| LakeError::OtherTables { path: folder.to_owned(), what };
    note.demand_of(&snapshot).map_err(refuse)?;
    let (steps, total) = counted_steps(&note, &snapshot).map_err(refuse)?;
    let mut at = |done| progress(done, total);
    let (wanted, counted) = sum_of_steps(&snapshot, &steps, &mut at)?;

    let known = snapshot.layers();
    let layer = LayerId(known.last_key_value().map_or(0, |(id, _)| id.0) + 1);
    let mut taken = Taken::new(folder, &note, &snapshot, maintenance, layer);
    let mut go_on = || at(total);
    let sum = taken.read(&snapshot, &mut go_on)?;
    sum.demand_equal(&wanted).map_err(refuse)?;
    demand(go_on())?;
    let written = taken.tables.iter().flat_map(|table| table.writer.durable()).collect();
    let retracted = snapshot.retracted_actions();
    let options = DedupOptions::default();
    let lake = maintenance.lake();
    let scattered = pass::scatter(lake, &snapshot, &steps, &retracted, &options, &mut |_| go_on())?;
    demand_no_difference(pass::compare(scattered, &[written], &mut go_on)?).map_err(refuse)?;
    demand(go_on())?;

    let detail = format!("{counted} steps counted elsewhere");
    let retire = known.into_values().flatten().cloned().collect();
    let counts = steps.into_iter().filter(|segment| !segment.is_counted).collect();
    let add = taken.tables.map(|table| table.writer).into();
    let change = LayerChange { retire, add, delete: Vec::new(), counted: counts, detail };
    let (_, added) = maintenance.publish(change)?;
    let elapsed = begun.elapsed();
    Ok(DedupReport { steps: counted, layers: 1, elapsed, ..DedupReport::of(added.iter()) })
}

/// Refuses tables that differ from the steps.
fn demand_no_difference(differences: Differences) -> Result<(), String> {
    match differences.0.into_iter().next() {
        None => Ok(()),
        Some(((table, difference), (edge, 1))) => {
            Err(format!("{edge} in {table} {}", wrong(difference)))
        }
        Some(((table, difference), (edge, count))) => {
            Err(format!("{edge} in {table} {}, and {} more", wrong(difference), count - 1))
        }
    }
}

/// The segments of steps that were counted, and their rows: the files that the note names, or all
/// if some of these are not here, as in a merge of the lakes that were counted. The sum of their
/// edges tells whether it is they.
fn counted_steps(note: &Note, snapshot: &Snapshot) -> Result<(Vec<Segment>, u64), String> {
    let all = snapshot.segments(Table::Steps);
    let named = all.iter().filter(|segment| note.names(segment)).cloned().collect::<Vec<_>>();
    let steps = if named.len() == note.files() { named } else { all.to_vec() };
    let is_left = |segment: &&Segment| !steps.iter().any(|taken| taken.path == segment.path);
    if let Some(left) = all.iter().filter(is_left).find(|segment| segment.is_counted) {
        let name = left.name();
        return Err(format!("they lack the steps of {name}, which the lake has counted"));
    }
    let rows = steps.iter().map(|segment| segment.rows).sum();
    Ok((steps, rows))
}

/// The tables on their way into a layer.
struct Taken<'a> {
    folder: PathBuf,
    note: &'a Note,
    /// Transitions, conflicts and failures.
    tables: [TakenTable<'a>; 3],
}

/// A table on its way into a layer.
struct TakenTable<'a> {
    files: TableFiles,
    check: RowCheck<'a>,
    writer: LayerWriter,
}

impl TakenTable<'_> {
    /// The rows of the table. Each batch is checked and then written before it is passed on.
    fn rows(&mut self, folder: &Path) -> RecordBatches<'_> {
        let Self { files, check, writer } = self;
        let folder = folder.to_owned();
        Box::new(files.batches().map(move |batch| {
            let batch: RecordBatch = batch?;
            let refused = |what| LakeError::OtherTables { path: folder.clone(), what };
            check.rows(&batch).map_err(refused)?;
            writer.write(check.table, &batch)?;
            Ok(batch)
        }))
    }
}

impl<'a> Taken<'a> {
    fn new(
        folder: &Path,
        note: &'a Note,
        snapshot: &'a Snapshot,
        maintenance: &Maintenance,
        layer: LayerId,
    ) -> Self {
        let tables = [Table::StateTransitions, Table::Conflicts, Table::Failures];
        let tables = tables.map(|table| TakenTable {
            files: TableFiles::of(folder, table, note.schema(table, snapshot), snapshot),
            check: RowCheck::new(table, snapshot),
            writer: maintenance.layer_writer(layer),
        });
        Self { folder: folder.to_owned(), note, tables }
    }

    /// Reads, checks and writes all rows. Returns the sum of their edges. What was written is
    /// durable, and not part of the lake yet.
    fn read(
        &mut self,
        snapshot: &Snapshot,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<EdgeSum, LakeError> {
        let Self { folder, note, tables } = self;
        let refuse = |what: String| LakeError::OtherTables { path: folder.clone(), what };
        let mut sum = EdgeSum::default();
        let [transitions, conflicts, failures] = &mut *tables;
        let open = |table: Table, rows| TableCursor::open(snapshot, table, rows);
        let mut failed = open(Table::Failures, failures.rows(folder))?;
        let mut led = open(Table::StateTransitions, transitions.rows(folder))?;
        let mut results = open(Table::Conflicts, conflicts.rows(folder))?;
        while let Some(row) = failed.row() {
            sum.add(row);
            failed.advance()?;
            ask(&sum, go_on)?;
        }
        let mut best = Vec::new();
        while let Some(transition) = led.row() {
            match add_results(&mut results, Edge(transition), &mut best, &mut sum)? {
                0 => sum.add(transition),
                count if count > 1 && best == transition => {}
                _ => return Err(refuse(contradicting(Edge(transition)))),
            }
            led.advance()?;
            ask(&sum, go_on)?;
        }
        if let Some(row) = results.row() {
            return Err(refuse(contradicting(Edge(row))));
        }
        drop((failed, led, results));
        for table in tables {
            note.demand_rows(table.check.table, table.check.count()).map_err(refuse)?;
            table.writer.sync()?;
        }
        Ok(sum)
    }
}

/// Adds the results of a (state, action) that has conflicts to the sum, and puts the most frequent
/// one into `best`. Returns how many there are.
fn add_results(
    results: &mut TableCursor<'_>,
    transition: Edge<'_>,
    best: &mut Vec<u64>,
    sum: &mut EdgeSum,
) -> Result<usize, LakeError> {
    let mut count = 0;
    while let Some(row) = results.row().filter(|row| Edge(row).leaves_as(transition)) {
        sum.add(row);
        count += 1;
        // Among equally frequent ones the first wins, which has the smallest next state.
        if count == 1 || Edge(row).count() > Edge(best).count() {
            best.clear();
            best.extend_from_slice(row);
        }
        results.advance()?;
    }
    Ok(count)
}

fn ask(sum: &EdgeSum, go_on: &mut dyn FnMut() -> ControlFlow<()>) -> Result<(), LakeError> {
    if sum.edges().is_multiple_of(ASK_ROWS) { demand(go_on()) } else { Ok(()) }
}

fn contradicting(edge: Edge<'_>) -> String {
    let (state, action) = (edge.state_before(), edge.action().0);
    format!("state_transitions and conflicts contradict each other on action {action} of {state}")
}
