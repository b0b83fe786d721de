//! A lake whose database is gone or malformed: the sealed files are listed anew.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::Int64Type;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use rusqlite::Connection;

use super::salvage::{Key, Old, key_column, keys};
use super::{Relisted, damage, demand_disk};
use crate::lake::catalog::{self, random_uid};
use crate::lake::digest::Content;
use crate::lake::edit::{self, VersionEdit};
use crate::lake::frame::Frame;
use crate::lake::lock::{Lock, Right};
use crate::lake::segment::is_own_name;
use crate::lake::segment_writer::footer_entries;
use crate::lake::sqlite::{self, Catalog};
use crate::lake::{
    Lake, LakeError, LossRow, RunRow, Scan, ScanColumns, Segment, SnapshotId, SnapshotKind, Table,
    guarded, losses, manifest, retractions,
};
use crate::model::{EpisodeId, RunId};

/// Behind the names of files that are not listed.
const LEFT_OUT: &str = ".left-out";

/// Makes the database anew where it is gone or cannot be read. Older snapshots are lost: which
/// files they had is not vouched for. What can still be read of the list of runs, of the
/// retractions and of the rows that were not sealed is taken over.
///
/// The old database is kept beside the new one, as `hot.sqlite.damaged`. Files that are damaged,
/// that the old database calls retired, or that hold rows which another file holds too, get
/// `.left-out` behind their names. Killed in between, it is done from the beginning by the next
/// repair, which finds the old database under either name; there is no lake to read or write to
/// before the new one has its place.
pub(super) fn relist(lake: &Lake) -> Result<Option<Relisted>, LakeError> {
    let Some(why) = destroyed(lake)? else { return Ok(None) };
    let _maintain = Lock::take(&lake.path, Right::Maintain)?;
    let _write = Lock::take(&lake.path, Right::Write)?;
    let old = Old::read(lake)?;
    let mut taken = Listing::default();
    for table in Table::ALL.into_iter().filter(|table| !table.is_derived()) {
        taken.list(lake, table, &old)?;
    }
    if !taken.left_out.is_empty() {
        demand_disk(lake)?;
    }
    for path in &taken.left_out {
        lake.disk.rename(path, &with_end(path, LEFT_OUT))?;
    }
    let found = taken.segments.iter().map(|segment| segment.path.as_path());
    let hot = old.frames(found, &taken.sealed);
    let remarks = old.remarks(&taken.segments, hot.is_some());
    publish(lake, &taken, &old, &Carried { why: &why, hot: hot.as_deref(), remarks: &remarks })?;
    exchange(lake)?;
    let left_out = taken.left_out.iter().map(|path| with_end(path, LEFT_OUT)).collect();
    let (files, hot_rows) = (taken.segments.len() as u64, hot.is_some());
    Ok(Some(Relisted { why, files, left_out, hot_rows, remarks }))
}

/// Puts the old database aside, and the new one in its place.
fn exchange(lake: &Lake) -> Result<(), LakeError> {
    let database = lake.path.join(sqlite::FILE_NAME);
    let aside = damaged_database(lake);
    if database.exists() {
        // The log of one that was put aside before is not this one's.
        for end in ["-wal", "-shm"] {
            lake.disk.remove(&with_end(&aside, end))?;
        }
    }
    // The database first: without its log it would look whole, and be older than it is.
    for end in ["", "-wal", "-shm"] {
        let part = with_end(&database, end);
        if part.exists() {
            lake.disk.rename(&part, &with_end(&aside, end))?;
        }
    }
    lake.disk.rename(&new_database(lake), &database)
}

/// What is wrong with the database, where it cannot be read. A disk may fail for a moment, so it is
/// looked at twice.
fn destroyed(lake: &Lake) -> Result<Option<String>, LakeError> {
    if damage_of_database(lake)?.is_none() { Ok(None) } else { damage_of_database(lake) }
}

fn damage_of_database(lake: &Lake) -> Result<Option<String>, LakeError> {
    let read = || {
        let catalog = Catalog::open_for_reading(&lake.path, &lake.identity, &lake.disk)?;
        let all = |log: &Connection| {
            let (damage, all) = (sqlite::damage(log)?, SnapshotId(i64::MAX));
            manifest::snapshots(log)?;
            manifest::segments(log, lake, all)?;
            manifest::retired(log, lake)?;
            manifest::lost(log, lake, all)?;
            manifest::derivation(log, manifest::DEDUP)?;
            catalog::runs(log)?;
            catalog::frames(log)?;
            retractions::list(log, all)?;
            losses::list(log, all)?;
            Ok(damage)
        };
        catalog.reading(all)
    };
    let database = lake.path.join(sqlite::FILE_NAME);
    match read() {
        Ok(damage) => Ok(damage),
        Err(LakeError::Corrupt { path, what }) if path == database => Ok(Some(what)),
        Err(LakeError::Corrupt { path, what }) if path == sqlite::log_path(&database) => {
            Ok(Some(format!("{}-wal: {what}", sqlite::FILE_NAME)))
        }
        Err(LakeError::Sqlite { source, .. }) if is_about_content(&source) => {
            Ok(Some(source.to_string().lines().next().unwrap_or_default().to_owned()))
        }
        Err(error) => Err(error),
    }
}

