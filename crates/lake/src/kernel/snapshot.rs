//! Snapshots: all rows of a lake at one moment.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use super::error::LakeError;
use super::handle::Lake;
use super::identity::Identity;
use super::ids::SnapshotId;
use super::other_tools;
use crate::kernel::files::lock::Lock;
use crate::kernel::schema::decode::{StepColumns, episode_ids};
use crate::kernel::schema::encode::{self, Schemas};
use crate::kernel::schema::rows::RunRow;
use crate::kernel::schema::table::Table;
use crate::kernel::segments::scan::{RecordBatches, SCAN_ROWS_MAX, ScanColumns, scan};
use crate::kernel::segments::segment::Segment;
use crate::kernel::versions::catalog;
use crate::kernel::versions::losses::{self, LossRow};
use crate::kernel::versions::manifest::{self, SnapshotRow};
use crate::kernel::versions::retractions::{self, RetractionKind, RetractionRow};
use crate::kernel::versions::sqlite::{self, Catalog};
use steplake_model::{ActionIndex, EpisodeId, StateId};

/// All rows at one moment: the files of the sealed rows, and the hot rows in memory.
///
/// Writers do not change it, and none of its files is deleted while it lives.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    id: SnapshotId,
    history: Vec<SnapshotRow>,
    identity: Arc<Identity>,
    pub(crate) schemas: Schemas,
    segments: [Vec<Segment>; Table::ALL.len()],
    hot: [Vec<RecordBatch>; Table::ALL.len()],
    runs: Vec<RunRow>,
    retractions: Vec<RetractionRow>,
    losses: Vec<LossRow>,
    dedup_inputs: Option<String>,
    /// The footers of the segments of `ir`, read when first needed.
    pub(crate) ir_footers: Vec<OnceLock<ArrowReaderMetadata>>,
    /// The places of the hot rows of `ir`: batch and row. Computed when first needed.
    pub(crate) ir_hot: OnceLock<HashMap<StateId, (usize, usize)>>,
    /// Keeps its files from being deleted.
    _readers: Option<Lock>,
}

/// Which rows a snapshot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// All present rows, including hot ones.
    Now,
    /// The rows that are sealed now.
    Sealed,
    /// The rows that were sealed in this snapshot.
    At(SnapshotId),
}

impl Moment {
    /// The number of the snapshot, given the list of all snapshots.
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
    /// All present rows. The hot log is read into memory.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if a frame of the hot log is damaged.
    pub fn snapshot(&self) -> Result<Snapshot, LakeError> {
        Snapshot::read(self, Moment::Now)
    }

    /// The present sealed rows: the newest snapshot without the hot log.
    ///
    /// # Errors
    ///
    /// If the catalog cannot be read.
    pub fn sealed(&self) -> Result<Snapshot, LakeError> {
        Snapshot::read(self, Moment::Sealed)
    }

    /// The present sealed rows, for a copy without hot rows. A run with hot closed episodes is not
    /// finished in it.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if a frame of the hot log is damaged.
    pub fn sealed_part(&self) -> Result<Snapshot, LakeError> {
        let mut snapshot = Snapshot::read(self, Moment::Now)?;
        let ids = snapshot.hot(Table::Episodes).iter().flat_map(episode_ids);
        let hot = ids.map(|&id| EpisodeId(id).run()).collect::<HashSet<_>>();
        for run in &mut snapshot.runs {
            run.finished &= !hot.contains(&run.id);
        }
        snapshot.hot = [const { Vec::new() }; Table::ALL.len()];
        Ok(snapshot)
    }

    /// The number of the newest snapshot. Reads only the list of snapshots.
    ///
    /// # Errors
    ///
    /// If the catalog cannot be read.
    pub fn newest(&self) -> Result<SnapshotId, LakeError> {
        let history = Catalog::open_for_reading(self)?.reading(manifest::snapshots)?;
        Moment::Sealed.find(&self.path, &history)
    }

    /// The rows that were sealed in snapshot `id`.
    ///
    /// # Errors
    ///
    /// [`LakeError::NoSnapshot`] if there is no snapshot of this number, or if it has expired.
    pub fn snapshot_at(&self, id: SnapshotId) -> Result<Snapshot, LakeError> {
        Snapshot::read(self, Moment::At(id))
    }
}

