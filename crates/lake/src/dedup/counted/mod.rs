//! Derived tables that were counted elsewhere: another program has read the steps, and written the
//! tables to a folder. They become the only layer of a lake, if they are those of the lake.
//!
//! # What is checked
//!
//! The [note](note) of the job says which steps it counted. The lake has to be of the same
//! identity, with the same retracted actions and the same numbers of runs.
//!
//! Each row is checked by itself when it is read. Then the steps are counted here, and each
//! row of the three tables is compared with what follows from them. So nothing is taken that a
//! dedup would not have made.

mod note;
mod rows;
mod tables;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::note::Note;
use self::rows::RowCheck;
use self::tables::TableFiles;
use super::compare::wrong;
use super::{DedupOptions, DedupReport, pass};
use crate::kernel::progress::demand;
use crate::kernel::{LakeError, LayerId, OnProgress, Segment, Snapshot, Table};
use crate::layers::{Differences, LayerChange, LayerWriter};
use crate::upkeep::Maintenance;

/// Takes the tables in a folder, which another program has counted, as the derived tables of the
/// lake, in one transaction. They become its only layer. Steps that were sealed since they were
/// counted stay uncounted; nothing is sealed here. The options say with how much memory and how
/// many threads the steps are counted for the comparison. Calls `progress` with the steps read and
/// the total, also while it reads and compares the tables; a break stops it.
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
    options: DedupOptions,
    progress: &mut OnProgress<'_>,
) -> Result<DedupReport, LakeError> {
    let begun = Instant::now();
    let snapshot = maintenance.lake().sealed()?;
    let note = Note::read(folder)?;
    let refuse = |what| LakeError::OtherTables { path: folder.to_owned(), what };
    note.demand_of(&snapshot).map_err(refuse)?;
    let CountedSteps { segments: steps, lacking } =
        CountedSteps::of(&note, &snapshot).map_err(refuse)?;
    let total = steps.iter().map(|segment| segment.rows).sum();
    let mut at = |done| progress(done, total);

    let known = snapshot.layers();
    let layer = LayerId(known.last_key_value().map_or(0, |(id, _)| id.0) + 1);
    let mut taken = Taken::new(folder, &note, &snapshot, maintenance, layer);
    taken.read(&mut || at(0))?;
    let written = taken.tables.iter().flat_map(|table| table.writer.durable()).collect();
    let retracted = snapshot.retracted_actions();
    let lake = maintenance.lake();
    let scattered = pass::scatter(lake, &snapshot, &steps, &retracted, &options, &mut at)?;
    let counted = scattered.steps;
    let mut go_on = || at(total);
    let differences = pass::compare(scattered, &[written], &mut go_on)?;
    demand(go_on())?;
    if !differences.0.is_empty() {
        return Err(refuse(format!("{}{lacking}", in_words(differences))));
    }

    let detail = format!("{counted} steps counted elsewhere");
    let retire = known.into_values().flatten().cloned().collect();
    let counts = steps.into_iter().filter(|segment| !segment.is_counted).collect();
    let add = taken.tables.map(|table| table.writer).into();
    let change = LayerChange { retire, add, delete: Vec::new(), counted: counts, detail };
    let (_, added) = maintenance.publish(change)?;
    let elapsed = begun.elapsed();
    Ok(DedupReport { steps: counted, layers: 1, elapsed, ..DedupReport::of(added.iter()) })
}

/// Names the first difference of each table and kind, and their numbers.
fn in_words(differences: Differences) -> String {
    let worded = differences.0.into_iter().map(|((table, difference), (edge, count))| {
        let others = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        format!("{edge} in {table} {}{others}", wrong(difference))
    });
    worded.collect::<Vec<_>>().join("; ")
}

/// The steps that the tables should count.
struct CountedSteps {
    segments: Vec<Segment>,
    /// What a message adds if not all of the files that were counted are here.
    lacking: String,
}

impl CountedSteps {
    /// The segments that the note names, or all if some of these are not here, as in a merge of the
    /// lakes that were counted. The comparison shows whether they are the ones.
    fn of(note: &Note, snapshot: &Snapshot) -> Result<Self, String> {
        let all = snapshot.segments(Table::Steps);
        let named = all.iter().filter(|segment| note.names(segment)).cloned().collect::<Vec<_>>();
        if named.len() < note.files() {
            let (found, files) = (named.len(), note.files());
            let lacking = format!(
                ". The lake has {found} of the {files} files of steps that were counted: its steps \
                 may have changed since"
            );
            return Ok(Self { segments: all.to_vec(), lacking });
        }
        let is_left = |segment: &&Segment| !note.names(segment);
        if let Some(left) = all.iter().filter(is_left).find(|segment| segment.is_counted) {
            let name = left.name();
            return Err(format!("they lack the steps of {name}, which the lake has counted"));
        }
        Ok(Self { segments: named, lacking: String::new() })
    }
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

    /// Reads, checks and writes all rows. What was written is durable, and not part of the lake
    /// yet. Asks `go_on` meanwhile.
    fn read(&mut self, go_on: &mut dyn FnMut() -> ControlFlow<()>) -> Result<(), LakeError> {
        let Self { folder, note, tables } = self;
        let refuse = |what: String| LakeError::OtherTables { path: folder.clone(), what };
        for TakenTable { files, check, writer } in tables {
            for batch in files.batches() {
                let batch = batch?;
                check.rows(&batch).map_err(refuse)?;
                writer.write(check.table, &batch)?;
                demand(go_on())?;
            }
            note.demand_rows(check.table, check.count()).map_err(refuse)?;
            writer.sync()?;
        }
        Ok(())
    }
}