/// Says whether an error is about what a database holds: a table that it lacks, a value that is
/// none. Others are about getting at it.
pub(super) fn is_about_content(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), None | Some(rusqlite::ErrorCode::Unknown))
}

pub(super) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// Where an old database is kept.
pub(super) fn damaged_database(lake: &Lake) -> PathBuf {
    with_end(&lake.path.join(sqlite::FILE_NAME), ".damaged")
}

/// Where a new database waits for its place. It is there from its completion to the end of the
/// relisting.
pub(super) fn new_database(lake: &Lake) -> PathBuf {
    with_end(&lake.path.join(sqlite::FILE_NAME), ".new")
}

/// The files of a table that relistings left out.
pub(super) fn left_out(lake: &Lake, table: Table) -> Result<BTreeSet<PathBuf>, LakeError> {
    let folder = lake.path.join(table.name());
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(BTreeSet::new()) };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let is_one = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(LEFT_OUT));
    let paths = paths.filter(|path| path.as_ref().map_or(true, is_one));
    paths.collect::<io::Result<_>>().map_err(LakeError::io("list", &folder))
}

/// The sealed files that are sound, and hold rows that no other file holds.
#[derive(Default)]
struct Listing {
    segments: Vec<Segment>,
    left_out: Vec<PathBuf>,
    /// The runs that episodes are of.
    runs: BTreeSet<i32>,
    /// The rows that are in these files and in the old database's hot log as well.
    sealed: HashSet<(Table, Key)>,
}

impl Listing {
    fn list(&mut self, lake: &Lake, table: Table, old: &Old) -> Result<(), LakeError> {
        let folder = lake.path.join(table.name());
        let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(()) };
        let mut sound = Vec::new();
        for entry in entries {
            let entry = entry.map_err(LakeError::io("list", &folder))?;
            let name = entry.file_name();
            let own = name.to_str().is_some_and(|name| is_own_name(table, name));
            if own && entry.path().extension().is_some_and(|end| end == "parquet") {
                // A disk may fail for a moment.
                let look = || as_written(lake, table, &entry.path());
                match look()?.map_or_else(look, |segment| Ok(Some(segment)))? {
                    Some(segment) if !old.is_retired(&segment.path) => sound.push(segment),
                    _ => self.left_out.push(entry.path()),
                }
            }
        }
        // The file that was part of the lake goes before one that is made of it, or that it was
        // made of. Where nobody knows: what a crash left beside a file holds less than the file.
        let order = |segment: &Segment| (!old.is_listed(&segment.path), Reverse(segment.rows));
        sound.sort_by(|a, b| (order(a), &a.path).cmp(&(order(b), &b.path)));
        let mut known = HashSet::new();
        for segment in sound {
            let keys = self.keys(lake, &segment)?;
            if keys.iter().any(|key| known.contains(key)) {
                self.left_out.push(segment.path);
                continue;
            }
            let hot = keys.iter().filter(|key| old.is_hot(table, key));
            self.sealed.extend(hot.map(|&key| (table, key)));
            known.extend(keys);
            self.segments.push(segment);
        }
        Ok(())
    }

    fn keys(&mut self, lake: &Lake, segment: &Segment) -> Result<HashSet<Key>, LakeError> {
        let column = key_column(segment.table);
        let mut found = HashSet::new();
        for batch in scan(lake, segment, column) {
            let batch = batch?;
            if matches!(segment.table, Table::Episodes | Table::Steps) {
                let ids = batch[column].as_primitive::<Int64Type>().values().iter();
                self.runs.extend(ids.map(|&id| EpisodeId(id).run().0));
            }
            found.extend(keys(segment.table, &batch));
        }
        Ok(found)
    }
}

fn scan<'a>(lake: &'a Lake, segment: &'a Segment, column: &str) -> Scan<'a> {
    let schema = lake.schemas.get(segment.table);
    Scan::new(schema, std::slice::from_ref(segment), &[], ScanColumns::Named(&[column]))
}

