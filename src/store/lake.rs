use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::batch::Schemas;
use super::catalog::{self, Catalog};
use super::lock::{self, Lock, ReadersLock, Right};
use super::segment::SegmentPlace;
use super::snapshot::Moment;
use super::{
    Disk, Identity, Maintenance, Snapshot, SnapshotId, StoreError, StoredState, Table,
    VerifyReport, Writer, fetching, identity, manifest, merge,
};

/// A lake: a folder that holds the data of one environment. See the [module](super).
#[derive(Debug, Clone)]
pub struct Lake {
    pub(super) path: PathBuf,
    pub(super) identity: Arc<Identity>,
    pub(super) schemas: Schemas,
    pub(super) disk: Disk,
}

impl Lake {
    /// Makes a lake in a folder that is empty or not there yet. The lake is there once this returns
    /// `Ok`; a creation that was cut short can be done again.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotALake`] when the folder holds something, be it a lake.
    pub fn create(path: impl AsRef<Path>, identity: &Identity) -> Result<Self, StoreError> {
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
    ) -> Result<Self, StoreError> {
        let path = path.as_ref();
        demand_empty(path)?;
        disk.create_dir(path)?;
        let lock = Lock::take(path, Right::Write)?;
        demand_empty(path)?;
        // One that was cut short may have been meant for another identity.
        for suffix in ["-journal", "", "-wal", "-shm"] {
            disk.remove(&path.join(format!("{}{suffix}", catalog::FILE_NAME)))?;
        }
        ReadersLock::create(path)?;
        Catalog::create(path, identity, &disk)?;
        identity.write(path, &disk)?;
        drop(lock);
        Ok(Self::new(path, identity.clone(), disk))
    }

    /// Opens a lake. Nothing is written; a folder that is read-only will do.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], [`StoreError::NotALake`], [`StoreError::Format`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_on(Disk::default(), path)
    }

    /// [`open`](Self::open) on a disk with faults.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_on(disk: Disk, path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        Ok(Self::new(path, Identity::read(path, &disk)?, disk))
    }

    /// Opens a lake of this identity, or makes one.
    ///
    /// # Errors
    ///
    /// [`StoreError::OtherIdentity`] when the lake that is there is of another identity.
    pub fn open_or_create(path: impl AsRef<Path>, identity: &Identity) -> Result<Self, StoreError> {
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
    ) -> Result<Self, StoreError> {
        let path = path.as_ref();
        if !path.join(identity::FILE_NAME).exists() {
            return Self::create_on(disk, path, identity);
        }
        let lake = Self::open_on(disk, path)?;
        lake.identity.demand(identity, path)?;
        Ok(lake)
    }

    pub(super) fn new(path: &Path, identity: Identity, disk: Disk) -> Self {
        let schemas = Schemas::new(&identity);
        // Queries name files by URL, which knows no working directory.
        let path = std::path::absolute(path).unwrap_or_else(|_unknown| path.to_owned());
        Self { path, identity: Arc::new(identity), schemas, disk }
    }

    /// What it is a lake of.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All rows of this moment. The hot log is read into memory.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when a frame of the hot log is damaged.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Snapshot::read(self, Moment::Now)
    }

    /// The sealed rows of this moment: the newest snapshot without the hot log.
    ///
    /// # Errors
    ///
    /// When the catalog cannot be read.
    pub fn sealed(&self) -> Result<Snapshot, StoreError> {
        Snapshot::read(self, Moment::Sealed)
    }

    /// The number of the newest snapshot. Nothing else is read, and nothing is kept.
    ///
    /// # Errors
    ///
    /// When the catalog cannot be read.
    pub fn newest(&self) -> Result<SnapshotId, StoreError> {
        let catalog = Catalog::open_for_reading(&self.path, &self.identity, &self.disk)?;
        let transaction = catalog.read()?;
        let history = manifest::snapshots(&transaction).map_err(catalog.error())?;
        Moment::Sealed.find(&self.path, &history)
    }

    /// The rows that were sealed in snapshot `id`.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSnapshot`] when there is none of this number, or none any more.
    pub fn snapshot_at(&self, id: SnapshotId) -> Result<Snapshot, StoreError> {
        Snapshot::read(self, Moment::At(id))
    }

    /// Takes the right to write, brings the hot log to this version, and removes what a crash left
    /// of recorded tables.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] when another writer has it, [`StoreError::ReadOnly`].
    pub fn writer(&self) -> Result<Writer, StoreError> {
        Writer::open(self)
    }

    /// Takes the right to maintain the lake, beside a writer or without one, brings files to their
    /// places, and removes what a crash left of derived tables.
    ///
    /// # Errors
    ///
    /// [`StoreError::BeingMaintained`] when another process has it, [`StoreError::ReadOnly`].
    pub fn maintenance(&self) -> Result<Maintenance, StoreError> {
        Maintenance::open(self)
    }

    /// Checks everything that can be checked without a compiler: the rows of this moment, and the
    /// digests of the files that only older snapshots have. `progress` is told how many bytes of
    /// how many are done.
    ///
    /// # Errors
    ///
    /// When the lake cannot be read at all. Damage is no error but a finding.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport, StoreError> {
        super::verify::verify(self, Moment::Now, progress, &mut |_| ())
    }

    /// Checks the rows that were sealed in snapshot `id`.
    ///
    /// # Errors
    ///
    /// As [`verify`](Self::verify), and [`StoreError::NoSnapshot`].
    pub fn verify_at(
        &self,
        id: SnapshotId,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<VerifyReport, StoreError> {
        super::verify::verify(self, Moment::At(id), progress, &mut |_| ())
    }

    /// Checks this moment, or snapshot `at`, and hands over each state whose stored IR is what its
    /// SHA-1 says, on the way: whether it is that of the state only a compiler can tell.
    ///
    /// # Errors
    ///
    /// Those of [`verify_at`](Self::verify_at).
    pub fn verify_states(
        &self,
        at: Option<SnapshotId>,
        progress: &mut dyn FnMut(u64, u64),
        stored: &mut dyn FnMut(StoredState),
    ) -> Result<VerifyReport, StoreError> {
        let moment = at.map_or(Moment::Now, Moment::At);
        super::verify::verify(self, moment, progress, stored)
    }

    pub(super) fn segment_place(&self) -> SegmentPlace {
        SegmentPlace {
            lake: self.path.clone(),
            identity: Arc::clone(&self.identity),
            disk: self.disk.clone(),
        }
    }
}

