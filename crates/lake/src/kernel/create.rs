//! Creation of lakes.

use std::path::Path;

use super::contexts::CONTEXTS;
use super::delta;
use super::error::LakeError;
use super::handle::{DATA, Lake};
use super::identity::Identity;
use super::identity_file;
use super::other_tools;
use super::writer::Writer;
use crate::kernel::files::disk::Disk;
use crate::kernel::files::lock::{self, Lock, Right};
use crate::kernel::files::reserve;
use crate::kernel::schema::table::Table;
use crate::kernel::segments::segment::is_own_name;
use crate::kernel::versions::edit::{self, VersionEdit};
use crate::kernel::versions::manifest::SnapshotKind;
use crate::kernel::versions::snapshot_log;
use crate::kernel::versions::sqlite::{self, Catalog};

/// The file that marks the folder of an incomplete merge.
pub(crate) const MERGE_UNFINISHED: &str = "merge.unfinished";
/// The file that marks the folder of an incomplete first fetch.
pub(crate) const FETCH_UNFINISHED: &str = "fetch.unfinished";
/// The file that marks the folder of an incomplete conversion.
pub(crate) const CONVERT_UNFINISHED: &str = "convert.unfinished";

/// These files, and what each of them is left by.
const UNFINISHED_WORK: [(&str, &str); 3] =
    [(MERGE_UNFINISHED, "merge"), (FETCH_UNFINISHED, "fetch"), (CONVERT_UNFINISHED, "conversion")];

/// What an interrupted creation leaves beside the files of tables.
const UNFINISHED: [&str; 4] = [
    snapshot_log::FOLDER,
    other_tools::VIEWS,
    other_tools::CURRENT,
    other_tools::CURRENT_TEMPORARY,
];

impl Lake {
    /// Makes a lake in a folder that is empty or does not exist. The lake exists once this returns
    /// `Ok`. An interrupted creation can be repeated.
    ///
    /// # Errors
    ///
    /// [`LakeError::HoldsALake`] and [`LakeError::NotALake`] when the folder holds something.
    pub fn create(path: impl AsRef<Path>, identity: &Identity) -> Result<Self, LakeError> {
        Self::create_on(Disk::default(), path, identity)
    }

    /// [`create`](Self::create) on a disk with faults.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn create_on(
        disk: Disk,
        path: impl AsRef<Path>,
        identity: &Identity,
    ) -> Result<Self, LakeError> {
        let path = path.as_ref();
        demand_empty(path)?;
        disk.create_dir(path)?;
        let lock = Lock::take(&disk, path, Right::Write)?;
        demand_empty(path)?;
        // An interrupted creation may have been for another identity.
        clear_unfinished(&disk, path)?;
        Lock::create_readers(path)?;
        let lake = Self::new(path, identity.clone(), disk);
        create_catalog(&lake)?;
        identity.write(path, &lake.disk)?;
        drop(lock);
        Ok(lake)
    }

    /// Opens a lake of this identity, or makes one. If the lake lacks actions or spaces, one rename
    /// appends them to its `lake.json`: a reader sees all of them or none. Older rows have null in
    /// the new columns. A crash directly after the rename leaves columns without values.
    ///
    /// # Errors
    ///
    /// [`LakeError::OtherIdentity`] if the lake has another identity, [`LakeError::Busy`] if it
    /// would have to grow while another process writes to it.
    pub fn open_or_create(path: impl AsRef<Path>, identity: &Identity) -> Result<Self, LakeError> {
        Self::open_or_create_on(Disk::default(), path, identity)
    }

    /// [`open_or_create`](Self::open_or_create) on a disk with faults.
    ///
    /// # Errors
    ///
    /// As [`open_or_create`](Self::open_or_create).
    pub fn open_or_create_on(
        disk: Disk,
        path: impl AsRef<Path>,
        identity: &Identity,
    ) -> Result<Self, LakeError> {
        let path = path.as_ref();
        if !path.join(identity_file::FILE_NAME).exists() {
            return Self::create_on(disk, path, identity);
        }
        let lake = Self::open_on(disk, path)?;
        lake.identity.demand(identity, path)?;
        if lake.identity.grown(identity).is_none() {
            return Ok(lake);
        }
        let _lock = Lock::take(&lake.disk, path, Right::Write)?;
        let lake = lake.current()?;
        // Another process may have appended something since.
        lake.identity.demand(identity, path)?;
        if let Some(grown) = lake.identity.grown(identity) {
            grown.write(path, &lake.disk)?;
        }
        lake.current()
    }
}

impl Writer {
    /// Returns whether the lake has no rows but those of its actions, and no other contexts.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if the lake is damaged.
    pub fn is_unused(&self) -> Result<bool, LakeError> {
        let snapshot = self.lake.snapshot()?;
        let mut recorded = Table::ALL.into_iter().filter(|&table| table != Table::Actions);
        let is_empty = recorded.all(|table| snapshot.rows(table) == 0);
        Ok(is_empty && self.lake.other_contexts()?.is_empty())
    }

