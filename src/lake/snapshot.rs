use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use super::catalog;
use super::decode::{StepColumns, episode_ids};
use super::encode::{self, Schemas};
use super::error::LakeError;
use super::handle::Lake;
use super::identity::Identity;
use super::ids::SnapshotId;
use super::lock::ReadersLock;
use super::losses::{self, LossRow};
use super::manifest::{self, SnapshotRow};
use super::retractions::{self, RetractionKind, RetractionRow};
use super::rows::RunRow;
use super::scan::{Scan, ScanColumns};
use super::segment::Segment;
use super::sqlite::{self, Catalog};
use super::table::Table;
use crate::model::{EpisodeId, StateId};

/// All rows of one moment: sealed ones by the files that hold them, hot ones in memory.
///
/// It is what it is, whatever writers do meanwhile: while it lives, no file of it is deleted.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    id: SnapshotId,
    history: Vec<SnapshotRow>,
    identity: Arc<Identity>,
    schemas: Schemas,
    segments: [Vec<Segment>; Table::ALL.len()],
    hot: [Vec<RecordBatch>; Table::ALL.len()],
    runs: Vec<RunRow>,
    retractions: Vec<RetractionRow>,
    losses: Vec<LossRow>,
    dedup_inputs: Option<String>,
    /// The footers of the segments of `ir`, read at first need.
    pub(crate) ir_footers: Vec<OnceLock<ArrowReaderMetadata>>,
    /// Where the hot rows of `ir` are: batch and row. Made at first need.
    pub(crate) ir_hot: OnceLock<HashMap<StateId, (usize, usize)>>,
    /// Keeps its files.
    _readers: Option<ReadersLock>,
}

/// Which rows a snapshot is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// All that there are now, hot ones too.
    Now,
    /// Those that are sealed now.
    Sealed,
    /// Those that were sealed then.
    At(SnapshotId),
}

impl Moment {
    /// The number of the snapshot, given those that there are.
    pub(crate) fn find(
        self,
        lake: &Path,
        history: &[SnapshotRow],
    ) -> Result<SnapshotId, LakeError> {
        let (Some(oldest), Some(newest)) = (history.first(), history.last()) else {
            let log = lake.join(sqlite::FILE_NAME);
            return Err(LakeError::corrupt(&log, "it lists no snapshot"));
        };
        let (oldest, newest) = (oldest.id, newest.id);
        match self {
            Self::Now | Self::Sealed => Ok(newest),
            Self::At(id) if history.iter().any(|row| row.id == id) => Ok(id),
            Self::At(wanted) => {
                Err(LakeError::NoSnapshot { path: lake.to_owned(), wanted, oldest, newest })
            }
        }
    }
}

impl Lake {
    /// All rows of this moment. The hot log is read into memory.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when a frame of the hot log is damaged.
    pub fn snapshot(&self) -> Result<Snapshot, LakeError> {
        Snapshot::read(self, Moment::Now)
    }

    /// The sealed rows of this moment: the newest snapshot without the hot log.
    ///
    /// # Errors
    ///
    /// When the catalog cannot be read.
    pub fn sealed(&self) -> Result<Snapshot, LakeError> {
        Snapshot::read(self, Moment::Sealed)
    }

    /// The sealed rows of this moment, for a copy that has no others: a run of which closed
    /// episodes are hot is not finished in it.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when a frame of the hot log is damaged.
    pub fn sealed_part(&self) -> Result<Snapshot, LakeError> {
        let mut snapshot = Snapshot::read(self, Moment::Now)?;
        let mut hot = HashSet::new();
        for batch in snapshot.hot(Table::Episodes) {
            let ids = episode_ids(batch).iter();
            hot.extend(ids.map(|&id| EpisodeId(id).run()));
        }
        for run in &mut snapshot.runs {
            run.finished &= !hot.contains(&run.id);
        }
        snapshot.hot = [const { Vec::new() }; Table::ALL.len()];
        Ok(snapshot)
    }

