//! What can still be read of a database that is damaged.
//!
//! A database whose tables match their digest is believed. Of another one each table is taken that
//! can be read, and each frame: frames have digests of their own. Its word on files counts where
//! the row proves itself: a sound file is not left out on the word of a flipped bit. What that
//! leaves unsaid is listed as a loss.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int64Type;
use rusqlite::Connection;

use super::damage;
use super::relist::{damaged_database, is_about_content, new_database};
use crate::lake::catalog::{self, PlacedFrame};
use crate::lake::decode::state_ids;
use crate::lake::digest::BlockDigests;
use crate::lake::frame::Frame;
use crate::lake::sqlite::{self, Catalog, wal};
use crate::lake::{
    Lake, LakeError, LossRow, RetractionRow, RunRow, Segment, SnapshotId, Table, losses,
    retractions,
};

/// Numbers of snapshots and of runs that no lake comes to: a flipped bit made them.
const SNAPSHOTS_MAX: i64 = 1 << 40;
const RUNS_MAX: i32 = 1 << 30;

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
    let column = key_column(table);
    match table {
        Table::Benchmarks => {
            let uris = batch[column].as_string::<i32>().iter();
            let hashes = uris.map(|uri| blake3::hash(uri.unwrap_or_default().as_bytes()));
            hashes.map(|hash| padded(&hash.as_bytes()[..20])).collect()
        }
        Table::Episodes | Table::Steps => {
            let ids = batch[column].as_primitive::<Int64Type>().values().iter();
            ids.map(|id| padded(&id.to_le_bytes())).collect()
        }
        _ => state_ids(batch, column).map(|state| state.map_or([0; 20], |state| state.0)).collect(),
    }
}

fn padded(bytes: &[u8]) -> Key {
    let mut key = [0; 20];
    key[..bytes.len()].copy_from_slice(bytes);
    key
}

/// What can still be read of the old database.
#[derive(Default)]
pub(super) struct Old {
    pub(super) runs: Vec<RunRow>,
    pub(super) retractions: Vec<RetractionRow>,
    pub(super) losses: Vec<LossRow>,
    /// The greatest number of a snapshot; 0 where none is known.
    pub(super) newest: i64,
    /// The files that the newest snapshot had, and those that only older ones had. A row that is
    /// not what was written tells neither.
    listed: HashSet<PathBuf>,
    retired: HashSet<PathBuf>,
    /// None where nothing of the hot log can be read.
    hot: Option<Vec<HotFrame>>,
    hot_keys: HashSet<(Table, Key)>,
    /// What could not be read.
    unread: Vec<&'static str>,
    /// What is wrong with `SQLite`'s log.
    log: Option<String>,
    is_vouched_for: bool,
    /// Whether nothing can have been written to the lake since.
    is_current: bool,
}

struct HotFrame {
    frame: Frame,
    /// The rows and their keys; none where the frame is damaged.
    rows: Option<(RecordBatch, Vec<Key>)>,
}

impl Old {
    /// Reads the old database where it lies: a relisting that was killed has put it aside. Without
    /// such a relisting, what lies aside is of an earlier time.
    pub(super) fn read(lake: &Lake) -> Result<Self, LakeError> {
        let database = lake.path.join(sqlite::FILE_NAME);
        let is_current = database.exists() || new_database(lake).exists();
        let mut old = Self { is_current, ..Self::default() };
        let place = if database.exists() { database.clone() } else { damaged_database(lake) };
        // It was killed before the log was put aside too.
        let own = sqlite::log_path(&place);
        let is_behind = is_current && !own.exists();
        let log = if is_behind { sqlite::log_path(&database) } else { own };
        if place.is_file() {
            let look = || wal::demand_whole(&log, &lake.disk);
            if let Err(error) = look().or_else(|_damage| look()) {
                old.log = Some(damage(error)?);
            }
            let log = log.exists().then_some(log.as_path());
            match Catalog::open_for_salvage(place, log, &lake.disk) {
                Ok(catalog) => {
                    old.is_vouched_for = catalog.is_vouched_for();
                    catalog.reading(|log| {
                        old.read_tables(log, lake);
                        Ok(())
                    })?;
                    return Ok(old);
                }
                Err(LakeError::Sqlite { source, .. }) if is_about_content(&source) => {}
                // Where it is no damage, a later repair may find more.
                Err(error) => drop(damage(error)?),
            }
        }
        old.unread = vec!["runs", "retractions", "losses", "segments"];
        Ok(old)
    }

    fn read_tables(&mut self, log: &Connection, lake: &Lake) {
        let all = SnapshotId(i64::MAX);
        self.runs = self.table("runs", catalog::runs(log));
        self.runs.retain(|run| (1..RUNS_MAX).contains(&run.id.0));
        self.retractions = self.table("retractions", retractions::list(log, all));
        for row in &mut self.retractions {
            row.runs.dedup();
        }
        self.losses = self.table("losses", losses::list(log, all));
        let mut files = self.table("segments", files(log, &lake.path));
        files.retain(|file| self.is_vouched_for || file.proves_itself);
        let (listed, retired) = files.into_iter().partition::<Vec<_>, _>(|file| file.is_listed);
        self.listed = listed.into_iter().map(|file| file.path).collect();
        let retired = retired.into_iter().map(|file| file.path);
        // The content of one that was retired may have come back.
        self.retired = retired.filter(|path| !self.listed.contains(path)).collect();
        self.newest = newest(log);
        let (frames, are_all) = frames(log);
        if !are_all {
            self.unread.push("frames");
        }
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
        let hot = frames.into_iter().map(decode).collect::<Vec<_>>();
        for HotFrame { frame, rows } in &hot {
            let keys = rows.iter().flat_map(|(_, keys)| keys);
            self.hot_keys.extend(keys.map(|&key| (frame.table, key)));
        }
        self.hot = Some(hot);
    }

