//! Several lakes into a new one.
//!
//! States are named by their content and runs by a random uid, so that bringing lakes together is a
//! union:
//!
//! - Runs are told by their uid and numbered anew by (`started_at_ms`, uid). An unfinished run
//!   stays unfinished.
//! - Episodes are told by their run and ordinal. One that several lakes have is the same recording,
//!   and has to be equal in all of them, to the wall times of its steps.
//! - States are told by their id: their observations have to be equal, and of their IR, which
//!   unpacks to the same bytes, the lesser packing is taken.
//! - Benchmarks are told by their URI, and have to stand for the same program.
//! - What one of the lakes retracted comes from none. Action flags, which say what a probe found
//!   out, are taken together.
//!
//! So the contents of the new lake do not depend on the order of the lakes, nor on whether they
//! were merged all at once or one after another; and a lake merged with itself or with an older
//! copy of itself stays as it was. Open episodes are left out. The lakes that are merged are only
//! read.
//!
//! # What is durable when
//!
//! The new lake is there once [`merge`] has returned `Ok`, and before that it is none: its
//! `lake.json` is written last. After an `Err` the folder is as it was before. Killed, it leaves a
//! folder with a file `merge.unfinished` and without `lake.json`; another merge into it begins
//! anew.

mod conflicts;
mod episodes;
mod folder;
mod runs;
mod states;

use std::path::{Path, PathBuf};

use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::datatypes::Int64Type;

pub use self::conflicts::{Conflict, new_conflicts};
use self::episodes::Episodes;
use self::folder::Folder;
use self::runs::Runs;
use super::seal::{masks, sorted_batches};
use super::writer::HotBatch;
use super::{Disk, Identity, Lake, ScanColumns, Segment, Snapshot, StoreError, Table};
use crate::model::StateId;

/// Files that are read at a time where each holds states of all kinds.
const FILES_AT_ONCE: usize = 64;

pub(super) use self::folder::UNFINISHED;

/// How a merge goes about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Files of states that are read at a time: where there are more, some are taken together
    /// first. The memory that a merge takes grows with it. It changes nothing of what the merge
    /// comes to.
    pub files_at_once: usize,
    /// Whether the hot rows of finished episodes are left out: the new lake has what is sealed, no
    /// more.
    pub sealed_only: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { files_at_once: FILES_AT_ONCE, sealed_only: false }
    }
}

/// What a merge did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The lakes, in the order given.
    pub sources: Vec<SourceReport>,
    /// Runs of the new lake.
    pub runs: u64,
    /// Rows of its tables, the recorded ones.
    pub rows: Vec<(Table, u64)>,
    /// Episodes that several of the lakes had.
    pub episodes_shared: u64,
    /// Episodes that were left out since one of the lakes retracted them.
    pub episodes_retracted: u64,
}

/// What was taken of one lake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceReport {
    /// The lake.
    pub path: PathBuf,
    /// Its closed episodes.
    pub episodes: u64,
    /// Its open episodes, which were left out.
    pub episodes_open: u64,
}

/// Why lakes cannot be merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A lake cannot be read, or the new one cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lakes are of different identities.
    #[error(
        "the lake at {} has {what} {in_first}, and the one at {} has {in_second}: only lakes of one \
         environment, compiler and choice of spaces can be merged",
        .first.display(),
        .second.display()
    )]
    OtherIdentity {
        /// What differs, e.g. `compiler`.
        what: &'static str,
        /// A lake.
        first: PathBuf,
        /// What it has.
        in_first: String,
        /// Another lake.
        second: PathBuf,
        /// What that one has.
        in_second: String,
    },
    /// One run has two stories.
    #[error(
        "run {uid} has other arguments in {} than in {}: one of the two lakes was tampered with",
        .first.display(),
        .second.display()
    )]
    RunDiffers {
        /// The run.
        uid: String,
        /// A lake that has it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// The new lake would lie in an old one.
    #[error("{} is a place in the lake {}: merge into a folder of its own", .into.display(), .lake.display())]
    Within {
        /// Where the new lake was to be.
        into: PathBuf,
        /// The lake around it.
        lake: PathBuf,
    },
    /// A URI stands for two programs.
    #[error(
        "{uri} is another program in {} than in {}: merge without one of the two, or retract the benchmark \
         (`steplake retract --benchmark`), which also leaves out what the other one has of the same runs",
        .first.display(),
        .second.display()
    )]
    OtherProgram {
        /// The benchmark.
        uri: String,
        /// A lake that has it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// A run was gone on with in two copies of one lake.
    #[error(
        "episode {ordinal} of run {uid} was recorded otherwise in {} than in {}: the run went on in both; \
         merge without one of the two, or retract the run (`steplake retract --run`), which leaves it out \
         altogether",
        .first.display(),
        .second.display()
    )]
    EpisodeDiffers {
        /// The run.
        uid: String,
        /// The episode's place in it.
        ordinal: u32,
        /// A lake that has it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// Two lakes saw one state differently.
    #[error(
        "the observations of state {state} are others in {} than in {}: one of the two was recorded by \
         something else than it says; `steplake verify --replay` finds out which",
        .first.display(),
        .second.display()
    )]
    ObservationsDiffer {
        /// The state.
        state: StateId,
        /// A lake that has it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// Two lakes store something else under the name of one state.
    #[error(
        "the IR of state {state} is other bitcode in {} than in {}: one of the two was recorded by something \
         else than it says; `steplake verify` finds out which",
        .first.display(),
        .second.display()
    )]
    IrDiffers {
        /// The state.
        state: StateId,
        /// A lake that has it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
}