    /// The number of the newest snapshot. Nothing else is read, and nothing is kept.
    ///
    /// # Errors
    ///
    /// When the catalog cannot be read.
    pub fn newest(&self) -> Result<SnapshotId, LakeError> {
        let catalog = Catalog::open_for_reading(self)?;
        let transaction = catalog.read()?;
        let history = manifest::snapshots(&transaction).map_err(catalog.error())?;
        Moment::Sealed.find(&self.path, &history)
    }

    /// The rows that were sealed in snapshot `id`.
    ///
    /// # Errors
    ///
    /// [`LakeError::NoSnapshot`] when there is none of this number, or none any more.
    pub fn snapshot_at(&self, id: SnapshotId) -> Result<Snapshot, LakeError> {
        Snapshot::read(self, Moment::At(id))
    }
}

impl Snapshot {
    pub(crate) fn read(lake: &Lake, moment: Moment) -> Result<Self, LakeError> {
        let lake = &lake.current()?;
        // First, so that no file is deleted between the manifest and the lock.
        let readers = ReadersLock::share(&lake.path);
        let catalog = Catalog::open_for_reading(lake)?;
        let transaction = catalog.read()?;
        let history = manifest::snapshots(&transaction).map_err(catalog.error())?;
        let id = moment.find(&lake.path, &history)?;
        let read = || {
            let segments = manifest::segments(&transaction, lake, id)?;
            let runs = catalog::runs(&transaction)?;
            let dedup_inputs = manifest::derivation(&transaction, manifest::DEDUP)?;
            let hot = moment == Moment::Now;
            let frames = if hot { catalog::frames(&transaction)? } else { Vec::new() };
            let retractions = retractions::list(&transaction, id)?;
            let losses = losses::list(&transaction, id)?;
            let lost = manifest::lost(&transaction, lake, id)?;
            Ok((segments, runs, dedup_inputs, frames, retractions, losses, lost))
        };
        let (listed, runs, dedup_inputs, frames, retractions, losses, lost) =
            read().map_err(catalog.error())?;
        drop(transaction);
        demand_whole(&lake.path, id, &lost)?;
        let mut segments = [const { Vec::new() }; Table::ALL.len()];
        for segment in listed {
            segments[segment.table as usize].push(segment);
        }
        let mut hot = [const { Vec::new() }; Table::ALL.len()];
        for placed in frames {
            let table = placed.frame.table;
            let batch = placed.frame.decode(lake.schemas.get(table), placed.seq, catalog.path())?;
            hot[table as usize].push(batch);
        }
        let ir_footers = segments[Table::Ir as usize].iter().map(|_| OnceLock::new()).collect();
        Ok(Self {
            path: lake.path.clone(),
            id,
            history,
            identity: Arc::clone(&lake.identity),
            schemas: lake.schemas.clone(),
            segments,
            hot,
            runs,
            retractions,
            losses,
            dedup_inputs,
            ir_footers,
            ir_hot: OnceLock::new(),
            _readers: readers,
        })
    }

    /// Where the lake lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its number: of what is sealed in it.
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// The snapshots of the lake that have not expired, oldest first, be they newer than this one.
    pub fn history(&self) -> &[SnapshotRow] {
        &self.history
    }

    /// What the lake is a lake of.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The rows of `actions`, with those that are newer than the file of the table.
    pub fn actions(&self) -> RecordBatch {
        encode::actions(self.schemas.get(Table::Actions), &self.identity.action_space.actions)
    }

    /// The columns of a table, the same for sealed and hot rows.
    pub fn schema(&self, table: Table) -> SchemaRef {
        Arc::clone(self.schemas.get(table))
    }

    /// The files that hold a table's sealed rows, oldest first.
    pub fn segments(&self, table: Table) -> &[Segment] {
        &self.segments[table as usize]
    }

    /// Whether it has rows that were not sealed.
    pub fn has_hot_rows(&self) -> bool {
        self.hot.iter().flatten().next().is_some()
    }

