//! A lake that is made after an [`Inventory`], or brought up to a newer one: the copy of a lake
//! that lies elsewhere.
//!
//! # What is durable when
//!
//! Files come to `fetching/` in the lake, each under its name once it is durable and what its
//! digest says. Nothing of them is part of the lake before [`Fetching::complete`], which moves them
//! to their places and then publishes all of it in one transaction. Killed before that, the lake is
//! as it was, or still none where it was new: then the folder holds `fetch.unfinished` and no
//! `lake.json`. The next fetch takes up what is durable in `fetching/`.
//!
//! # What a reader sees
//!
//! The lake as it was, or the new one. Who reads the old one meanwhile reads on.

use std::collections::{BTreeSet, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::fetched::{own_work, runs_digest};
use super::inventory::Inventory;
use crate::lake::create::{FETCH_UNFINISHED, clear_unfinished, create_catalog, demand_empty};
use crate::lake::digest::{Content, ContentHasher};
use crate::lake::disk::DiskFile;
use crate::lake::edit::{self, VersionEdit};
use crate::lake::lock::{Lock, ReadersLock, Right};
use crate::lake::manifest::Derived;
use crate::lake::sqlite::Catalog;
use crate::lake::{
    Disk, FileRow, Lake, LakeError, Segment, SnapshotId, SnapshotKind, Writer, identity_file,
    manifest,
};
use crate::upkeep::{Keep, Maintenance};

/// The folder of files that are on their way.
const FOLDER: &str = "fetching";

const WHAT_IT_SAYS: &str = "This folder is no lake yet: a `steplake fetch` into it is under way, or was \
interrupted. The same command goes on; or delete the folder.\n";

/// The right to make a folder the copy of an [`Inventory`].
#[derive(Debug)]
pub struct Fetching {
    lake: Lake,
    inventory: Inventory,
    /// The files that are there, by digest.
    here: Mutex<HashMap<String, Segment>>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// There is no lake yet.
    New(Lock),
    /// An older copy is there.
    Lake(Box<(Maintenance, Writer)>),
}

impl Fetching {
    /// Takes a folder that is empty, not there yet, left by a fetch that was cut short, or a lake
    /// that was fetched before and not worked on since. With `verify`, each file that it has is
    /// compared with its digests first, and those that are damaged are missing.
    ///
    /// # Errors
    ///
    /// [`LakeError::OwnWork`] when the lake has rows, runs or retractions that no fetch brought;
    /// [`LakeError::OtherIdentity`] when it is of something else; [`LakeError::NotALake`] when
    /// the folder holds something else; [`LakeError::Busy`] and [`LakeError::BeingMaintained`].
    pub fn begin(
        disk: Disk,
        path: &Path,
        inventory: Inventory,
        verify: bool,
    ) -> Result<Self, LakeError> {
        let is_lake = path.join(identity_file::FILE_NAME).exists();
        let fetching = if is_lake {
            Self::begin_again(disk, path, inventory, verify)?
        } else {
            Self::begin_new(disk, path, inventory)?
        };
        fetching.lake.disk.create_dir(&fetching.lake.path.join(FOLDER))?;
        fetching.take_up()?;
        Ok(fetching)
    }

    fn begin_new(disk: Disk, path: &Path, inventory: Inventory) -> Result<Self, LakeError> {
        let unfinished = path.join(FETCH_UNFINISHED);
        let demand = || if unfinished.exists() { Ok(()) } else { demand_empty(path) };
        demand()?;
        disk.create_dir(path)?;
        let lock = Lock::take(&disk, path, Right::Write)?;
        demand()?;
        let lake = Lake::new(path, inventory.identity.clone(), disk);
        lake.disk.write_file(&unfinished, WHAT_IT_SAYS.as_bytes())?;
        // What a completion that was cut short made of the catalog.
        clear_unfinished(&lake.disk, path)?;
        Ok(Self { lake, inventory, here: Mutex::default(), place: Place::New(lock) })
    }

    fn begin_again(
        disk: Disk,
        path: &Path,
        inventory: Inventory,
        verify: bool,
    ) -> Result<Self, LakeError> {
        let lake = Lake::open_on(disk, path)?;
        lake.identity.demand(&inventory.identity, path)?;
        let maintenance = lake.maintenance()?;
        let writer = lake.writer()?;
        if *lake.identity != inventory.identity {
            // The published lake has grown since. Rows that are here have null in new columns.
            inventory.identity.write(path, &lake.disk)?;
        }
        let lake = lake.current()?;
        let here = maintenance.catalog.reading(|log| {
            if let Some(what) = own_work(log)? {
                return Ok(Err(what));
            }
            let now = manifest::segments(log, &lake, SnapshotId(i64::MAX))?;
            Ok(Ok((now, manifest::retired(log, &lake)?)))
        })?;
        let (mut here, mut before) =
            here.map_err(|what| LakeError::OwnWork { path: path.to_owned(), what })?;
        here.retain(|it| if verify { it.check().is_ok() } else { it.open().is_ok() });
        // Among those that were put away there may be some that a repair found damaged.
        before.retain(|segment| segment.check().is_ok());
        let here = before.into_iter().chain(here);
        let here = here.map(|segment| (segment.digest.clone(), segment)).collect();
        let place = Place::Lake(Box::new((maintenance, writer)));
        Ok(Self { lake, inventory, here: Mutex::new(here), place })
    }

    /// Takes what an earlier fetch left durable, and removes what it left otherwise, or for another
    /// version.
    fn take_up(&self) -> Result<(), LakeError> {
        let folder = self.lake.path.join(FOLDER);
        let missing = self.missing();
        let wanted: HashMap<_, _> = missing.iter().map(|row| (row.name(), row)).collect();
        // A completion that was cut short had moved some already.
        for row in &missing {
            let path = self.path(row);
            if path.exists()
                && let Some(segment) = self.as_listed(row, &path)?
            {
                self.keep(segment);
            }
        }
        let entries = std::fs::read_dir(&folder).map_err(LakeError::io("list", &folder))?;
        for entry in entries {
            let path = entry.map_err(LakeError::io("list", &folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let found = match wanted.get(name) {
                Some(&row) => self.as_listed(row, &path)?,
                None => None,
            };
            match found {
                Some(segment) => self.keep(segment),
                None => self.lake.disk.remove(&path)?,
            }
        }
        Ok(())
    }

    /// The segment that a file is, where it has the content that it should have.
    fn as_listed(&self, row: &FileRow, path: &Path) -> Result<Option<Segment>, LakeError> {
        let reading = || LakeError::io("read", path);
        let file = self.lake.disk.open(path).map_err(reading())?;
        if file.bytes().map_err(reading())? != row.bytes {
            return Ok(None);
        }
        let content = Content::read(&file).map_err(reading())?;
        Ok(content.filter(|content| content.digest == row.digest).map(|it| self.segment(row, it)))
    }

    fn path(&self, row: &FileRow) -> PathBuf {
        self.lake.table_folder(row.table).join(row.name())
    }

    fn segment(&self, row: &FileRow, content: Content) -> Segment {
        Segment {
            table: row.table,
            path: self.path(row),
            rows: row.rows,
            bytes: row.bytes,
            digest: row.digest.clone(),
            key_range: row.key_range,
            layer: row.layer,
            is_counted: row.is_counted,
            blocks: content.blocks,
            disk: self.lake.disk.clone(),
        }
    }

    fn keep(&self, segment: Segment) {
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        here.insert(segment.digest.clone(), segment);
    }

    /// The files that are still to come, each once.
    pub fn missing(&self) -> Vec<FileRow> {
        let here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = BTreeSet::new();
        let missing = self.inventory.files.iter().filter(|row| !here.contains_key(&row.digest));
        missing.filter(|row| seen.insert(&row.digest)).cloned().collect()
    }

    /// Begins to write a file that is missing. Several can be written at a time.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and what else a disk does.
    pub fn file(&self, row: &FileRow) -> Result<FetchedFile, LakeError> {
        let path = self.lake.path.join(FOLDER).join(row.name());
        let mut temporary = path.clone().into_os_string();
        temporary.push(".tmp");
        let file = self.lake.disk.create(temporary.clone().into())?;
        let hasher = ContentHasher::default();
        Ok(FetchedFile { file, hasher, temporary: temporary.into(), path, row: row.clone() })
    }

    /// Makes a file that is as listed durable, and takes it for the lake.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when it is not what the list says: it is removed. What else a disk
    /// does.
    pub fn take(&self, file: FetchedFile) -> Result<(), LakeError> {
        let is_as_listed = file.is_as_listed();
        let FetchedFile { mut file, hasher, temporary, path, row } = file;
        if !is_as_listed {
            self.lake.disk.remove(&temporary)?;
            return Err(LakeError::corrupt(&path, "it is not what its digest says"));
        }
        file.sync()?;
        self.lake.disk.rename(&temporary, &path)?;
        self.keep(self.segment(&row, hasher.finish()));
        Ok(())
    }

    /// Makes the folder the lake of the list; `what` says for people what that is. An older copy,
    /// and what only it had, is gone, but for who reads it at this moment.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and what else a disk does. The lake is then as it was before.
    ///
    /// # Panics
    ///
    /// When a file is missing.
    pub fn complete(self, what: &str) -> Result<Lake, LakeError> {
        let Self { lake, inventory, here, place } = self;
        let here = here.into_inner().unwrap_or_else(PoisonError::into_inner);
        let segments = inventory.files.iter().map(|row| {
            let known = here.get(&row.digest).expect("all files are there");
            let path = lake.table_folder(row.table).join(row.name());
            let (layer, is_counted, rows) = (row.layer, row.is_counted, row.rows);
            let (table, key_range) = (row.table, row.key_range);
            Segment { table, path, rows, key_range, layer, is_counted, ..known.clone() }
        });
        let segments = segments.collect::<Vec<_>>();
        move_in(&lake, &segments)?;
        let rights = match place {
            Place::New(lock) => {
                let mut catalog = create_catalog(&lake)?;
                adopt(&mut catalog, &lake, &inventory, &segments, what)?;
                drop(catalog);
                ReadersLock::create(&lake.path)?;
                lake.identity.write(&lake.path, &lake.disk)?;
                // It is a lake, whatever becomes of this: nobody heeds the file beside a lake.json.
                let _ = lake.disk.remove(&lake.path.join(FETCH_UNFINISHED));
                drop(lock);
                None
            }
            Place::Lake(mut rights) => {
                adopt(&mut rights.0.catalog, &lake, &inventory, &segments, what)?;
                Some(rights)
            }
        };
        let _ = std::fs::remove_dir(lake.path.join(FOLDER));
        if let Some(rights) = rights {
            let (mut maintenance, writer) = *rights;
            drop(writer);
            // The lake is the new one already; what cannot be cleared away now is by the next `gc`.
            if let Err(error) = clear_old(&mut maintenance) {
                tracing::debug!(%error, "what the older copy had stays for now");
            }
        }
        Ok(lake)
    }
}

/// A file on its way.
#[derive(Debug)]
pub struct FetchedFile {
    file: DiskFile,
    hasher: ContentHasher,
    temporary: PathBuf,
    path: PathBuf,
    row: FileRow,
}

impl FetchedFile {
    /// Adds what comes next of its content.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and what else a disk does.
    pub fn write(&mut self, content: &[u8]) -> Result<(), LakeError> {
        self.file.write_all(content).map_err(LakeError::io("write", &self.path))?;
        self.hasher.update(content);
        Ok(())
    }

    /// Whether what was written is the wanted file.
    pub fn is_as_listed(&self) -> bool {
        self.hasher.is_of(self.row.bytes, &self.row.digest)
    }
}

/// Moves files from where they came to where the lake has them. Durable on return.
fn move_in(lake: &Lake, segments: &[Segment]) -> Result<(), LakeError> {
    for segment in segments {
        let name = segment.path.file_name().expect("a segment has a name");
        let from = lake.path.join(FOLDER).join(name);
        if from.exists() {
            lake.disk
                .create_dir(segment.path.parent().expect("it lies in the folder of its table"))?;
            lake.disk.rename(&from, &segment.path)?;
        }
    }
    Ok(())
}

/// Makes the catalog say what the list says, in one transaction and a snapshot of its own.
fn adopt(
    catalog: &mut Catalog,
    lake: &Lake,
    inventory: &Inventory,
    segments: &[Segment],
    what: &str,
) -> Result<(), LakeError> {
    let mut edit = VersionEdit::new(SnapshotKind::Fetch, what);
    edit.fetched = Some((what.to_owned(), runs_digest(&inventory.runs)));
    edit.add = segments.to_vec();
    edit.counted = segments.iter().filter(|segment| segment.is_counted).cloned().collect();
    edit.runs.clone_from(&inventory.runs);
    edit.retractions.clone_from(&inventory.retractions);
    edit.losses.clone_from(&inventory.losses);
    edit.derived = inventory.dedup_inputs.clone().map_or(Derived::Kept, Derived::Made);
    edit::apply(catalog, lake, &edit).map(drop)
}

/// Lets go of older copies: their runs may have had other numbers.
fn clear_old(maintenance: &mut Maintenance) -> Result<(), LakeError> {
    maintenance.expire(Keep::Newest(std::num::NonZeroU64::MIN))?;
    maintenance.collect().map(drop)
}
