//! Makes a lake from an [`Inventory`], or updates one to it: the copy of a lake that is elsewhere.
//!
//! # What is durable when
//!
//! Files arrive in `fetching/` in the lake. Each gets its name once it is durable and matches its
//! digest. No file is part of the lake before [`ReplicaWriter::complete`], which moves all files to
//! their places and then lists them in one transaction. If the process is killed before that, the
//! lake is unchanged; a new folder holds `fetch.unfinished` and no `lake.json`, so it is no lake.
//! The next fetch reuses the durable files in `fetching/`.
//!
//! # What a reader sees
//!
//! The lake before the update, or the lake after it. A reader that has the earlier one open keeps
//! it.

use std::collections::{BTreeSet, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};

use super::folder::Folder;
use super::inventory::Inventory;
use super::origin::{own_work, publication, runs_digest};
use crate::kernel::create::{FETCH_UNFINISHED, clear_unfinished, create_catalog};
use crate::kernel::files::digest::{BlockDigests, Content, ContentHasher};
use crate::kernel::files::disk::DiskFile;
use crate::kernel::versions::edit::{self, VersionEdit};
use crate::kernel::versions::manifest;
use crate::kernel::versions::manifest::{Derived, FetchRecord};
use crate::kernel::versions::sqlite::Catalog;
use crate::kernel::{
    Disk, FileRow, Lake, LakeError, Segment, SnapshotId, SnapshotKind, Writer, identity_file,
};
use crate::upkeep::{Keep, Maintenance};

/// The folder of files that are arriving.
const FOLDER: &str = "fetching";

/// Makes a folder the copy of an [`Inventory`]. While it exists, nobody else can write to the
/// folder.
#[derive(Debug)]
pub struct ReplicaWriter {
    lake: Lake,
    inventory: Inventory,
    /// The files that have arrived, by digest.
    arrived: Mutex<HashMap<String, BlockDigests>>,
    target: Target,
}

/// The state of the folder before.
#[derive(Debug)]
enum Target {
    /// There is no lake yet.
    New(Folder),
    /// It is a lake that was fetched earlier.
    Lake(Box<(Maintenance, Writer)>),
}

impl ReplicaWriter {
    /// Begins with a folder that does not exist, is empty, was left by an interrupted fetch, or is
    /// a lake that was fetched earlier and not changed since. With `verify`, each file of the lake
    /// is compared with its digests first; damaged files count as missing.
    ///
    /// The lake may also have changed, if all of it has been published: `contained` is the note of
    /// that publication ([`Lake::publication`]), of which the caller knows that the inventory has
    /// everything in it.
    ///
    /// # Errors
    ///
    /// [`LakeError::OwnWork`] if the lake has rows, runs or retractions that no fetch brought;
    /// [`LakeError::OtherIdentity`] if it has another identity, or its columns in another order;
    /// [`LakeError::NotALake`] if the folder holds something else; [`LakeError::Busy`] and
    /// [`LakeError::BeingMaintained`].
    pub fn begin(
        disk: Disk,
        path: &Path,
        inventory: Inventory,
        verify: bool,
        contained: Option<&str>,
    ) -> Result<Self, LakeError> {
        let is_lake = path.join(identity_file::FILE_NAME).exists();
        let replica = if is_lake {
            Self::update(disk, path, inventory, verify, contained)?
        } else {
            Self::create(disk, path, inventory)?
        };
        replica.lake.disk.create_dir(&replica.lake.path.join(FOLDER))?;
        replica.reuse_arrived()?;
        Ok(replica)
    }

    fn create(disk: Disk, path: &Path, inventory: Inventory) -> Result<Self, LakeError> {
        let folder = Folder::prepare(disk, path, &inventory.identity, FETCH_UNFINISHED)?;
        folder.mark("fetch", "continue")?;
        // An interrupted completion may have left a part of the catalog.
        clear_unfinished(&folder.lake.disk, path)?;
        let lake = folder.lake.clone();
        Ok(Self { lake, inventory, arrived: Mutex::default(), target: Target::New(folder) })
    }

