//! What can still be read of a damaged database: the rows that are not sealed.
//!
//! Each frame has its own digest, so every readable frame is taken. The tables are believed only if
//! they match their digest.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::row::{RowConverter, Rows, SortField};
use rusqlite::Connection;

use super::damage::damage;
use crate::kernel::segments::frame::Frame;
use crate::kernel::versions::catalog::{self, PlacedFrame};
use crate::kernel::versions::manifest;
use crate::kernel::versions::snapshot_log::LogEntry;
use crate::kernel::versions::sqlite::{self, Catalog, wal};
use crate::kernel::{
    Lake, LakeError, RetractionKind, RunRow, ScanColumns, Segment, SnapshotId, SnapshotKind, Table,
};

/// What can still be read of a damaged database.
#[derive(Default)]
pub(super) struct Salvaged {
    /// The runs, if the tables match their digest.
    runs: Option<Vec<RunRow>>,
    /// The newest snapshot, likewise.
    newest: Option<SnapshotId>,
    /// `None` if nothing of the hot log can be read.
    frames: Option<Vec<HotFrame>>,
    /// Whether some frames cannot be read.
    lacks_frames: bool,
    /// What is wrong with the log of `SQLite`.
    log: Option<String>,
}

/// A frame of the hot log.
#[derive(Clone)]
pub(super) struct HotFrame {
    pub(super) frame: Frame,
    /// `None` if the frame is damaged.
    pub(super) batch: Option<RecordBatch>,
}

impl Salvaged {
    /// Reads the database where it is: a restoration that was killed may have moved it aside.
    pub(super) fn read(lake: &Lake) -> Result<Self, LakeError> {
        let mut salvaged = Self::default();
        let mut place = database(lake, "");
        let mut log = sqlite::log_path(&place);
        if !place.exists() {
            place = database(lake, ".damaged");
            // An older restoration put this file aside: its rows may be sealed or retracted by now.
            if !database(lake, ".new").exists() {
                return Ok(salvaged);
            }
            // The restoration may have been killed before it moved the log.
            let moved = sqlite::log_path(&place);
            log = if moved.exists() { moved } else { log };
        }
        if !place.is_file() {
            return Ok(salvaged);
        }
        let look = || wal::demand_whole(&log, &lake.disk);
        if let Err(error) = look().or_else(|_damage| look()) {
            salvaged.log = Some(damage(error)?);
        }
        let log = log.exists().then_some(log.as_path());
        match Catalog::open_for_salvage(place, log, &lake.disk) {
            Ok(catalog) => {
                let is_vouched_for = catalog.is_vouched_for();
                catalog.reading(|log| {
                    salvaged.read_tables(log, lake, is_vouched_for);
                    Ok(())
                })?;
            }
            // After an error that is not damage, a later repair may find more.
            Err(error) => drop(damage(error)?),
        }
        Ok(salvaged)
    }

    fn read_tables(&mut self, log: &Connection, lake: &Lake, is_vouched_for: bool) {
        if is_vouched_for {
            self.runs = catalog::runs(log).ok();
            self.newest = manifest::snapshots(log).ok().and_then(|rows| Some(rows.last()?.id));
        }
        let (frames, are_all) = frames(log);
        self.lacks_frames = !are_all;
        if are_all || !frames.is_empty() {
            let decoded = frames.into_iter().map(|PlacedFrame { seq, frame }| {
                let schema = lake.schemas.get(frame.table);
                HotFrame { batch: frame.decode(schema, seq, &lake.path).ok(), frame }
            });
            self.frames = Some(decoded.collect());
        }
    }

    /// Whether the database is older than the log of snapshots, which ends with `last`: a row that
    /// was hot then and is not sealed now was taken back.
    fn is_older(&self, last: &LogEntry) -> bool {
        // The snapshot of the last entry may not have been committed: then no row was taken back,
        // unless the entry does that.
        let takes_back = last.retractions.iter().any(|row| row.kind != RetractionKind::Action);
        let oldest = last.snapshot.0 - i64::from(!takes_back);
        self.newest.is_some_and(|own| own.0 < oldest)
    }

    /// Returns the runs to take over: those that the log does not know better. `None` if the list
    /// is older than the log, or numbered otherwise, or cannot be read.
    pub(super) fn newer_runs(&self, last: &LogEntry) -> Option<Vec<RunRow>> {
        let mut runs = self.runs.clone()?;
        if self.newest? < last.snapshot {
            // A fetch gives runs other numbers.
            if self.is_older(last) || last.kind == SnapshotKind::Fetch {
                return None;
            }
            let is_same = |a: &RunRow, b: &RunRow| a.id == b.id || a.uid == b.uid;
            runs.retain(|run| !last.runs.iter().any(|logged| is_same(run, logged)));
        }
        Some(runs)
    }

