//! A lake whose database is lost or malformed: the database is made again from the log of
//! snapshots.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::Path;

use rusqlite::Connection;

use super::damage::{damage, demand_disk, is_about_content};
use super::places::{damaged_database, new_database, with_end};
use super::salvage::{Key, SalvagedCatalog, key_column, keys};
use crate::lake::catalog::{self, random_uid};
use crate::lake::digest::{BlockDigests, Content};
use crate::lake::frame::Frame;
use crate::lake::lock::{Lock, Right};
use crate::lake::manifest::Derived;
use crate::lake::snapshot_log::{self, LogEntry};
use crate::lake::sqlite::{self, Catalog};
use crate::lake::{
    FileRow, Lake, LakeError, LossRow, RunRow, Scan, ScanColumns, Segment, SnapshotId, Table,
    losses, manifest, retractions,
};
use crate::model::RunId;

/// A database that was made again from the log of snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What was wrong with the old one, which is kept as `hot.sqlite.damaged`.
    pub why: String,
    /// Snapshots that the new one lists.
    pub snapshots: u64,
    /// Files of the newest snapshot.
    pub files: u64,
    /// Whether rows that were not sealed could be taken over. Otherwise they are lost.
    pub hot_rows: bool,
    /// What is lost with the old one, one line each. The lake's losses have the same lines.
    pub remarks: Vec<String>,
}

/// Makes the database again if it is lost or cannot be read: all snapshots of the log, with their
/// files, retractions and losses. Rows that were not sealed are taken over from the old database,
/// as far as they can be read.
///
/// The old database is kept beside the new one, as `hot.sqlite.damaged`. If this is killed, the
/// next repair begins again, and finds the old database under either name; until the new one has
/// its place, the lake can be neither read nor written.
///
/// # Errors
///
/// [`LakeError::Corrupt`] with the log of snapshots if that is damaged too.
pub(super) fn restore(lake: &Lake) -> Result<Option<Restored>, LakeError> {
    let Some(why) = destroyed(lake)? else { return Ok(None) };
    let _maintain = Lock::take(&lake.disk, &lake.path, Right::Maintain)?;
    let _write = Lock::take(&lake.disk, &lake.path, Right::Write)?;
    let entries = snapshot_log::read_all(lake)?;
    let newest = entries.last().expect("a log has an entry").snapshot;
    let salvaged = SalvagedCatalog::read(lake)?;
    let path = with_end(&lake.path.join(sqlite::FILE_NAME), ".making");
    for end in ["-journal", "-wal", "-shm", ""] {
        lake.disk.remove(&with_end(&path, end))?;
    }
    let mut catalog = Catalog::create(path.clone(), lake)?;
    let restored = fill(lake, &mut catalog, &entries, &salvaged, newest)?;
    finish(lake, catalog, &path)?;
    exchange(lake)?;
    Ok(Some(Restored { why, ..restored }))
}

