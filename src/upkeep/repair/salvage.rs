//! What can still be read of a database that is damaged: the rows that are not sealed.
//!
//! Each frame has a digest of its own, so every frame that can be read is taken. The tables are
//! believed only if they match their digest.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use rusqlite::Connection;

use super::damage::{damage, is_about_content};
use super::places::{damaged_database, new_database};
use crate::lake::catalog::{self, PlacedFrame};
use crate::lake::decode::{benchmark_uris, episode_ids, state_ids};
use crate::lake::frame::Frame;
use crate::lake::sqlite::{self, Catalog, wal};
use crate::lake::{Lake, LakeError, RunRow, SnapshotId, Table, manifest};
use crate::model::EpisodeId;

/// What tells a row of a recorded table from others; of steps, those of an episode.
pub(super) type Key = [u8; 20];

/// The column that has the key.
pub(super) fn key_column(table: Table) -> &'static str {
    match table {
        Table::Benchmarks => "benchmark_uri",
        Table::Episodes | Table::Steps => "episode_id",
        _ => "state_id",
    }
}

/// The keys of a batch of a recorded table, row by row.
pub(super) fn keys(table: Table, batch: &RecordBatch) -> Vec<Key> {
    match table {
        Table::Benchmarks => {
            let hashes = benchmark_uris(batch).map(|uri| blake3::hash(uri.as_bytes()));
            hashes.map(|hash| padded(&hash.as_bytes()[..20])).collect()
        }
        Table::Episodes | Table::Steps => {
            episode_ids(batch).iter().map(|id| padded(&id.to_le_bytes())).collect()
        }
        _ => {
            let states = state_ids(batch, key_column(table));
            states.map(|state| state.map_or([0; 20], |state| state.0)).collect()
        }
    }
}

fn padded(bytes: &[u8]) -> Key {
    let mut key = [0; 20];
    key[..bytes.len()].copy_from_slice(bytes);
    key
}

/// What can still be read of a damaged database.
#[derive(Default)]
pub(super) struct SalvagedCatalog {
    /// The runs, if they are vouched for.
    pub(super) runs: Option<Vec<RunRow>>,
    /// The newest snapshot, if it is vouched for.
    newest: Option<SnapshotId>,
    /// None if nothing of the hot log can be read.
    frames: Option<Vec<HotFrame>>,
    /// Whether some frames cannot be read.
    lacks_frames: bool,
    /// What is wrong with `SQLite`'s log.
    log: Option<String>,
}

struct HotFrame {
    frame: Frame,
    /// The rows and their keys; none if the frame is damaged.
    rows: Option<(RecordBatch, Vec<Key>)>,
}