    /// Returns the frames to take over, without rows that `segments` hold, which are those of the
    /// newest snapshot. A damaged frame is among them; the repair drops it like any other.
    ///
    /// Returns `None` if the database is older than the log of snapshots.
    pub(super) fn unsealed(
        &self,
        lake: &Lake,
        last: &LogEntry,
        segments: &[Segment],
    ) -> Result<Option<Vec<HotFrame>>, LakeError> {
        let is_older = self.is_older(last);
        let Some(frames) = self.frames.as_ref().filter(|_| !is_older) else { return Ok(None) };
        let mut unsealed: HashMap<Table, HashSet<Box<[u8]>>> = HashMap::new();
        for HotFrame { frame, batch } in frames {
            let hot = unsealed.entry(frame.table).or_default();
            if let Some(batch) = batch {
                hot.extend(row_keys(frame.table, batch).iter().map(|key| key.data().into()));
            }
        }
        // Rows of a damaged file are lost, so those in the hot log may be all that is left.
        for segment in segments.iter().filter(|segment| !segment.blocks.list.is_empty()) {
            let Some(hot) = unsealed.get_mut(&segment.table) else { continue };
            let column = [key_column(segment.table)];
            for batch in segment.scan(&lake.schemas, ScanColumns::Named(&column)) {
                for key in &row_keys(segment.table, &batch?) {
                    hot.remove(key.data());
                }
            }
        }
        let left = frames.iter().filter_map(|hot| hot.with_keys(&unsealed[&hot.frame.table]));
        Ok(Some(left.collect()))
    }

    /// Returns what is lost with the database or not certain, one line each.
    pub(super) fn remarks(&self, has_frames: bool, has_runs: bool) -> Vec<String> {
        let frames = match has_frames {
            false => Some("the hot log was lost: whatever was not sealed"),
            true if self.lacks_frames => Some("some frames of the hot log could not be read"),
            true => None,
        };
        let log = self.log.as_ref();
        let log =
            log.map(|what| format!("SQLite's log was damaged, and what it held is lost: {what}"));
        let runs = "the list of runs is that of the last snapshot: runs begun or finished since \
                    then are not in it";
        let runs = (!has_runs).then(|| runs.to_owned());
        frames.map(str::to_owned).into_iter().chain(log).chain(runs).collect()
    }
}

impl HotFrame {
    /// Returns the frame with those of its rows that have one of these keys; `None` if none has.
    fn with_keys(&self, keys: &HashSet<Box<[u8]>>) -> Option<Self> {
        let Some(batch) = &self.batch else { return Some(self.clone()) };
        let table = self.frame.table;
        let stay = row_keys(table, batch);
        let stay = stay.iter().map(|key| Some(keys.contains(key.data()))).collect::<BooleanArray>();
        match stay.true_count() {
            0 => None,
            count if count == stay.len() => Some(self.clone()),
            _ => {
                let batch = filter_record_batch(batch, &stay).expect("a mask of its length");
                Some(Self { frame: Frame::encode(table, &batch), batch: Some(batch) })
            }
        }
    }
}

/// The column that tells a row of a recorded table from others; of steps, those of an episode.
fn key_column(table: Table) -> &'static str {
    match table {
        Table::Benchmarks => "benchmark_uri",
        Table::Episodes | Table::Steps => "episode_id",
        Table::Measurements | Table::Miscompilations => "uid",
        _ => "state_id",
    }
}

/// The keys of the rows of a recorded table, as bytes.
fn row_keys(table: Table, batch: &RecordBatch) -> Rows {
    let column = &batch[key_column(table)];
    let field = SortField::new(column.data_type().clone());
    let converter = RowConverter::new(vec![field]).expect("the key has an order");
    converter.convert_columns(std::slice::from_ref(column)).expect("the column is of the type")
}

/// The readable frames, and whether these are all. An unreadable page ends a reading, so it is
/// repeated from the other end. A flipped bit may give a frame the number of another: both are
/// taken.
fn frames(connection: &Connection) -> (Vec<PlacedFrame>, bool) {
    let (mut found, mut are_all) = (BTreeMap::new(), true);
    for order in ["ASC", "DESC"] {
        let read = || {
            let mut statement = connection.prepare(&format!("{} {order}", catalog::FRAMES))?;
            let rows = statement.query_map([], catalog::frame)?;
            Ok::<_, rusqlite::Error>(rows.collect::<Vec<_>>())
        };
        for placed in read().unwrap_or_else(|error| vec![Err(error)]) {
            match placed {
                Ok(placed) => drop(found.insert((placed.seq, placed.frame.digest), placed)),
                Err(_damage) => are_all = false,
            }
        }
        if are_all {
            break;
        }
    }
    (found.into_values().collect(), are_all)
}

/// A file that has the name of the database with this end. `.damaged` is where an old database is
/// kept. `.new` is a new one, from its completion to the end of the restoration.
pub(super) fn database(lake: &Lake, end: &str) -> PathBuf {
    lake.path.join(format!("{}{end}", sqlite::FILE_NAME))
}
