//! Restores a lost or malformed database from the log of snapshots.

use std::collections::{HashMap, HashSet};
use std::io;

use rusqlite::Connection;

use super::damage::{damage, demand_disk, intact};
use super::salvage::{HotFrame, Salvaged, database};
use crate::kernel::files::digest::BlockDigests;
use crate::kernel::files::lock::{Lock, Right};
use crate::kernel::schema::decode::episode_ids;
use crate::kernel::versions::catalog::{self, random_uid};
use crate::kernel::versions::edit;
use crate::kernel::versions::losses;
use crate::kernel::versions::manifest;
use crate::kernel::versions::retractions;
use crate::kernel::versions::snapshot_log::{self, LogEntry};
use crate::kernel::versions::sqlite::{self, Catalog};
use crate::kernel::{Lake, LakeError, LossRow, RunRow, SnapshotId, Table};
use steplake_model::EpisodeId;

/// A database that was restored from the log of snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What was wrong with the old database, which is kept as `hot.sqlite.damaged`.
    pub why: String,
    /// Number of snapshots in the new database.
    pub snapshots: u64,
    /// Number of files of the newest snapshot.
    pub files: u64,
    /// Whether rows that were not sealed could be taken over. Otherwise they are lost.
    pub hot_rows: bool,
    /// What is lost with the old database, one line each. The losses of the lake have these lines.
    pub remarks: Vec<String>,
}

/// Restores the database if it is lost or cannot be read: all snapshots of the log, with their
/// files, retractions and losses. Takes over rows that were not sealed from the old database, if
/// they can be read.
///
/// The old database is kept as `hot.sqlite.damaged`. If this process is killed, the next repair
/// starts again and finds the old database under either name. Until the new one is in its place,
/// the lake can be neither read nor written.
///
/// # Errors
///
/// [`LakeError::Corrupt`] with the log of snapshots if that is damaged too.
pub(super) fn restore(lake: &Lake) -> Result<Option<Restored>, LakeError> {
    // A disk may fail for a moment, so the database is read twice.
    if damage_of_database(lake)?.is_none() {
        return Ok(None);
    }
    let Some(why) = damage_of_database(lake)? else { return Ok(None) };
    let _maintain = Lock::take(&lake.disk, &lake.path, Right::Maintain)?;
    let _write = Lock::take(&lake.disk, &lake.path, Right::Write)?;
    let lake = &lake.current()?;
    let entries = snapshot_log::read_all(lake)?;
    let salvaged = Salvaged::read(lake)?;
    for end in [".making-journal", ".making-wal", ".making-shm", ".making"] {
        lake.disk.remove(&database(lake, end))?;
    }
    let making = database(lake, ".making");
    let mut catalog = Catalog::create(making.clone(), lake)?;
    let restored = fill(lake, &mut catalog, &entries, &salvaged, why)?;
    // Closing the last connection moves the write-ahead log into the database.
    drop(catalog);
    let log = sqlite::log_path(&making);
    if log.exists() {
        let why = io::Error::other("SQLite left its log beside the new database: repair again");
        return Err(LakeError::io("bring home", &log)(why));
    }
    lake.disk.rename(&making, &database(lake, ".new"))?;
    exchange(lake)?;
    Ok(Some(restored))
}