impl Snapshot {
    pub(crate) fn read(lake: &Lake, moment: Moment) -> Result<Self, LakeError> {
        // The lock comes first, so that no listed file is deleted before it is held.
        let readers = Lock::share(&lake.path);
        let catalog = Catalog::open_for_reading(lake)?;
        let transaction = catalog.read()?;
        let history = manifest::snapshots(&transaction).map_err(catalog.error())?;
        let id = moment.find(&lake.path, &history)?;
        // Within the transaction: `lake.json` names a column before any row has it.
        let lake = &lake.current()?;
        let (mut frames, mut lost) = (Vec::new(), Vec::new());
        let read = || {
            let mut segments = [const { Vec::new() }; Table::ALL.len()];
            for segment in manifest::segments(&transaction, lake, id)? {
                segments[segment.table as usize].push(segment);
            }
            if moment == Moment::Now {
                frames = catalog::frames(&transaction)?;
            }
            lost = manifest::lost(&transaction, lake, id)?;
            let ir = &segments[Table::Ir as usize];
            Ok(Self {
                path: lake.path.clone(),
                id,
                history,
                identity: Arc::clone(&lake.identity),
                schemas: lake.schemas.clone(),
                ir_footers: ir.iter().map(|_| OnceLock::new()).collect(),
                ir_hot: OnceLock::new(),
                segments,
                hot: [const { Vec::new() }; Table::ALL.len()],
                runs: catalog::runs(&transaction)?,
                retractions: retractions::list(&transaction, id)?,
                losses: losses::list(&transaction, id)?,
                dedup_inputs: manifest::derivation(&transaction, manifest::DEDUP)?,
                _readers: readers,
            })
        };
        let mut snapshot = read().map_err(catalog.error())?;
        drop(transaction);
        demand_whole(&lake.path, id, &lost)?;
        for placed in frames {
            let table = placed.frame.table;
            let batch = placed.frame.decode(lake.schemas.get(table), placed.seq, catalog.path())?;
            snapshot.hot[table as usize].push(batch);
        }
        Ok(snapshot)
    }

    /// The folder of the lake.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of its sealed part.
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// The number of the snapshot that other tools see now, if there is one.
    pub fn shown(&self) -> Option<SnapshotId> {
        other_tools::shown(&self.path)
    }

    /// The snapshots of the lake that have not expired, oldest first, including newer ones.
    pub fn history(&self) -> &[SnapshotRow] {
        &self.history
    }

    /// The identity of the lake.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The rows of `actions`, including those that the file of the table lacks.
    pub fn actions(&self) -> RecordBatch {
        encode::batch(self.schemas.get(Table::Actions), &self.identity.action_space.actions)
    }

    /// The columns of a table, the same for sealed and hot rows.
    pub fn schema(&self, table: Table) -> SchemaRef {
        Arc::clone(self.schemas.get(table))
    }

    /// The files with a table's sealed rows, oldest first.
    pub fn segments(&self, table: Table) -> &[Segment] {
        &self.segments[table as usize]
    }

    /// Whether it has hot rows.
    pub fn has_hot_rows(&self) -> bool {
        self.hot.iter().flatten().next().is_some()
    }

    /// A table's hot rows, including those of open episodes. Their order has no meaning: a seal and
    /// [`Writer::discard_open`](super::Writer::discard_open) append the rest of a frame again.
    pub fn hot(&self, table: Table) -> &[RecordBatch] {
        &self.hot[table as usize]
    }

    /// The number of rows of a table.
    pub fn rows(&self, table: Table) -> u64 {
        let sealed = self.segments(table).iter().map(|segment| segment.live_rows()).sum::<u64>();
        sealed + self.hot(table).iter().map(|batch| batch.num_rows() as u64).sum::<u64>()
    }

    /// The segments of `steps` that no layer counts yet.
    pub fn uncounted(&self) -> impl Iterator<Item = &Segment> {
        self.segments(Table::Steps).iter().filter(|segment| !segment.is_counted)
    }

    /// The number of hot steps with an action, of closed episodes. Dedup counts them once they are
    /// sealed.
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

    /// The runs, oldest first, as they were when this was read, not when it was sealed.
    pub fn runs(&self) -> &[RunRow] {
        &self.runs
    }

    /// The retractions up to this snapshot, oldest first.
    pub fn retractions(&self) -> &[RetractionRow] {
        &self.retractions
    }

    /// The indices of the actions that were retracted.
    pub fn retracted_actions(&self) -> Vec<ActionIndex> {
        let retracted = self.retractions.iter().filter(|row| row.kind == RetractionKind::Action);
        let space = &self.identity.action_space;
        retracted.filter_map(|row| space.index_of(&row.value)).collect()
    }

    /// The losses up to this snapshot, oldest first.
    pub fn losses(&self) -> &[LossRow] {
        &self.losses
    }

    /// How the newest derived tables were made: a text of the dedup. None before the first dedup.
    pub fn dedup_inputs(&self) -> Option<&str> {
        self.dedup_inputs.as_deref()
    }

    /// Reads a table in batches of bounded size, sealed rows before hot ones. A batch has the
    /// requested columns in the table's order.
    ///
    /// # Panics
    ///
    /// If the table has no column of one of these names.
    pub fn scan(&self, table: Table, columns: ScanColumns<'_>) -> RecordBatches<'_> {
        let (schema, sealed) = (self.schemas.get(table), self.segments(table));
        scan(schema, sealed, self.hot(table), columns, SCAN_ROWS_MAX)
    }

    /// Reads one segment of this snapshot as [`scan`](Self::scan) reads a table.
    ///
    /// # Panics
    ///
    /// If the table has no column of one of these names.
    pub fn scan_segment<'a>(
        &'a self,
        segment: &'a Segment,
        columns: ScanColumns<'_>,
    ) -> RecordBatches<'a> {
        segment.scan(&self.schemas, columns)
    }
}

/// Refuses a snapshot with files that a repair found damaged.
pub(crate) fn demand_whole(
    lake: &Path,
    wanted: SnapshotId,
    lost: &[Segment],
) -> Result<(), LakeError> {
    let Some(Segment { path: file, .. }) = lost.first() else { return Ok(()) };
    Err(LakeError::LostSnapshot { path: lake.to_owned(), wanted, file: file.clone() })
}