/// Writes all that the log and the old database say, in one transaction.
fn fill(
    lake: &Lake,
    catalog: &mut Catalog,
    entries: &[LogEntry],
    salvaged: &SalvagedCatalog,
    newest: SnapshotId,
) -> Result<Restored, LakeError> {
    let mut segments = BTreeMap::new();
    for row in entries.iter().flat_map(|entry| &entry.add) {
        segments.insert(relative(row), segment(lake, row)?);
    }
    if segments.values().any(|segment: &Segment| segment.blocks.list.is_empty()) {
        demand_disk(lake)?;
    }
    let path = catalog.path().to_owned();
    let error = || LakeError::sqlite(&path);
    let transaction = catalog.write()?;
    for entry in entries {
        replay(&transaction, lake, entry, &segments).map_err(error())?;
    }
    let now = manifest::segments(&transaction, lake, newest).map_err(error())?;
    let sealed = sealed_keys(lake, salvaged, &now)?;
    let frames = salvaged.frames_to_keep(newest, &sealed);
    let remarks = salvaged.remarks(frames.is_some());
    let unknown = unknown_runs(entries, salvaged, frames.as_deref())?;
    let write = || {
        for run in salvaged.runs.iter().flatten().chain(&unknown) {
            catalog::replace_run(&transaction, run)?;
        }
        for frame in frames.iter().flatten() {
            catalog::insert_frame(&transaction, frame)?;
        }
        let hot = sqlite::FILE_NAME;
        for (table, what) in remarks.iter().flat_map(|what| {
            [Table::Steps, Table::Observations, Table::Ir].map(|table| (table, what.clone()))
        }) {
            let loss = LossRow { table, path: hot.to_owned(), rows: 0, what, snapshot: newest };
            losses::insert(&transaction, &loss)?;
        }
        Ok(())
    };
    write().map_err(error())?;
    Catalog::commit(transaction, &path, &lake.disk)?;
    Ok(Restored {
        why: String::new(),
        snapshots: entries.len() as u64,
        files: now.len() as u64,
        hot_rows: frames.is_some(),
        remarks,
    })
}

/// Applies an entry of the log.
fn replay(
    connection: &Connection,
    lake: &Lake,
    entry: &LogEntry,
    segments: &BTreeMap<String, Segment>,
) -> rusqlite::Result<()> {
    let (id, at_ms) = (entry.snapshot, entry.created_at_ms);
    manifest::insert_snapshot(connection, Some(id), at_ms, entry.kind, &entry.detail)?;
    match &entry.derived {
        Derived::Kept => {}
        Derived::Dropped => {
            manifest::retire_layers(connection, id)?;
            manifest::forget_derivation(connection, manifest::DEDUP)?;
        }
        Derived::Made(inputs) => manifest::set_derivation(connection, manifest::DEDUP, inputs)?,
    }
    for path in &entry.retire {
        manifest::retire_path(connection, path, id)?;
    }
    for path in &entry.lost {
        manifest::mark_lost_path(connection, path)?;
    }
    for row in &entry.add {
        manifest::insert(connection, &lake.path, &segments[&relative(row)], id)?;
    }
    for path in &entry.counted {
        manifest::mark_counted_path(connection, path, id)?;
    }
    for run in &entry.runs {
        catalog::replace_run(connection, run)?;
        catalog::mark_logged(connection, run.id)?;
    }
    for row in &entry.retractions {
        retractions::insert(connection, row)?;
    }
    for row in &entry.losses {
        losses::insert(connection, row)?;
    }
    entry.fetched.as_ref().map_or(Ok(()), |fetched| manifest::set_fetched(connection, fetched))
}

/// The path of a file in the lake.
fn relative(row: &FileRow) -> String {
    format!("{}/{}/{}", crate::lake::DATA, row.table, row.name())
}

/// A file with the digests of its blocks. A file that is not what was written has none, and is
/// dropped with what else is damaged.
fn segment(lake: &Lake, row: &FileRow) -> Result<Segment, LakeError> {
    let path = lake.table_folder(row.table).join(row.name());
    let read = || lake.disk.open(&path).and_then(|file| Content::read(&file));
    // A disk may fail for a moment.
    let content = match read().or_else(|_failed| read()) {
        Ok(content) => content.filter(|content| content.digest == row.digest),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => damage(LakeError::io("read", &path)(error)).map(|_| None)?,
    };
    let blocks = content.map_or_else(|| BlockDigests::new(Vec::new()), |content| content.blocks);
    Ok(Segment {
        table: row.table,
        path,
        rows: row.rows,
        bytes: row.bytes,
        digest: row.digest.clone(),
        key_range: row.key_range,
        layer: row.layer,
        is_counted: false,
        blocks,
        disk: lake.disk.clone(),
    })
}