    fn update(
        disk: Disk,
        path: &Path,
        inventory: Inventory,
        verify: bool,
        contained: Option<&str>,
    ) -> Result<Self, LakeError> {
        let lake = Lake::open_on(disk, path)?;
        let writer = lake.writer()?;
        let maintenance = lake.maintenance()?;
        let listed = maintenance.catalog.reading(|log| {
            if let Some(what) = own_work(log)?
                && (contained.is_none() || publication(log)?.as_deref() != contained)
            {
                return Ok(Err(what));
            }
            let now = manifest::segments(log, &lake, SnapshotId::NEWEST)?;
            Ok(Ok((now, manifest::retired(log, &lake)?)))
        })?;
        let (mut now, mut retired) =
            listed.map_err(|what| LakeError::OwnWork { path: path.to_owned(), what })?;
        let identity = lake.current()?.identity.extended(&inventory.identity, path)?;
        let lake = Lake::new(path, identity, lake.disk);
        now.retain(|it| if verify { it.check().is_ok() } else { it.open().is_ok() });
        // A repair may have retired some of these because they are damaged.
        retired.retain(|segment| segment.check().is_ok());
        let arrived = retired.into_iter().chain(now);
        let arrived = arrived.map(|segment| (segment.row.digest, segment.blocks)).collect();
        let target = Target::Lake(Box::new((maintenance, writer)));
        Ok(Self { lake, inventory, arrived: Mutex::new(arrived), target })
    }

    /// Reuses the wanted files that an interrupted fetch left, and removes all others in the folder
    /// of arriving files.
    fn reuse_arrived(&self) -> Result<(), LakeError> {
        let folder = self.lake.path.join(FOLDER);
        let missing = self.missing();
        let wanted: HashMap<_, _> = missing.iter().map(|row| (row.name(), row)).collect();
        // An interrupted completion may have moved some files to their places.
        for row in &missing {
            let path = self.lake.table_folder(row.table).join(row.name());
            if path.exists() {
                self.reuse(row, &path)?;
            }
        }
        let entries = std::fs::read_dir(&folder).map_err(LakeError::io("list", &folder))?;
        for entry in entries {
            let path = entry.map_err(LakeError::io("list", &folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_reused = match wanted.get(name) {
                Some(&row) => self.reuse(row, &path)?,
                None => false,
            };
            if !is_reused {
                self.lake.disk.remove(&path)?;
            }
        }
        Ok(())
    }

    /// Reuses a file if its content matches the list. Returns whether it does.
    fn reuse(&self, row: &FileRow, path: &Path) -> Result<bool, LakeError> {
        let reading = || LakeError::io("read", path);
        let file = self.lake.disk.open(path).map_err(reading())?;
        if file.bytes().map_err(reading())? != row.bytes {
            return Ok(false);
        }
        let content = Content::read(&file).map_err(reading())?;
        let content = content.filter(|content| content.digest == row.digest);
        let is_intact = content.is_some();
        self.arrived().extend(content.map(|content| (content.digest, content.blocks)));
        Ok(is_intact)
    }

    fn arrived(&self) -> MutexGuard<'_, HashMap<String, BlockDigests>> {
        self.arrived.lock()
    }

    /// Returns the files that have not arrived, each once.
    pub fn missing(&self) -> Vec<FileRow> {
        let arrived = self.arrived();
        let mut seen = BTreeSet::new();
        let missing = self.inventory.files.iter().filter(|row| !arrived.contains_key(&row.digest));
        missing.filter(|row| seen.insert(&row.digest)).cloned().collect()
    }

    /// Takes the missing files that another lake has, by hard links; those of its older snapshots
    /// too. A damaged file, one that is deleted meanwhile, and one that cannot be linked, as on
    /// another file system, stays missing. Durable on return.
    ///
    /// # Errors
    ///
    /// Disk errors, and errors of the other lake's catalog.
    pub fn link_from(&self, other: &Lake) -> Result<(), LakeError> {
        let folder = self.lake.path.join(FOLDER);
        let known = Catalog::open_for_reading(other)?.reading(|log| {
            let now = manifest::segments(log, other, SnapshotId::NEWEST)?;
            Ok([manifest::retired(log, other)?, now].concat())
        })?;
        let known = known.iter().map(|segment| (segment.digest.as_str(), segment));
        let known = known.collect::<HashMap<_, _>>();
        for row in self.missing() {
            let Some(&segment) = known.get(row.digest.as_str()) else { continue };
            let link = || self.lake.disk.link(&segment.path, &folder.join(row.name()));
            match segment.check().and_then(|()| link()) {
                Ok(()) => drop(self.arrived().insert(row.digest, segment.blocks.clone())),
                Err(error) => tracing::debug!(%error, "a local file is not used"),
            }
        }
        self.lake.disk.sync_dir(&folder)
    }

    /// Begins to write a missing file. Several can be written at a time.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors.
    pub fn create_file(&self, row: &FileRow) -> Result<IncomingFile, LakeError> {
        let path = self.lake.path.join(FOLDER).join(row.name());
        let mut temporary = path.clone().into_os_string();
        temporary.push(".tmp");
        let file = self.lake.disk.create(temporary.clone().into())?;
        let hasher = ContentHasher::default();
        Ok(IncomingFile { file, hasher, temporary: temporary.into(), path, row: row.clone() })
    }

    /// Makes a file durable, and adds it to the files that have arrived.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if it does not match the list; the file is removed. Disk errors.
    pub fn accept(&self, file: IncomingFile) -> Result<(), LakeError> {
        let is_as_listed = file.is_as_listed();
        let IncomingFile { mut file, hasher, temporary, path, row } = file;
        if !is_as_listed {
            self.lake.disk.remove(&temporary)?;
            return Err(LakeError::corrupt(&path, "its content does not match its digest"));
        }
        file.sync()?;
        self.lake.disk.rename(&temporary, &path)?;
        self.arrived().insert(row.digest, hasher.finish().blocks);
        Ok(())
    }

    /// Makes the folder the lake in the list; `what` tells people which one. Files that only an
    /// earlier copy had are deleted, unless somebody is reading them.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The lake is then unchanged.
    ///
    /// # Panics
    ///
    /// Panics if a file is missing.
    pub fn complete(self, what: &str) -> Result<Lake, LakeError> {
        let Self { lake, inventory, arrived, target } = self;
        let arrived = arrived.into_inner();
        let segments = inventory.files.iter().map(|row| {
            row.segment(&lake, arrived.get(&row.digest).expect("all files have arrived").clone())
        });
        let segments = segments.collect::<Vec<_>>();
        move_in(&lake, &segments)?;
        let rights = match target {
            Target::New(folder) => {
                let mut catalog = create_catalog(&lake)?;
                adopt(&mut catalog, &lake, inventory, segments, what)?;
                drop(catalog);
                folder.complete()?;
                None
            }
            Target::Lake(mut rights) => {
                if lake.current()?.identity != lake.identity {
                    // The files that come have more columns. The rows that are still here until the
                    // transaction have null there.
                    lake.identity.write(&lake.path, &lake.disk)?;
                }
                adopt(&mut rights.0.catalog, &lake, inventory, segments, what)?;
                Some(rights)
            }
        };
        let _ = std::fs::remove_dir(lake.path.join(FOLDER));
        if let Some(rights) = rights {
            let (mut maintenance, writer) = *rights;
            drop(writer);
            // The update is complete. The next `gc` deletes what cannot be deleted now.
            if let Err(error) = clear_old(&mut maintenance) {
                tracing::debug!(%error, "files of the earlier copy are not deleted yet");
            }
        }
        Ok(lake)
    }
}

/// A file that is being written.
#[derive(Debug)]
pub struct IncomingFile {
    file: DiskFile,
    hasher: ContentHasher,
    temporary: PathBuf,
    path: PathBuf,
    row: FileRow,
}

impl IncomingFile {
    /// Appends a part of the content.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors.
    pub fn write(&mut self, content: &[u8]) -> Result<(), LakeError> {
        self.file.write_all(content).map_err(LakeError::io("write", &self.path))?;
        self.hasher.update(content);
        Ok(())
    }