/// The segment in a file, where it is what its name and this lake's identity say.
fn as_written(lake: &Lake, table: Table, path: &Path) -> Result<Option<Segment>, LakeError> {
    let mut segment = match unnamed(lake, table, path) {
        Ok(Some(segment)) => segment,
        Ok(None) => return Ok(None),
        Err(error) => return damage(LakeError::io("read", path)(error)).map(|_| None),
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name != format!("{table}-{}.parquet", &segment.digest[..16]) {
        return Ok(None);
    }
    let file = segment.open()?;
    let load = || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
    let Ok(footer) = guarded(load) else { return Ok(None) };
    let footer = footer.metadata().file_metadata();
    let entries = footer.key_value_metadata().cloned().unwrap_or_default();
    let is_there = |(key, value): (String, String)| {
        entries.iter().any(|entry| entry.key == key && entry.value.as_ref() == Some(&value))
    };
    if !footer_entries(&lake.identity, table).into_iter().all(is_there) {
        return Ok(None);
    }
    segment.rows = u64::try_from(footer.num_rows()).unwrap_or(0);
    segment.key_range = key_range_of(lake, &segment)?;
    Ok(Some(segment))
}

/// What a file is as such: its length and its digests. None where it got shorter while it was read.
fn unnamed(lake: &Lake, table: Table, path: &Path) -> io::Result<Option<Segment>> {
    let content = Content::read(&lake.disk.open(path)?)?;
    Ok(content.map(|Content { bytes, digest, blocks }| Segment {
        table,
        path: path.to_owned(),
        rows: 0,
        bytes,
        digest,
        key_range: None,
        layer: None,
        is_counted: false,
        blocks,
        disk: lake.disk.clone(),
    }))
}

fn key_range_of(lake: &Lake, segment: &Segment) -> Result<Option<(i64, i64)>, LakeError> {
    let leading = segment.table.key()[0].as_str();
    let mut range: Option<(i64, i64)> = None;
    for batch in scan(lake, segment, leading) {
        let batch: RecordBatch = batch?;
        let Some(keys) = batch[leading].as_primitive_opt::<Int64Type>() else { return Ok(None) };
        if let (Some(&first), Some(&last)) = (keys.values().first(), keys.values().last()) {
            range = Some((range.map_or(first, |range| range.0), last));
        }
    }
    Ok(range)
}

/// What goes into a new database besides the files.
struct Carried<'a> {
    /// What was wrong with the old one.
    why: &'a str,
    hot: Option<&'a [Frame]>,
    /// What of the old one is lost or not vouched for.
    remarks: &'a [String],
}

/// Makes the new database, beside the old one. Durable and complete under its name on return.
fn publish(
    lake: &Lake,
    listing: &Listing,
    old: &Old,
    carried: &Carried<'_>,
) -> Result<(), LakeError> {
    let path = with_end(&lake.path.join(sqlite::FILE_NAME), ".making");
    for end in ["-journal", "-wal", "-shm", ""] {
        lake.disk.remove(&with_end(&path, end))?;
    }
    let Lake { identity, disk, .. } = lake;
    let mut catalog = Catalog::create_at(path.clone(), &lake.path, identity, disk)?;
    catalog.begin_snapshots_after(SnapshotId(old.newest), disk)?;
    let detail = format!("hot.sqlite was lost ({}): files listed anew", carried.why);
    let mut edit = VersionEdit::new(SnapshotKind::Relist, detail);
    edit.add.clone_from(&listing.segments);
    edit.runs = runs(listing, old)?;
    edit.retractions.clone_from(&old.retractions);
    edit.losses.clone_from(&old.losses);
    edit.frames = carried.hot.unwrap_or_default().to_vec();
    let lose = |table, what: &str| {
        let (path, what) = (sqlite::FILE_NAME.to_owned(), what.to_owned());
        LossRow { table, path, rows: 0, what, snapshot: SnapshotId(0) }
    };
    edit.losses.extend(carried.remarks.iter().map(|what| lose(Table::Steps, what)));
    if carried.hot.is_some() && old.lacks_frames() {
        edit.losses.push(lose(Table::Ir, "frames could not be read"));
    }
    edit::apply(&mut catalog, lake, &edit)?;
    // The last connection to be closed brings the write-ahead log home.
    drop(catalog);
    let log = sqlite::log_path(&path);
    if log.exists() {
        let why = io::Error::other("SQLite left its log beside the new database: repair again");
        return Err(LakeError::io("bring home", &log)(why));
    }
    disk.rename(&path, &new_database(lake))
}

/// The runs of the old database, each once: what is not vouched for may name a run twice. A run
/// whose row is gone keeps its number. It cannot be resumed, since its arguments are unknown.
fn runs(listing: &Listing, old: &Old) -> Result<Vec<RunRow>, LakeError> {
    let (mut numbers, mut uids) = (HashSet::new(), HashSet::new());
    let mut rows = Vec::new();
    for run in &old.runs {
        if !numbers.contains(&run.id.0) && uids.insert(run.uid.clone()) {
            numbers.insert(run.id.0);
            rows.push(run.clone());
        }
    }
    for &number in listing.runs.iter().filter(|number| !numbers.contains(number)) {
        rows.push(RunRow {
            id: RunId(number),
            uid: random_uid()?,
            arguments: String::new(),
            started_at_ms: 0,
            finished: false,
            repeated_windows: 0,
        });
    }
    Ok(rows)
}