    /// A table's hot rows; those of open episodes are among them. They come in no order that says
    /// anything: a seal, and taking open episodes back, append what stays of a frame anew.
    pub fn hot(&self, table: Table) -> &[RecordBatch] {
        &self.hot[table as usize]
    }

    /// How many rows a table has.
    pub fn rows(&self, table: Table) -> u64 {
        let sealed = self.segments(table).iter().map(|segment| segment.rows).sum::<u64>();
        sealed + self.hot(table).iter().map(|batch| batch.num_rows() as u64).sum::<u64>()
    }

    pub(crate) fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    /// The segments of `steps` whose steps no layer counts yet.
    pub fn uncounted(&self) -> impl Iterator<Item = &Segment> {
        self.segments(Table::Steps).iter().filter(|segment| !segment.is_counted)
    }

    /// Hot steps with an action of closed episodes: dedup counts them once they are sealed.
    pub fn closed_hot_steps(&self) -> u64 {
        let hot = self.hot(Table::Episodes).iter();
        let closed: HashSet<i64> = hot.flat_map(episode_ids).copied().collect();
        let count = |batch: &RecordBatch| {
            let steps = StepColumns::of(batch);
            let actions = steps.actions();
            let counts =
                |&row: &usize| actions.is_there(row) && closed.contains(&steps.episodes[row]);
            (0..steps.rows()).filter(counts).count() as u64
        };
        self.hot(Table::Steps).iter().map(count).sum()
    }

    /// The runs, in the order in which they were begun: those of the moment when this was read, not
    /// of the moment when it was sealed.
    pub fn runs(&self) -> &[RunRow] {
        &self.runs
    }

    /// What was taken back up to this snapshot, oldest first.
    pub fn retractions(&self) -> &[RetractionRow] {
        &self.retractions
    }

    /// The indices of the actions whose transitions were taken back.
    pub fn retracted_actions(&self) -> Vec<i32> {
        let actions = self.retractions.iter().filter(|row| row.kind == RetractionKind::Action);
        let space = &self.identity.action_space.actions;
        let index = |row: &RetractionRow| {
            space
                .iter()
                .position(|action| action.name == row.value)
                .and_then(|at| i32::try_from(at).ok())
        };
        actions.filter_map(index).collect()
    }

    /// What repairs had to drop up to this snapshot, oldest first.
    pub fn losses(&self) -> &[LossRow] {
        &self.losses
    }

    /// How the newest derived tables were made, in the words of who made them; none before the
    /// first dedup.
    pub fn dedup_inputs(&self) -> Option<&str> {
        self.dedup_inputs.as_deref()
    }

    /// Reads a table batch by batch, sealed rows before hot ones, a bounded number of rows at a
    /// time. A batch has the columns asked for in the table's order.
    ///
    /// # Panics
    ///
    /// When the table has no column of one of these names.
    pub fn scan(&self, table: Table, columns: ScanColumns<'_>) -> Scan<'_> {
        Scan::new(self.schemas.get(table), self.segments(table), self.hot(table), columns)
    }

    /// Reads one segment of this snapshot as [`scan`](Self::scan) reads a table.
    ///
    /// # Panics
    ///
    /// When the table has no column of one of these names.
    pub fn scan_segment<'a>(&'a self, segment: &'a Segment, columns: ScanColumns<'_>) -> Scan<'a> {
        Scan::new(self.schemas.get(segment.table), std::slice::from_ref(segment), &[], columns)
    }
}

/// Refuses a snapshot that had files which a repair found damaged.
pub(crate) fn demand_whole(
    lake: &Path,
    wanted: SnapshotId,
    lost: &[Segment],
) -> Result<(), LakeError> {
    match lost.first() {
        None => Ok(()),
        Some(segment) => Err(LakeError::LostSnapshot {
            path: lake.to_owned(),
            wanted,
            file: segment.path.clone(),
        }),
    }
}