type Batches<'a> = &'a mut dyn Iterator<Item = Result<RecordBatch, StoreError>>;

/// A lake that is merged: one moment of it.
struct Source {
    snapshot: Snapshot,
    hot: Vec<HotBatch>,
    /// Of each hot batch, the rows that are closed.
    closed: Vec<BooleanArray>,
}

impl Source {
    fn open(lake: &Lake, sealed_only: bool) -> Result<Self, StoreError> {
        let snapshot = if sealed_only { lake.sealed()? } else { lake.snapshot()? };
        let hot = Table::ALL.into_iter().flat_map(|table| {
            let batch = move |batch: &RecordBatch| HotBatch {
                seq: 0,
                table,
                batch: batch.clone(),
                bytes: 0,
            };
            snapshot.hot(table).iter().map(batch)
        });
        let hot = hot.collect::<Vec<_>>();
        let closed = masks(&hot);
        Ok(Self { snapshot, hot, closed })
    }

    fn path(&self) -> PathBuf {
        self.snapshot.path().to_owned()
    }

    /// The closed hot rows of a table, sorted by its key.
    fn hot(&self, table: Table) -> impl Iterator<Item = RecordBatch> + '_ {
        let of_table = self.hot.iter().zip(&self.closed).filter(|(hot, _)| hot.table == table);
        sorted_batches(table, &of_table.collect::<Vec<_>>())
    }

    /// Hands over the sealed and the closed hot rows of a table. Within a part they are sorted by
    /// the table's key; the steps of an episode are in one part.
    fn visit(
        &self,
        table: Table,
        columns: ScanColumns<'_>,
        part: &mut dyn FnMut(Batches<'_>) -> Result<(), MergeError>,
    ) -> Result<(), MergeError> {
        for segment in self.snapshot.segments(table) {
            part(&mut self.snapshot.scan_segment(segment, columns))?;
        }
        let places = columns.places(&self.snapshot.schema(table));
        let project =
            |batch: RecordBatch| Ok(batch.project(&places).expect("the places are of the schema"));
        part(&mut self.hot(table).map(project))
    }

    /// Whether each sealed file is what was written: no damage goes into the new lake.
    fn check(&self) -> Result<(), StoreError> {
        let recorded = Table::ALL.into_iter().filter(|table| !table.is_derived());
        recorded.flat_map(|table| self.snapshot.segments(table)).try_for_each(Segment::check)
    }

    fn open_episodes(&self) -> u64 {
        let steps = self.hot.iter().zip(&self.closed).filter(|(hot, _)| hot.table == Table::Steps);
        let mut open = std::collections::HashSet::new();
        for (hot, closed) in steps {
            let ids = hot.batch["episode_id"].as_primitive::<Int64Type>().values();
            let is_open = |row: &usize| *row >= closed.len() || !closed.value(*row);
            open.extend((0..ids.len()).filter(is_open).map(|row| ids[row]));
        }
        open.len() as u64
    }
}