/// Refuses a folder with anything in it, but for what a creation leaves that was cut short.
pub(super) fn demand_empty(path: &Path) -> Result<(), StoreError> {
    let not_a_lake = |detail: String| StoreError::NotALake { path: path.to_owned(), detail };
    if path.join(identity::FILE_NAME).exists() {
        return Err(not_a_lake("there is a lake already".into()));
    }
    if path.join(merge::UNFINISHED).exists() {
        let what = "it holds merge.unfinished: a `steplake merge` into it was not completed, and may be \
                    run again";
        return Err(not_a_lake(what.into()));
    }
    if path.join(fetching::UNFINISHED).exists() {
        let what = "it holds fetch.unfinished: a `steplake fetch` into it was not completed, and may be \
                    run again";
        return Err(not_a_lake(what.into()));
    }
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(not_a_lake("it is a file".into()));
        }
        Err(error) => return Err(StoreError::io("list", path)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(StoreError::io("list", path))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let empty_folder =
            || std::fs::read_dir(entry.path()).is_ok_and(|mut inside| inside.next().is_none());
        let ours = Table::from_name(&name).is_some() && empty_folder()
            || name.starts_with(catalog::FILE_NAME)
            || lock::FILE_NAMES.contains(&name.as_str())
            || [identity::FILE_NAME, merge::UNFINISHED, fetching::UNFINISHED]
                .iter()
                .any(|file| name == format!("{file}.tmp"));
        if !ours {
            return Err(not_a_lake(format!("it holds {name} and has no lake.json")));
        }
    }
    // A hot log with rows is a lake that lost its lake.json.
    let hot = path.join(catalog::FILE_NAME);
    // A log with a rollback journal is none yet: it is made a write-ahead log before anything else.
    let in_creation = path.join(format!("{}-journal", catalog::FILE_NAME)).exists();
    if hot.exists() && !in_creation && !catalog::is_unused(&hot)? {
        return Err(not_a_lake("its lake.json is gone".into()));
    }
    Ok(())
}