    /// Removes the lake, of which the empty folder stays. After a crash in between, a lake can be
    /// made there.
    ///
    /// # Errors
    ///
    /// [`LakeError::BeingRead`] if a process reads the lake, and disk errors.
    pub fn remove_lake(mut self) -> Result<(), LakeError> {
        let _alone = Lock::without_readers(&self.lake.path)?;
        let Lake { path, disk, .. } = &self.lake;
        // With its runs, a folder without `lake.json` would be a damaged lake.
        self.catalog.writing(|log| log.execute("DELETE FROM runs", []).map(drop))?;
        drop(self.catalog);
        disk.remove(&path.join(identity_file::FILE_NAME))?;
        clear_unfinished(disk, path)?;
        disk.remove(&path.join(reserve::FILE_NAME))?;
        disk.remove_tree(&path.join(DATA))?;
        lock::FILE_NAMES.iter().try_for_each(|name| disk.remove(&path.join(name)))
    }
}

/// Removes what an interrupted creation, merge, conversion or fetch made beside the files of
/// tables: the database, the log of snapshots, and what other tools read.
pub(crate) fn clear_unfinished(disk: &Disk, path: &Path) -> Result<(), LakeError> {
    for suffix in ["-journal", "", "-wal", "-shm"] {
        disk.remove(&path.join(format!("{}{suffix}", sqlite::FILE_NAME)))?;
    }
    for link in [other_tools::CURRENT, other_tools::CURRENT_TEMPORARY] {
        disk.remove(&path.join(link))?;
    }
    for folder in [snapshot_log::FOLDER, other_tools::VIEWS] {
        disk.remove_tree(&path.join(folder))?;
    }
    for table in Table::ALL {
        disk.remove_tree(&path.join(DATA).join(table.name()).join(delta::FOLDER))?;
    }
    Ok(())
}

/// Makes the database of a new lake, with a first snapshot without rows. The caller holds the right
/// to write.
pub(crate) fn create_catalog(lake: &Lake) -> Result<Catalog, LakeError> {
    let mut catalog = Catalog::create(lake.path.join(sqlite::FILE_NAME), lake)?;
    let edit = VersionEdit::new(SnapshotKind::Create, "an empty lake");
    edit::apply(&mut catalog, lake, &edit)?;
    Ok(catalog)
}

/// Says what a folder holds of a lake that was not completed, if it does.
pub(crate) fn unfinished_work(path: &Path) -> Option<String> {
    let (file, work) = UNFINISHED_WORK.into_iter().find(|(file, _)| path.join(file).exists())?;
    Some(format!("it holds {file}: a {work} into it was not completed, and may be run again"))
}

/// Refuses a folder that holds anything except what an interrupted creation leaves.
pub(crate) fn demand_empty(path: &Path) -> Result<(), LakeError> {
    let not_a_lake = |detail: String| LakeError::NotALake { path: path.to_owned(), detail };
    if path.join(identity_file::FILE_NAME).exists() {
        return Err(LakeError::HoldsALake { path: path.to_owned() });
    }
    if let Some(what) = unfinished_work(path) {
        return Err(not_a_lake(what));
    }
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(not_a_lake("it is a file".into()));
        }
        Err(error) => return Err(LakeError::io("list", path)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(LakeError::io("list", path))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let ours = name == DATA && !holds_rows(&entry.path())
            || UNFINISHED.contains(&name.as_str())
            || name.starts_with(sqlite::FILE_NAME)
            || lock::FILE_NAMES.contains(&name.as_str())
            || name == reserve::FILE_NAME
            || name == CONTEXTS && is_empty(&entry.path())
            || UNFINISHED_WORK
                .iter()
                .map(|(file, _)| file)
                .chain(&[identity_file::FILE_NAME])
                .any(|file| name == format!("{file}.tmp"));
        if !ours {
            return Err(not_a_lake(format!("it holds {name} and has no lake.json")));
        }
    }
    // A hot log with rows is a lake that lost its lake.json.
    let hot = path.join(sqlite::FILE_NAME);
    // A creation first turns the rollback journal into a write-ahead log. Before that, the database
    // has no rows.
    let in_creation = path.join(format!("{}-journal", sqlite::FILE_NAME)).exists();
    if hot.exists() && !in_creation && !sqlite::is_unused(&hot)? {
        return Err(not_a_lake("its lake.json is gone".into()));
    }
    Ok(())
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whether the folder has files of tables that a creation does not write: it writes only actions.
fn holds_rows(data: &Path) -> bool {
    Table::ALL.into_iter().filter(|&table| table != Table::Actions).any(|table| {
        let entries = std::fs::read_dir(data.join(table.name()));
        let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.into_iter().any(|name| name.to_str().is_some_and(|name| is_own_name(table, name)))
    })
}
