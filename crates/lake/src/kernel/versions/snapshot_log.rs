//! The log of snapshots: files that say what each version edit changed.
//!
//! `log/<number>.json` says what one snapshot changed. The oldest entry is *whole*: it lists the
//! whole content of its snapshot. The entries together give the manifest and the lists of runs,
//! retractions and losses, so a lost or damaged database can be restored from them.
//!
//! # What is durable when
//!
//! An entry is durable before the transaction of its snapshot commits. A crash in between leaves an
//! entry without a snapshot, and its files; the next process to open the lake for writing removes
//! the entry.

use std::fs::DirEntry;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::losses::LossRow;
use super::manifest::{Derived, FetchRecord, SnapshotKind, SnapshotRow};
use super::retractions::RetractionRow;
use super::sqlite;
use crate::kernel::error::LakeError;
use crate::kernel::files::disk::entries;
use crate::kernel::handle::Lake;
use crate::kernel::ids::SnapshotId;
use crate::kernel::other_tools;
use crate::kernel::schema::rows::RunRow;
use crate::kernel::segments::segment::FileRow;

/// The folder of the log in the lake.
pub(crate) const FOLDER: &str = "log";
/// Digits of the number in the name of an entry, as in the log of a Delta table.
const DIGITS: usize = 20;

/// What one snapshot changed. Files are named by their paths in the lake.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogEntry {
    /// The digest of the identity of the lake.
    pub(crate) identity: String,
    pub(crate) snapshot: SnapshotId,
    pub(crate) kind: SnapshotKind,
    pub(crate) created_at_ms: i64,
    pub(crate) detail: String,
    /// Whether the entry lists the whole content of the snapshot, rather than the changes.
    pub(crate) whole: bool,
    pub(crate) add: Vec<FileRow>,
    pub(crate) retire: Vec<String>,
    pub(crate) lost: Vec<String>,
    pub(crate) counted: Vec<String>,
    pub(crate) derived: Derived,
    pub(crate) fetched: Option<FetchRecord>,
    pub(crate) runs: Vec<RunRow>,
    pub(crate) retractions: Vec<RetractionRow>,
    pub(crate) losses: Vec<LossRow>,
}

/// The file of an entry.
fn path(lake: &Lake, id: SnapshotId) -> PathBuf {
    lake.path.join(FOLDER).join(format!("{:0DIGITS$}.json", id.0))
}

/// Writes an entry, with its digest on a second line. The file is durable on return.
pub(crate) fn write(lake: &Lake, entry: &LogEntry) -> Result<(), LakeError> {
    lake.disk.create_dir(&lake.path.join(FOLDER))?;
    let json = serde_json::to_string(entry).expect("strings and numbers serialise");
    let digest = blake3::hash(json.as_bytes()).to_hex();
    lake.disk.write_file(&path(lake, entry.snapshot), format!("{json}\n{digest}\n").as_bytes())
}