/// Writes the contents of the log and of the old database, in one transaction.
fn fill(
    lake: &Lake,
    catalog: &mut Catalog,
    entries: &[LogEntry],
    salvaged: &Salvaged,
    why: String,
) -> Result<Restored, LakeError> {
    let mut blocks_of = HashMap::new();
    for row in entries.iter().flat_map(|entry| &entry.add) {
        // A file that is not what was written has no digests of blocks. It is dropped with the
        // other damage.
        let path = lake.table_folder(row.table).join(row.name());
        let blocks = intact(lake, &path, &row.digest)?.map(|content| content.blocks);
        let blocks = blocks.unwrap_or_else(|| BlockDigests::new(Vec::new()));
        blocks_of.insert(row.name(), blocks);
    }
    if blocks_of.values().any(|blocks| blocks.list.is_empty()) {
        demand_disk(lake)?;
    }
    let last = entries.last().expect("a log has an entry");
    let newest = last.snapshot;
    let path = catalog.path().to_owned();
    let error = || LakeError::sqlite(&path);
    let transaction = catalog.write()?;
    let replay = |entry: &LogEntry| -> rusqlite::Result<()> {
        let (id, at_ms) = (entry.snapshot, entry.created_at_ms);
        manifest::insert_snapshot(&transaction, Some(id), at_ms, entry.kind, &entry.detail)?;
        let add = entry.add.iter().map(|row| row.segment(lake, blocks_of[&row.name()].clone()));
        let add = add.collect::<Vec<_>>();
        edit::write_entry(&transaction, lake, entry, &add)?;
        for run in &entry.runs {
            catalog::replace_run(&transaction, run)?;
            catalog::mark_logged(&transaction, run.id)?;
        }
        Ok(())
    };
    entries.iter().try_for_each(replay).map_err(error())?;
    let now = manifest::segments(&transaction, lake, newest).map_err(error())?;
    let frames = salvaged.unsealed(lake, last, &now)?;
    let newer_runs = salvaged.newer_runs(last);
    let remarks = salvaged.remarks(frames.is_some(), newer_runs.is_some());
    let newer_runs = newer_runs.unwrap_or_default();
    let runs = runs(entries, newer_runs, frames.as_deref().unwrap_or_default())?;
    let write = || {
        for run in &runs {
            catalog::replace_run(&transaction, run)?;
        }
        for hot in frames.iter().flatten() {
            catalog::insert_frame(&transaction, &hot.frame)?;
        }
        for what in &remarks {
            for table in [Table::Steps, Table::Observations, Table::Ir] {
                let (path, what) = (sqlite::FILE_NAME.to_owned(), what.clone());
                let loss = LossRow { table, path, rows: 0, what, snapshot: newest };
                losses::insert(&transaction, &loss)?;
            }
        }
        Ok(())
    };
    write().map_err(error())?;
    Catalog::commit(transaction, &path, &lake.disk)?;
    let (snapshots, files) = (entries.len() as u64, now.len() as u64);
    Ok(Restored { why, snapshots, files, hot_rows: frames.is_some(), remarks })
}

/// Returns the runs of the old database that are newer than the log, and a row for each run of hot
/// episodes that no list names. The latter cannot be resumed, since nobody knows their arguments,
/// but no other run gets their numbers.
fn runs(
    entries: &[LogEntry],
    mut runs: Vec<RunRow>,
    frames: &[HotFrame],
) -> Result<Vec<RunRow>, LakeError> {
    let logged = entries.iter().flat_map(|entry| &entry.runs);
    let mut known = logged.chain(&runs).map(|run| run.id).collect::<HashSet<_>>();
    let of_episodes = |hot: &&HotFrame| matches!(hot.frame.table, Table::Episodes | Table::Steps);
    for batch in frames.iter().filter(of_episodes).filter_map(|hot| hot.batch.as_ref()) {
        for id in episode_ids(batch).iter().map(|&id| EpisodeId(id).run()) {
            if known.insert(id) {
                runs.push(RunRow {
                    id,
                    uid: random_uid()?,
                    arguments: String::new(),
                    started_at_ms: 0,
                    finished: false,
                    repeated_windows: 0,
                    audited_steps: 0,
                    differing_steps: 0,
                });
            }
        }
    }
    Ok(runs)
}

/// Moves the old database aside, and the new one to its place.
fn exchange(lake: &Lake) -> Result<(), LakeError> {
    if database(lake, "").exists() {
        // These are the log of a database that was moved aside earlier.
        for end in [".damaged-wal", ".damaged-shm"] {
            lake.disk.remove(&database(lake, end))?;
        }
    }
    // The database goes first: without its log it would look whole, but it would be too old.
    for end in ["", "-wal", "-shm"] {
        let part = database(lake, end);
        if part.exists() {
            lake.disk.rename(&part, &database(lake, &format!(".damaged{end}")))?;
        }
    }
    lake.disk.rename(&database(lake, ".new"), &database(lake, ""))
}

/// Returns what is wrong with the database, if it cannot be read.
fn damage_of_database(lake: &Lake) -> Result<Option<String>, LakeError> {
    let database = database(lake, "");
    let read = || {
        let catalog = Catalog::open_for_reading(lake)?;
        let all = |log: &Connection| {
            let (damage, all) = (sqlite::damage(log)?, SnapshotId::NEWEST);
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
        match catalog.reading(all)? {
            (None, Some(newest)) => snapshot_log::demand_current(lake, newest).map(|()| None),
            (damage, _) => Ok(Some(damage.unwrap_or_else(|| "it lists no snapshot".to_owned()))),
        }
    };
    match read() {
        Err(LakeError::Corrupt { path, what }) if path == database => Ok(Some(what)),
        Err(LakeError::Corrupt { path, what }) if path == sqlite::log_path(&database) => {
            Ok(Some(format!("{}-wal: {what}", sqlite::FILE_NAME)))
        }
        Err(error @ LakeError::Sqlite { .. }) => damage(error).map(Some),
        read => read,
    }
}