/// Merges lakes into a new one, in a folder that is empty or not there yet. Its derived tables are
/// left to dedup. `progress` is told how many rows of how many are read.
///
/// # Errors
///
/// [`MergeError`] says what keeps the lakes from being merged. [`StoreError::NotALake`] when the
/// folder holds something, be it a lake. The folder is then as before, or, where the disk did not
/// let it be cleared, as a kill leaves it.
pub fn merge(
    disk: Disk,
    lakes: &[Lake],
    into: &Path,
    settings: &Settings,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Lake, Report), MergeError> {
    let identity = common_identity(lakes)?;
    let sources = lakes.iter().map(|lake| Source::open(lake, settings.sealed_only));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let runs = Runs::of(&sources)?;
    let within = |source: &&Lake| {
        let target = std::path::absolute(into).unwrap_or_else(|_| into.to_owned());
        std::path::absolute(source.path())
            .is_ok_and(|source| target != source && target.starts_with(source))
    };
    if let Some(source) = lakes.iter().find(within) {
        let (into, lake) = (into.to_owned(), source.path().to_owned());
        return Err(MergeError::Within { into, lake });
    }
    let folder = Folder::prepare(disk, into, &identity)?;
    let written = write(&folder, &sources, &runs, settings, progress);
    let done = written.and_then(|(segments, episodes)| {
        let detail = match sources.len() {
            1 => "1 lake".to_owned(),
            lakes => format!("{lakes} lakes"),
        };
        folder.publish(&runs, &segments, &detail)?;
        Ok((segments, episodes))
    });
    let (segments, episodes) = match done {
        Ok(done) => done,
        Err(error) => {
            folder.abandon();
            return Err(error);
        }
    };
    let lake = folder.complete()?;
    let rows = |table: Table| {
        let of_table = segments.iter().filter(|segment| segment.table == table);
        (table, of_table.map(|segment| segment.rows).sum())
    };
    let recorded = Table::ALL.into_iter().filter(|table| !table.is_derived());
    let report = Report {
        sources: sources.iter().map(source_report).collect(),
        runs: runs.rows.len() as u64,
        rows: recorded.map(rows).collect(),
        episodes_shared: episodes.shared(),
        episodes_retracted: episodes.retracted(),
    };
    Ok((lake, report))
}

fn source_report(source: &Source) -> SourceReport {
    SourceReport {
        path: source.path(),
        episodes: source.snapshot.rows(Table::Episodes),
        episodes_open: source.open_episodes(),
    }
}

fn write(
    folder: &Folder,
    sources: &[Source],
    runs: &Runs,
    settings: &Settings,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Vec<Segment>, Episodes), MergeError> {
    let tables = Table::ALL.into_iter().filter(|table| !table.is_derived());
    let of_table = |table| sources.iter().map(|source| source.snapshot.rows(table)).sum::<u64>();
    let total = tables.map(of_table).sum();
    let mut done = 0;
    let mut read = |rows: usize| {
        done += rows as u64;
        progress(done, total);
    };
    for source in sources {
        source.check()?;
    }
    let mut episodes = Episodes::default();
    let mut segments = episodes.write_rows(&folder.lake, sources, runs, &mut read)?;
    segments.extend(episodes.write_benchmarks(&folder.lake, sources, runs)?);
    segments.extend(episodes.write_steps(&folder.lake, sources, runs, &mut read)?);
    for table in [Table::Observations, Table::Ir] {
        segments.extend(states::write(&folder.lake, sources, table, settings, &mut read)?);
    }
    Ok((segments, episodes))
}

/// The identity that all of the lakes have. What probes found out about actions is taken together:
/// a flag that warns stays, one that promises stays where all have it.
fn common_identity(lakes: &[Lake]) -> Result<Identity, MergeError> {
    let (first, others) = lakes.split_first().expect("there is a lake to be merged");
    let mut common = first.identity().clone();
    for other in others {
        if let Some((what, in_first, in_second)) = first.identity().difference(other.identity()) {
            let (first, second) = (first.path().to_owned(), other.path().to_owned());
            return Err(MergeError::OtherIdentity { what, first, in_first, second, in_second });
        }
        let found =
            common.action_space.actions.iter_mut().zip(&other.identity().action_space.actions);
        for (action, other) in found {
            let (flags, other) = (&mut action.flags, other.flags);
            flags.replayable &= other.replayable;
            flags.crashes |= other.crashes;
            flags.slow |= other.slow;
            flags.never_changes &= other.never_changes;
        }
    }
    Ok(common)
}
