use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use super::batch::Schemas;
use super::catalog::{self, Catalog};
use super::lock::ReadersLock;
use super::{
    Identity, KeyRange, Lake, Layer, LayerId, LayeredTable, LossRow, RetractionKind, RetractionRow,
    RunRow, Scan, ScanColumns, Segment, SnapshotId, SnapshotRow, StoreError, Table, losses,
    manifest, repair, retractions,
};
use crate::model::StateId;

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
    pub(super) ir_footers: Vec<OnceLock<ArrowReaderMetadata>>,
    /// Where the hot rows of `ir` are: batch and row. Made at first need.
    pub(super) ir_hot: OnceLock<HashMap<StateId, (usize, usize)>>,
    /// Keeps its files.
    _readers: Option<ReadersLock>,
}

/// Which rows a snapshot is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// All that there are now, hot ones too.
    Now,
    /// Those that are sealed now.
    Sealed,
    /// Those that were sealed then.
    At(SnapshotId),
}

impl Moment {
    /// The number of the snapshot, given those that there are.
    pub(super) fn find(
        self,
        lake: &Path,
        history: &[SnapshotRow],
    ) -> Result<SnapshotId, StoreError> {
        let (Some(oldest), Some(newest)) = (history.first(), history.last()) else {
            let log = lake.join(catalog::FILE_NAME);
            return Err(StoreError::corrupt(&log, "it lists no snapshot"));
        };
        let (oldest, newest) = (oldest.id, newest.id);
        match self {
            Self::Now | Self::Sealed => Ok(newest),
            Self::At(id) if history.iter().any(|row| row.id == id) => Ok(id),
            Self::At(wanted) => {
                Err(StoreError::NoSnapshot { path: lake.to_owned(), wanted, oldest, newest })
            }
        }
    }
}

impl Snapshot {
    pub(super) fn read(lake: &Lake, moment: Moment) -> Result<Self, StoreError> {
        // First, so that no file is deleted between the manifest and the lock.
        let readers = ReadersLock::share(&lake.path);
        let catalog = Catalog::open_for_reading(&lake.path, &lake.identity, &lake.disk)?;
        let transaction = catalog.read()?;
        let history = manifest::snapshots(&transaction).map_err(catalog.error())?;
        let id = moment.find(&lake.path, &history)?;
        demand_finished(&lake.path, id, &history)?;
        let read = || {
            let segments = manifest::segments(&transaction, lake, id)?;
            let runs = catalog::runs(&transaction)?;
            let dedup_inputs = manifest::derivation(&transaction, "dedup")?;
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

    /// The segments of the derived tables by their layers. Each layer's segments of one table are
    /// sorted by its key, one after another.
    pub fn layers(&self) -> BTreeMap<LayerId, Vec<&Segment>> {
        let mut layers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for segment in self.segments.iter().flatten() {
            if let Some(layer) = segment.layer {
                layers.entry(layer).or_default().push(segment);
            }
        }
        layers
    }

    /// The layers of the derived tables, the oldest first.
    pub fn layers_by_age(&self) -> Vec<(LayerId, Layer)> {
        let layer = |(id, segments): (LayerId, Vec<&Segment>)| {
            let mut layer = Layer::default();
            for segment in segments {
                layer.push(segment.clone());
            }
            (id, layer)
        };
        self.layers().into_iter().map(layer).collect()
    }

    /// Reads a range of a derived table over all layers, in the order of the table's key, a bounded
    /// number of rows at a time.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when a file cannot be read.
    ///
    /// # Panics
    ///
    /// When the table is not a derived one.
    pub fn scan_layers(&self, table: Table, range: &KeyRange) -> Result<LayeredTable, StoreError> {
        self.scan_layers_in(table, std::slice::from_ref(range))
    }

    /// As [`scan_layers`](Self::scan_layers), in several ranges: only pages that may hold wanted
    /// keys are read.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when a file cannot be read.
    ///
    /// # Panics
    ///
    /// When the table is not a derived one, or the ranges do not ascend apart from each other.
    pub fn scan_layers_in(
        &self,
        table: Table,
        ranges: &[KeyRange],
    ) -> Result<LayeredTable, StoreError> {
        let layers = self.layers_by_age().into_iter().map(|(_, layer)| layer).collect::<Vec<_>>();
        LayeredTable::open(table, &layers, &self.identity, &self.schemas, ranges)
    }

    pub(super) fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    /// The segments of `steps` whose steps no layer counts yet.
    pub fn uncounted(&self) -> impl Iterator<Item = &Segment> {
        self.segments(Table::Steps).iter().filter(|segment| !segment.is_counted)
    }

    /// Hot steps with an action of closed episodes: dedup counts them once they are sealed.
    pub fn closed_hot_steps(&self) -> u64 {
        let episodes =
            |batch: &RecordBatch| batch["episode_id"].as_primitive::<Int64Type>().clone();
        let hot = self.hot(Table::Episodes).iter();
        let closed: HashSet<i64> =
            hot.flat_map(|batch| episodes(batch).values().to_vec()).collect();
        let count = |batch: &RecordBatch| {
            let of_closed =
                episodes(batch).values().iter().map(|id| closed.contains(id)).collect::<Vec<_>>();
            let with_action = |&row: &usize| of_closed[row] && batch["action"].is_valid(row);
            (0..batch.num_rows()).filter(with_action).count() as u64
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
    pub fn retracted_actions(&self) -> Vec<i16> {
        let actions = self.retractions.iter().filter(|row| row.kind == RetractionKind::Action);
        let space = &self.identity.action_space.actions;
        let index = |row: &RetractionRow| {
            space
                .iter()
                .position(|action| action.name == row.value)
                .and_then(|at| i16::try_from(at).ok())
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

/// Refuses a snapshot that a repair made of a lake without its database, before it cut out what was
/// damaged.
pub(super) fn demand_finished(
    lake: &Path,
    wanted: SnapshotId,
    history: &[SnapshotRow],
) -> Result<(), StoreError> {
    let place = history.iter().position(|row| row.id == wanted);
    if place.is_some_and(|at| repair::is_unfinished(&history[at], history.get(at + 1))) {
        let (path, file) = (lake.to_owned(), lake.join(catalog::FILE_NAME));
        return Err(StoreError::LostSnapshot { path, wanted, file });
    }
    Ok(())
}

/// Refuses a snapshot that had files which a repair found damaged.
pub(super) fn demand_whole(
    lake: &Path,
    wanted: SnapshotId,
    lost: &[Segment],
) -> Result<(), StoreError> {
    match lost.first() {
        None => Ok(()),
        Some(segment) => Err(StoreError::LostSnapshot {
            path: lake.to_owned(),
            wanted,
            file: segment.path.clone(),
        }),
    }
}
