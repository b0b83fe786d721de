//! The newest snapshot in two forms that other tools read: a folder for globs, and Delta tables.
//!
//! - `current/<table>/*.parquet` are the files of the newest snapshot. `current` is a symbolic link
//!   to a folder in `views/`, whose files are hard links to those in `data/`. A new snapshot gets a
//!   new folder, and a rename moves the link. A reader that lists `current/steps/` therefore finds
//!   the files of one snapshot. If it opens a file that the newest snapshot no longer has, it gets
//!   an error.
//! - `data/<table>/_delta_log/` has a version for each snapshot; see [`delta`].
//!
//! A file says nothing of the rows that are [deleted](super::DeletionVector) in it. So of the
//! derived tables, `current` shows the oldest layer, as it was when all layers were merged last.
//! The Delta tables show all layers.
//!
//! # What is durable when
//!
//! `update` runs after the transaction of a snapshot. It can be repeated: after a crash in
//! between, the next process to open the lake for writing runs it again. Until then, readers see
//! an older snapshot. Each file and folder is synced before a name leads to it, so a power cut
//! leaves no snapshot in parts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::Transaction;

use super::delta::{self, DeltaFile, DeltaVersion};
use super::error::LakeError;
use super::handle::Lake;
use super::ids::SnapshotId;
use crate::kernel::files::disk::entries;
use crate::kernel::files::lock::{Lock, Right};
use crate::kernel::schema::table::Table;
use crate::kernel::segments::segment::Segment;
use crate::kernel::versions::manifest::{self, SnapshotRow};
use crate::kernel::versions::sqlite::Catalog;

/// The link to the files of the newest snapshot.
pub(crate) const CURRENT: &str = "current";
/// The link before it is renamed.
pub(crate) const CURRENT_TEMPORARY: &str = "current.tmp";
/// The folder that contains the target of the link and its former targets.
pub(crate) const VIEWS: &str = "views";
/// How long files stay that other tools may still be reading.
const GRACE: Duration = Duration::from_mins(10);
/// The most former targets of the link that stay. Each has a link to every file of its snapshot, so
/// a lake has at most two for each file.
const VIEWS_MAX: usize = 1;

/// The files of a snapshot that other tools see, by table.
type TableFiles = BTreeMap<Table, Vec<Segment>>;

/// Brings both forms up to the newest snapshot.
///
/// # Errors
///
/// [`LakeError::DiskFull`] and other disk errors. Readers then see an older snapshot.
pub(crate) fn update(lake: &Lake, catalog: &Catalog) -> Result<(), LakeError> {
    let _lock = Lock::wait(&lake.path, Right::Show)?;
    let mut shown = ExportedHistory::read(lake, catalog)?;
    let Some(newest) = shown.history.last().map(|row| row.id) else { return Ok(()) };
    for table in Table::ALL {
        shown.bring_up(table)?;
    }
    let mut segments = shown.files(newest)?.values().flatten().cloned().collect::<Vec<_>>();
    delta::retain_oldest_layer(&mut segments, |segment| &segment.row);
    show(lake, newest, &by_table(segments))
}

/// Makes the Delta tables begin with the oldest snapshot. The files of older versions are removed
/// after a grace period, since other tools may still be reading them.
///
/// # Errors
///
/// Disk errors. Some older versions may then still be there; [`collect`] removes them as well.
pub(crate) fn forget(lake: &Lake, catalog: &Catalog) -> Result<(), LakeError> {
    let _lock = Lock::wait(&lake.path, Right::Show)?;
    ExportedHistory::read(lake, catalog)?.forget_expired()
}

/// Removes what only readers of earlier snapshots could be about to read: folders that `current`
/// has left, and versions of Delta tables from before the oldest snapshot. Returns how many folders
/// stay, because `current` left them less than ten minutes ago.
///
/// # Errors
///
/// Disk errors. Some of it may then still be there.
pub(crate) fn collect(lake: &Lake, catalog: &Catalog) -> Result<u64, LakeError> {
    let _lock = Lock::wait(&lake.path, Right::Show)?;
    ExportedHistory::read(lake, catalog)?.forget_expired()?;
    remove_old_views(lake)
}