/// The numbers of the entries, in ascending order.
pub(crate) fn numbers(lake: &Lake) -> Result<Vec<SnapshotId>, LakeError> {
    let folder = lake.path.join(FOLDER);
    let number = |entry: DirEntry| {
        let number = entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok()?;
        Some(SnapshotId(number))
    };
    let mut numbers = entries(&folder)?.into_iter().filter_map(number).collect::<Vec<_>>();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads an entry.
///
/// # Errors
///
/// [`LakeError::Corrupt`] if it is not what was written, or belongs to another lake.
pub(crate) fn read(lake: &Lake, id: SnapshotId) -> Result<LogEntry, LakeError> {
    let path = path(lake, id);
    let content = lake.disk.read(&path).map_err(LakeError::io("read", &path))?;
    let entry = parse(&content)
        .ok_or_else(|| LakeError::corrupt(&path, "its content does not match its digest"))?;
    if entry.identity != lake.identity.digest() || entry.snapshot != id {
        return Err(LakeError::corrupt(&path, "it belongs to another lake or snapshot"));
    }
    Ok(entry)
}

fn parse(content: &[u8]) -> Option<LogEntry> {
    let text = std::str::from_utf8(content).ok()?;
    let (json, digest) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let is_intact = *blake3::hash(json.as_bytes()).to_hex() == *digest;
    is_intact.then(|| serde_json::from_str(json).ok()).flatten()
}

/// All entries, in ascending order, from the newest whole one on.
///
/// # Errors
///
/// [`LakeError::Corrupt`] with the entry that is damaged or missing.
pub(crate) fn read_all(lake: &Lake) -> Result<Vec<LogEntry>, LakeError> {
    let (mut entries, seen) = (Vec::new(), other_tools::newest_seen(lake)?.map_or(0, |id| id.0));
    for id in numbers(lake)?.into_iter().rev() {
        let newest = id.0.max(seen);
        let expected = entries.last().map_or(newest, |next: &LogEntry| next.snapshot.0 - 1);
        let entry = read(lake, id)?;
        if id.0 != expected {
            let missing = path(lake, SnapshotId(expected));
            return Err(LakeError::corrupt(&missing, "it is missing"));
        }
        let is_whole = entry.whole;
        entries.push(entry);
        if is_whole {
            entries.reverse();
            return Ok(entries);
        }
    }
    let folder = lake.path.join(FOLDER);
    Err(LakeError::corrupt(&folder, "it has no entry that lists a whole snapshot"))
}

/// The damaged entries of these snapshots, with their files. `history` lists all snapshots that
/// have not expired; earlier entries do not matter.
///
/// # Errors
///
/// If the folder cannot be listed.
pub(crate) fn damage(
    lake: &Lake,
    history: &[SnapshotRow],
) -> Result<Vec<(SnapshotId, PathBuf, LakeError)>, LakeError> {
    let numbers = numbers(lake)?;
    let Some(oldest) = history.first().map(|row| row.id) else { return Ok(Vec::new()) };
    let (mut damage, mut is_whole) = (Vec::new(), numbers.first().is_some_and(|id| *id < oldest));
    for id in history.iter().map(|row| row.id) {
        let path = path(lake, id);
        if numbers.binary_search(&id).is_err() {
            damage.push((id, path.clone(), LakeError::corrupt(&path, "it is missing")));
            continue;
        }
        // A second try, since a disk may fail temporarily.
        match read(lake, id).or_else(|_damage| read(lake, id)) {
            Ok(entry) => is_whole |= entry.whole,
            Err(error) => damage.push((id, path, error)),
        }
    }
    if damage.is_empty() && !is_whole {
        let path = path(lake, oldest);
        let what = "it says what changed, and the entries before it are missing";
        damage.push((oldest, path.clone(), LakeError::corrupt(&path, what)));
    }
    Ok(damage)
}

/// Removes the entries before `oldest`, which is whole.
pub(crate) fn forget(lake: &Lake, oldest: SnapshotId) -> Result<(), LakeError> {
    remove(lake, |id| id < oldest)
}

/// Refuses a database that is older than the log, e.g. a copy from a backup. One entry beyond the
/// newest snapshot is normal: a crash prevented the commit of its transaction. But if other tools
/// have seen its snapshot, it was committed.
///
/// # Errors
///
/// [`LakeError::Corrupt`] with the database.
pub(crate) fn demand_current(lake: &Lake, newest: SnapshotId) -> Result<(), LakeError> {
    let logged = numbers(lake)?.pop().filter(|last| last.0 > newest.0 + 1);
    let Some(last) = logged.max(other_tools::newest_seen(lake)?.filter(|&last| last > newest))
    else {
        return Ok(());
    };
    let database = lake.path.join(sqlite::FILE_NAME);
    let what = format!(
        "its newest snapshot is {newest}, and the files beside it go on to snapshot {last}, so it \
         is an older copy"
    );
    Err(LakeError::corrupt(&database, what))
}

/// Removes the entry of a transaction whose commit a crash prevented.
pub(crate) fn remove_uncommitted(lake: &Lake, newest: SnapshotId) -> Result<(), LakeError> {
    demand_current(lake, newest)?;
    remove(lake, |id| id > newest)
}

fn remove(lake: &Lake, goes: impl Fn(SnapshotId) -> bool) -> Result<(), LakeError> {
    let gone = numbers(lake)?.into_iter().filter(|&id| goes(id));
    gone.map(|id| path(lake, id)).try_for_each(|path: PathBuf| lake.disk.remove(&path))
}