impl SalvagedCatalog {
    /// Reads the database where it lies: a restoration that was killed has put it aside.
    pub(super) fn read(lake: &Lake) -> Result<Self, LakeError> {
        let database = lake.path.join(sqlite::FILE_NAME);
        let is_current = database.exists() || new_database(lake).exists();
        let place = if database.exists() { database.clone() } else { damaged_database(lake) };
        let mut salvaged = Self::default();
        // What was put aside long ago holds rows that may have been sealed or taken back since.
        if !is_current || !place.is_file() {
            return Ok(salvaged);
        }
        // The restoration may have been killed before the log was put aside too.
        let own = sqlite::log_path(&place);
        let log = if own.exists() { own } else { sqlite::log_path(&database) };
        let look = || wal::demand_whole(&log, &lake.disk);
        if let Err(error) = look().or_else(|_damage| look()) {
            salvaged.log = Some(damage(error)?);
        }
        let log = log.exists().then_some(log.as_path());
        match open(place, log, lake) {
            Ok(catalog) => {
                let is_vouched_for = catalog.is_vouched_for();
                catalog.reading(|log| {
                    salvaged.read_tables(log, lake, is_vouched_for);
                    Ok(())
                })?;
            }
            Err(LakeError::Sqlite { source, .. }) if is_about_content(&source) => {}
            // If it is no damage, a later repair may find more.
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
        if !are_all && frames.is_empty() {
            return;
        }
        let decode = |placed: PlacedFrame| {
            let PlacedFrame { seq, frame } = placed;
            let batch = frame.decode(lake.schemas.get(frame.table), seq, &lake.path).ok();
            let rows = batch.map(|batch| {
                let keys = keys(frame.table, &batch);
                (batch, keys)
            });
            HotFrame { frame, rows }
        };
        self.frames = Some(frames.into_iter().map(decode).collect());
    }

    /// The tables that have hot rows, and the keys of these.
    pub(super) fn hot_keys(&self) -> BTreeMap<Table, HashSet<Key>> {
        let mut hot: BTreeMap<Table, HashSet<Key>> = BTreeMap::new();
        for HotFrame { frame, rows } in self.frames.iter().flatten() {
            let keys = rows.iter().flat_map(|(_, keys)| keys);
            hot.entry(frame.table).or_default().extend(keys);
        }
        hot
    }

    /// The runs that have hot episodes or steps.
    pub(super) fn hot_runs(&self) -> BTreeSet<i32> {
        let mut runs = BTreeSet::new();
        for HotFrame { frame, rows } in self.frames.iter().flatten() {
            if let (Table::Episodes | Table::Steps, Some((batch, _))) = (frame.table, rows) {
                runs.extend(episode_ids(batch).iter().map(|&id| EpisodeId(id).run().0));
            }
        }
        runs
    }

    /// The frames to be taken over, without the rows that `sealed` says are in files. A damaged
    /// frame is among them, to be dropped as any other.
    ///
    /// Returns nothing if the database is older than the log of snapshots: whatever was hot then
    /// and is not sealed now was taken back.
    pub(super) fn frames_to_keep(
        &self,
        newest: SnapshotId,
        sealed: &BTreeMap<Table, HashSet<Key>>,
    ) -> Option<Vec<Frame>> {
        let frames = self.frames.as_ref()?;
        // The snapshot of the last entry may not have been committed.
        if self.newest.is_some_and(|own| own.0 + 1 < newest.0) {
            return None;
        }
        let left = |HotFrame { frame, rows }: &HotFrame| {
            let Some((batch, keys)) = rows else { return Some(frame.clone()) };
            let sealed = sealed.get(&frame.table);
            let stays = |key: &Key| Some(!sealed.is_some_and(|sealed| sealed.contains(key)));
            let stay = keys.iter().map(stays).collect::<BooleanArray>();
            match stay.true_count() {
                0 => None,
                count if count == stay.len() => Some(frame.clone()),
                _ => {
                    let left = filter_record_batch(batch, &stay).expect("a mask of its length");
                    Some(Frame::encode(frame.table, &left))
                }
            }
        };
        Some(frames.iter().filter_map(left).collect())
    }

    /// What is lost with the database, or not vouched for, one line each.
    pub(super) fn remarks(&self, has_frames: bool) -> Vec<String> {
        let mut remarks = Vec::new();
        if !has_frames {
            remarks.push("the hot log was lost: whatever was not sealed".to_owned());
        } else if self.lacks_frames {
            remarks.push("some frames of the hot log could not be read".to_owned());
        }
        if let Some(log) = &self.log {
            remarks.push(format!("SQLite's log was damaged, and what it held is lost: {log}"));
        }
        if self.runs.is_none() {
            let what = "the list of runs is that of the last snapshot: runs begun or finished since \
                        then are not in it";
            remarks.push(what.to_owned());
        }
        remarks
    }
}

fn open(place: PathBuf, log: Option<&Path>, lake: &Lake) -> Result<Catalog, LakeError> {
    Catalog::open_for_salvage(place, log, &lake.disk)
}

/// The frames that can be read, and whether that is all. A page that cannot be read ends the
/// reading, so it is begun from either end. A flipped bit may give a frame the number of another:
/// both are taken.
fn frames(connection: &Connection) -> (Vec<PlacedFrame>, bool) {
    let (mut found, mut are_all) = (BTreeMap::new(), true);
    for order in ["ASC", "DESC"] {
        let sql = format!("{} {order}", catalog::FRAMES);
        let mut read = || {
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                match catalog::frame(row) {
                    Ok(PlacedFrame { seq, frame }) => {
                        found.entry((seq, frame.digest)).or_insert(frame);
                    }
                    Err(_damage) => are_all = false,
                }
            }
            Ok::<_, rusqlite::Error>(())
        };
        if read().is_ok() {
            break;
        }
        are_all = false;
    }
    let placed = found.into_iter().map(|((seq, _), frame)| PlacedFrame { seq, frame });
    (placed.collect(), are_all)
}