    /// Returns whether the content so far is that of the listed file.
    pub fn is_as_listed(&self) -> bool {
        self.hasher.is_of(self.row.bytes, &self.row.digest)
    }
}

/// Moves files from the folder of arriving files to the folders of their tables. Durable on return.
fn move_in(lake: &Lake, segments: &[Segment]) -> Result<(), LakeError> {
    for segment in segments {
        let name = segment.path.file_name().expect("a segment has a name");
        let from = lake.path.join(FOLDER).join(name);
        if from.exists() {
            lake.disk
                .create_dir(segment.path.parent().expect("it is in the folder of its table"))?;
            lake.disk.rename(&from, &segment.path)?;
        }
    }
    Ok(())
}

/// Makes the catalog match the list, in one transaction and a snapshot of its own.
fn adopt(
    catalog: &mut Catalog,
    lake: &Lake,
    inventory: Inventory,
    segments: Vec<Segment>,
    what: &str,
) -> Result<(), LakeError> {
    let runs = runs_digest(&inventory.runs);
    let edit = VersionEdit {
        fetched: Some(FetchRecord { what: what.to_owned(), snapshot: SnapshotId(0), runs }),
        counted: segments.iter().filter(|segment| segment.is_counted).cloned().collect(),
        add: segments,
        runs: inventory.runs,
        retractions: inventory.retractions,
        losses: inventory.losses,
        derived: inventory.dedup_inputs.map_or(Derived::Kept, Derived::Made),
        ..VersionEdit::new(SnapshotKind::Fetch, what)
    };
    edit::apply(catalog, lake, &edit).map(drop)
}

/// Forgets the snapshots of earlier copies, in which runs may have had other numbers.
fn clear_old(maintenance: &mut Maintenance) -> Result<(), LakeError> {
    maintenance.expire(Keep::Newest(std::num::NonZeroU64::MIN))?;
    maintenance.collect().map(drop)
}