/// The keys of salvaged rows that are in files of the newest snapshot.
fn sealed_keys(
    lake: &Lake,
    salvaged: &SalvagedCatalog,
    segments: &[Segment],
) -> Result<BTreeMap<Table, HashSet<Key>>, LakeError> {
    let mut sealed: BTreeMap<Table, HashSet<Key>> = BTreeMap::new();
    for (table, hot) in salvaged.hot_keys() {
        let column = [key_column(table)];
        // Rows of a damaged file are lost: those of the hot log may be all that is left.
        let is_sound = |segment: &&Segment| !segment.blocks.list.is_empty();
        let of_table = segments.iter().filter(|segment| segment.table == table);
        for segment in of_table.filter(is_sound) {
            let schema = lake.schemas.get(table);
            let segment = std::slice::from_ref(segment);
            for batch in Scan::new(schema, segment, &[], ScanColumns::Named(&column)) {
                let found = keys(table, &batch?).into_iter().filter(|key| hot.contains(key));
                sealed.entry(table).or_default().extend(found);
            }
        }
    }
    Ok(sealed)
}

/// Rows for the runs of hot episodes that no list names. They cannot be resumed: nobody knows their
/// arguments.
fn unknown_runs(
    entries: &[LogEntry],
    salvaged: &SalvagedCatalog,
    frames: Option<&[Frame]>,
) -> Result<Vec<RunRow>, LakeError> {
    let logged = entries.iter().flat_map(|entry| &entry.runs);
    let known = logged.chain(salvaged.runs.iter().flatten()).map(|run| run.id.0);
    let known = known.collect::<HashSet<_>>();
    let hot = if frames.is_some() { salvaged.hot_runs() } else { BTreeSet::new() };
    let unknown = hot.into_iter().filter(|number| !known.contains(number));
    let row = |number| {
        Ok(RunRow {
            id: RunId(number),
            uid: random_uid()?,
            arguments: String::new(),
            started_at_ms: 0,
            finished: false,
            repeated_windows: 0,
        })
    };
    unknown.map(row).collect()
}

/// Makes the new database complete under its name.
fn finish(lake: &Lake, catalog: Catalog, path: &Path) -> Result<(), LakeError> {
    // The last connection to be closed brings the write-ahead log home.
    drop(catalog);
    let log = sqlite::log_path(path);
    if log.exists() {
        let why = io::Error::other("SQLite left its log beside the new database: repair again");
        return Err(LakeError::io("bring home", &log)(why));
    }
    lake.disk.rename(path, &new_database(lake))
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

/// What is wrong with the database, if it cannot be read. A disk may fail for a moment, so it is
/// looked at twice.
fn destroyed(lake: &Lake) -> Result<Option<String>, LakeError> {
    if damage_of_database(lake)?.is_none() { Ok(None) } else { damage_of_database(lake) }
}

fn damage_of_database(lake: &Lake) -> Result<Option<String>, LakeError> {
    let database = lake.path.join(sqlite::FILE_NAME);
    let read = || {
        let catalog = Catalog::open_for_reading(lake)?;
        let all = |log: &Connection| {
            let (damage, all) = (sqlite::damage(log)?, SnapshotId(i64::MAX));
            let history = manifest::snapshots(log)?;
            manifest::segments(log, lake, all)?;
            manifest::retired(log, lake)?;
            manifest::lost(log, lake, all)?;
            manifest::derivation(log, manifest::DEDUP)?;
            catalog::runs(log)?;
            catalog::frames(log)?;
            retractions::list(log, all)?;
            losses::list(log, all)?;
            Ok((damage, history.last().map(|row| row.id)))
        };
        catalog.reading(all)
    };
    match read() {
        Ok((None, Some(newest))) => match snapshot_log::demand_current(lake, newest) {
            Err(LakeError::Corrupt { path, what }) if path == database => Ok(Some(what)),
            current => current.map(|()| None),
        },
        Ok((damage, _)) => Ok(damage.or_else(|| Some("it lists no snapshot".to_owned()))),
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