    fn table<T>(&mut self, name: &'static str, rows: rusqlite::Result<Vec<T>>) -> Vec<T> {
        rows.unwrap_or_else(|_damage| {
            self.unread.push(name);
            Vec::new()
        })
    }

    /// Says whether only older snapshots had a file.
    pub(super) fn is_retired(&self, path: &Path) -> bool {
        self.retired.contains(path)
    }

    /// Says whether the newest snapshot had a file. One that was put aside long ago cannot tell.
    pub(super) fn is_listed(&self, path: &Path) -> bool {
        self.is_current && self.listed.contains(path)
    }

    /// Says whether the hot log has a row of this key.
    pub(super) fn is_hot(&self, table: Table, key: &Key) -> bool {
        self.hot_keys.contains(&(table, *key))
    }

    /// The frames to be taken over, without rows that `sealed` says are in the files that were
    /// `found`. A damaged one is among them, to be dropped as any other is.
    ///
    /// None where the database is older than the files are, as far as can be told: whatever was hot
    /// then and is not sealed now, was taken back. One that is not vouched for may have a name
    /// wrong.
    pub(super) fn frames<'a>(
        &self,
        mut found: impl Iterator<Item = &'a Path>,
        sealed: &HashSet<(Table, Key)>,
    ) -> Option<Vec<Frame>> {
        let hot = self.hot.as_ref()?;
        let is_believed = self.is_vouched_for || !self.is_current;
        if is_believed && found.any(|path| !self.listed.contains(path)) {
            return None;
        }
        let left = |HotFrame { frame, rows }: &HotFrame| {
            let Some((batch, keys)) = rows else { return Some(frame.clone()) };
            let stays = |key: &Key| Some(!sealed.contains(&(frame.table, *key)));
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
        Some(hot.iter().filter_map(left).collect())
    }

    /// Whether there are frames that cannot be read. States may then lack their IR.
    pub(super) fn lacks_frames(&self) -> bool {
        self.unread.contains(&"frames")
    }

    /// What is lost with the old database, or taken over from it though nothing vouches for it, one
    /// line each.
    pub(super) fn remarks(&self, segments: &[Segment], hot_rows: bool) -> Vec<String> {
        let mut remarks = Vec::new();
        if !hot_rows {
            remarks.push("the hot log was lost: whatever was not sealed".to_owned());
        }
        if !self.unread.is_empty() {
            let tables = self.unread.join(", ");
            remarks.push(format!("these tables could not be read whole: {tables}"));
        }
        if let Some(log) = &self.log {
            remarks.push(format!("SQLite's log was damaged, and what it held is lost: {log}"));
        }
        let lists = self.runs.len() + self.retractions.len() + self.losses.len();
        if !self.is_vouched_for && (hot_rows || lists > 0) {
            let what = "its tables are not what was written: nothing vouches for what was taken over of \
                        runs, retractions, losses and the hot log";
            remarks.push(what.to_owned());
        }
        let unknown = segments.iter().filter(|segment| !self.is_listed(&segment.path)).count();
        if unknown > 0 {
            remarks.push(format!(
                "it does not tell of {unknown} of the files: rows that were taken back may be in them"
            ));
        }
        remarks
    }
}

struct ListedFile {
    path: PathBuf,
    /// Whether the newest snapshot had it.
    is_listed: bool,
    /// Whether the row is as it was written, as far as it says so itself.
    proves_itself: bool,
}

fn files(connection: &Connection, lake: &Path) -> rusqlite::Result<Vec<ListedFile>> {
    // With its last column, SQLite sees to it that a row is as long as it says. A bit makes a 0 of
    // a null.
    let sql =
        "SELECT path, coalesce(retired_in <= added_in, 1), lost, digest, blocks, blocks_digest
               FROM segments NOT INDEXED";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        let path = row.get::<_, String>(0)?;
        row.get::<_, i64>(2)?;
        let proves_itself = proves_itself(row, &path);
        Ok(ListedFile { path: lake.join(path), is_listed: row.get(1)?, proves_itself })
    })?;
    rows.collect()
}

/// Says whether a row of [`files`] names its file by the digest, and digests its blocks. A bit in
/// the head of a row may take two columns for one, and each after them for the one before: the
/// number of the snapshot that counts a file would be that of the one that has it no more.
fn proves_itself(row: &rusqlite::Row<'_>, path: &str) -> bool {
    let is_named = |digest: String| {
        digest.get(..16).is_some_and(|start| path.ends_with(&format!("-{start}.parquet")))
    };
    let blocks = row.get::<_, Vec<u8>>(4).and_then(|list| {
        let digest = row.get(5)?;
        Ok(BlockDigests { list: list.into(), digest })
    });
    row.get(3).is_ok_and(is_named) && blocks.is_ok_and(|blocks| blocks.is_intact())
}

/// The greatest number of a snapshot that anything tells of.
fn newest(connection: &Connection) -> i64 {
    let numbers = [
        ("seq", "sqlite_sequence WHERE name = 'snapshots' AND"),
        ("snapshot_id", "snapshots WHERE"),
        ("added_in", "segments NOT INDEXED WHERE"),
        ("retired_in", "segments NOT INDEXED WHERE"),
    ];
    let number = |(column, from): (&str, &str)| {
        let sql = format!("SELECT max({column}) FROM {from} {column} < {SNAPSHOTS_MAX}");
        connection.query_row(&sql, [], |row| row.get::<_, Option<i64>>(0)).ok().flatten()
    };
    numbers.into_iter().filter_map(number).max().unwrap_or(0).max(0)
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