/// Links the newest snapshot's file anew, after a repair has made it again.
///
/// # Errors
///
/// Disk errors.
pub(crate) fn relink(lake: &Lake, segment: &Segment) -> Result<(), LakeError> {
    let _lock = Lock::wait(&lake.path, Right::Show)?;
    let link = lake.path.join(CURRENT).join(segment.table.name()).join(segment.name());
    if !link.exists() {
        return Ok(());
    }
    // In one rename, so that a crash leaves the old file or the new one.
    let temporary = link.with_extension("tmp");
    lake.disk.remove(&temporary)?;
    lake.disk.link(&segment.path, &temporary)?;
    lake.disk.rename(&temporary, &link)
}

/// The newest number that other tools have seen. It is written after its snapshot is committed, so
/// a database that lacks this snapshot is an older copy.
pub(crate) fn newest_seen(lake: &Lake) -> Result<Option<SnapshotId>, LakeError> {
    let mut seen = shown(&lake.path);
    for table in Table::ALL {
        let last = versions(&log_folder(lake, table))?.pop().map(SnapshotId);
        seen = seen.max(last);
    }
    Ok(seen)
}

/// The snapshot that the link `current` leads to; none if there is no such link.
pub(crate) fn shown(lake: &Path) -> Option<SnapshotId> {
    let target = std::fs::read_link(lake.join(CURRENT)).ok()?;
    target.file_name()?.to_str()?.parse().ok().map(SnapshotId)
}

/// What other tools are to see, of one moment. The caller has the right to show it.
struct ExportedHistory<'a> {
    lake: Lake,
    catalog: &'a Catalog,
    transaction: Transaction<'a>,
    history: Vec<SnapshotRow>,
    /// The files of the snapshots that were read so far.
    files: BTreeMap<SnapshotId, TableFiles>,
}

impl<'a> ExportedHistory<'a> {
    fn read(lake: &Lake, catalog: &'a Catalog) -> Result<Self, LakeError> {
        let transaction = catalog.read()?;
        let history = manifest::snapshots(&transaction).map_err(catalog.error())?;
        // Within the transaction: `lake.json` names a column before any file has it.
        let lake = match lake.current() {
            // A lake that is being made gets its lake.json last.
            Err(LakeError::NotALake { .. }) => lake.clone(),
            current => current?,
        };
        Ok(Self { lake, catalog, transaction, history, files: BTreeMap::new() })
    }

    /// The files of a snapshot that other tools see.
    fn files(&mut self, id: SnapshotId) -> Result<&TableFiles, LakeError> {
        if !self.files.contains_key(&id) {
            let segments = manifest::segments(&self.transaction, &self.lake, id);
            let mut segments = segments.map_err(self.catalog.error())?;
            delta::retain_visible(&mut segments, |segment| &segment.row);
            self.files.insert(id, by_table(segments));
        }
        Ok(&self.files[&id])
    }

    fn delta_files(&mut self, table: Table, id: SnapshotId) -> Result<Vec<DeltaFile>, LakeError> {
        let files = self.files(id)?.get(&table);
        let file = |segment: &Segment| DeltaFile::new(segment.row.clone(), segment.name());
        Ok(files.into_iter().flatten().map(file).collect())
    }

    fn row(&self, id: SnapshotId) -> Option<&SnapshotRow> {
        self.history.iter().find(|row| row.id == id)
    }

    /// What the logs of all tables say of a snapshot.
    fn version(&mut self, id: SnapshotId) -> Result<Option<DeltaVersion<'_>>, LakeError> {
        let files = self.files(id)?.values().flatten();
        let uncounted_steps = delta::uncounted_steps(files.map(|segment| &segment.row));
        Ok(self.row(id).map(|row| DeltaVersion {
            number: row.id.0,
            created_at_ms: row.created_at_ms,
            operation: row.kind.as_str(),
            detail: &row.detail,
            uncounted_steps,
        }))
    }

    /// Writes the versions of a table that are missing.
    fn bring_up(&mut self, table: Table) -> Result<(), LakeError> {
        let folder = log_folder(&self.lake, table);
        let newest = self.history.last().expect("a lake has a snapshot").id;
        let last = versions(&folder)?.pop();
        if last.is_none() {
            self.lake.disk.create_dir(&self.lake.table_folder(table))?;
            self.lake.disk.create_dir(&folder)?;
        }
        let first = match last {
            Some(last) => last + 1,
            None if self.history[0].id.0 == 1 => {
                let path = folder.join(delta::version_name(0));
                self.lake.disk.write_file(&path, &delta::creation(table, &self.lake.identity))?;
                1
            }
            None => newest.0 + 1,
        };
        let is_known = |version: i64| version == 0 || self.row(SnapshotId(version)).is_some();
        if last.is_none() && first > 1 || !(first - 1..=newest.0).all(is_known) {
            // The snapshots in between have expired, so the table begins anew.
            return self.write_checkpoint(table, newest);
        }
        for version in first..=newest.0 {
            self.write_version(table, SnapshotId(version))?;
        }
        Ok(())
    }

    fn write_version(&mut self, table: Table, id: SnapshotId) -> Result<(), LakeError> {
        let before = match id.0 {
            1 => Vec::new(),
            number => self.delta_files(table, SnapshotId(number - 1))?,
        };
        let now = self.delta_files(table, id)?;
        let identity = Arc::clone(&self.lake.identity);
        let version = self.version(id)?.expect("the caller has looked");
        let content = delta::commit(table, Some(&identity), &version, Some(&before), &now);
        let path = log_folder(&self.lake, table).join(delta::version_name(id.0));
        self.lake.disk.write_file(&path, &content)?;
        if id.0 % delta::CHECKPOINT_INTERVAL == 0 {
            self.write_checkpoint(table, id)?;
        }
        Ok(())
    }

    /// Writes a checkpoint. Readers begin with the newest one.
    fn write_checkpoint(&mut self, table: Table, id: SnapshotId) -> Result<(), LakeError> {
        let files = self.delta_files(table, id)?;
        let identity = Arc::clone(&self.lake.identity);
        let Some(version) = self.version(id)? else { return Ok(()) };
        let (parquet, last) = delta::checkpoint(table, &identity, &version, &files);
        let folder = log_folder(&self.lake, table);
        self.lake.disk.write_file(&folder.join(delta::checkpoint_name(id.0)), &parquet)?;
        let newer = names(&folder)?.into_iter().filter(|name| name.ends_with(".parquet"));
        let newer = newer.filter_map(|name| delta::version_of(&name)).any(|other| other > id.0);
        if !newer {
            self.lake.disk.write_file(&folder.join(delta::LAST_CHECKPOINT), &last)?;
        }
        Ok(())
    }

    /// Makes each Delta table begin with a checkpoint of the oldest snapshot, if some have expired,
    /// and removes the files of older versions that were written long ago.
    fn forget_expired(&mut self) -> Result<(), LakeError> {
        let Some(oldest) = self.history.first().map(|row| row.id) else { return Ok(()) };
        // Version 0, the empty table, stays as long as snapshot 1.
        if oldest == SnapshotId(1) {
            return Ok(());
        }
        for table in Table::ALL {
            let folder = log_folder(&self.lake, table);
            let mut expired = versions(&folder)?;
            expired.retain(|&version| version < oldest.0);
            if !expired.is_empty() && !folder.join(delta::checkpoint_name(oldest.0)).exists() {
                self.write_checkpoint(table, oldest)?;
            }
            for version in expired {
                for name in [delta::version_name(version), delta::checkpoint_name(version)] {
                    let path = folder.join(name);
                    if is_old(&self.lake, &path) {
                        self.lake.disk.remove(&path)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn by_table(segments: Vec<Segment>) -> TableFiles {
    let mut files = TableFiles::new();
    for segment in segments {
        files.entry(segment.table).or_default().push(segment);
    }
    files
}

fn log_folder(lake: &Lake, table: Table) -> PathBuf {
    lake.table_folder(table).join(delta::FOLDER)
}

/// The versions that have a file, in ascending order.
fn versions(folder: &Path) -> Result<Vec<i64>, LakeError> {
    let versions = names(folder)?.into_iter().filter_map(|name| delta::version_of(&name));
    Ok(versions.collect::<BTreeSet<_>>().into_iter().collect())
}

fn names(folder: &Path) -> Result<Vec<String>, LakeError> {
    let names = entries(folder)?.into_iter().map(|entry| entry.file_name());
    Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
}

/// Makes `current` lead to the files of a snapshot.
fn show(lake: &Lake, id: SnapshotId, files: &TableFiles) -> Result<(), LakeError> {
    let (link, views) = (lake.path.join(CURRENT), lake.path.join(VIEWS));
    let target = Path::new(VIEWS).join(id.to_string());
    if shown(&lake.path) == Some(id) {
        return Ok(());
    }
    let disk = &lake.disk;
    if link.is_dir() && !link.is_symlink() {
        // A copy of the lake that followed links has a folder there, with copies of files.
        disk.remove_tree(&link)?;
    }
    disk.create_dir(&views)?;
    let view = lake.path.join(&target);
    // A crash may have left a part of it.
    disk.remove_tree(&view)?;
    disk.create_dir_unsynced(&view)?;
    for (table, segments) in files {
        let folder = view.join(table.name());
        disk.create_dir_unsynced(&folder)?;
        for segment in segments {
            disk.link(&segment.path, &folder.join(segment.name()))?;
        }
        disk.sync_dir(&folder)?;
    }
    disk.sync_dir(&view)?;
    disk.sync_dir(&views)?;
    let temporary = lake.path.join(CURRENT_TEMPORARY);
    disk.remove(&temporary)?;
    disk.symlink(&target, &temporary)?;
    disk.rename(&temporary, &link)?;
    remove_old_views(lake).map(drop)
}

/// Removes the former targets of the link, but for the last few. A target is old if its successor
/// is. Returns how many former targets stay.
fn remove_old_views(lake: &Lake) -> Result<u64, LakeError> {
    let views = lake.path.join(VIEWS);
    let names = names(&views)?;
    let mut numbers = names.iter().filter_map(|name| name.parse().ok()).collect::<Vec<i64>>();
    numbers.sort_unstable();
    let view = |number: i64| views.join(number.to_string());
    let (mut left, shown) = (0, shown(&lake.path).map(|id| id.0));
    let first = numbers.len().saturating_sub(1 + VIEWS_MAX);
    for (place, pair) in numbers.windows(2).enumerate() {
        let goes = place < first || is_old(lake, &view(pair[1]));
        // A crash may have left a newer view that the link does not lead to yet.
        if Some(pair[0]) != shown && goes {
            lake.disk.remove_tree(&view(pair[0]))?;
        } else {
            left += 1;
        }
    }
    Ok(left)
}

/// Whether a file was written so long ago that nobody is about to read what came before it.
fn is_old(lake: &Lake, path: &Path) -> bool {
    let now = UNIX_EPOCH + Duration::from_millis(lake.clock.now_ms().unsigned_abs());
    let written = std::fs::metadata(path).and_then(|file| file.modified());
    written.is_ok_and(|then| now.duration_since(then).is_ok_and(|age| age > GRACE))
}
