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

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use super::catalog::{self, Catalog};
use super::disk::{BLOCK_BYTES, DiskFile};
use super::lake::demand_empty;
use super::lock::{Lock, ReadersLock, Right};
use super::{
    BlockDigests, Disk, FileRow, Inventory, Keep, Lake, LossRow, Maintenance, RetractionRow,
    RunRow, Segment, SnapshotId, SnapshotKind, StoreError, Writer, identity, losses, manifest,
    retired, retractions,
};

/// The folder of files that are on their way.
pub(super) const FOLDER: &str = "fetching";

/// The file that says that a folder is of a first fetch that was not completed.
pub(super) const UNFINISHED: &str = "fetch.unfinished";

const WHAT_IT_SAYS: &str = "This folder is no lake yet: a `steplake fetch` into it is under way, or was \
interrupted. The same command goes on; or delete the folder.\n";

/// Under which name `derivations` says what was fetched.
const DERIVATION: &str = "fetched";

/// What the catalog keeps of a fetch, to tell what came after it.
#[derive(Debug, Serialize, Deserialize)]
struct Fetched {
    /// What was fetched, in the caller's words.
    what: String,
    /// The snapshot that the fetch made.
    snapshot: i64,
    /// Digest of the list of runs.
    runs: String,
}

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
    /// [`StoreError::OwnWork`] when the lake has rows, runs or retractions that no fetch brought;
    /// [`StoreError::OtherIdentity`] when it is of something else; [`StoreError::NotALake`] when
    /// the folder holds something else; [`StoreError::Busy`] and [`StoreError::BeingMaintained`].
    pub fn begin(
        disk: Disk,
        path: &Path,
        inventory: Inventory,
        verify: bool,
    ) -> Result<Self, StoreError> {
        let is_lake = path.join(identity::FILE_NAME).exists();
        let fetching = if is_lake {
            Self::begin_again(disk, path, inventory, verify)?
        } else {
            Self::begin_new(disk, path, inventory)?
        };
        fetching.lake.disk.create_dir(&fetching.lake.path.join(FOLDER))?;
        fetching.take_up()?;
        Ok(fetching)
    }

    fn begin_new(disk: Disk, path: &Path, inventory: Inventory) -> Result<Self, StoreError> {
        let unfinished = path.join(UNFINISHED);
        let demand = || if unfinished.exists() { Ok(()) } else { demand_empty(path) };
        demand()?;
        disk.create_dir(path)?;
        let lock = Lock::take(path, Right::Write)?;
        demand()?;
        let lake = Lake::new(path, inventory.identity.clone(), disk);
        lake.disk.write_file(&unfinished, WHAT_IT_SAYS.as_bytes())?;
        // What a completion that was cut short made of the catalog.
        for suffix in ["-journal", "", "-wal", "-shm"] {
            lake.disk.remove(&path.join(format!("{}{suffix}", catalog::FILE_NAME)))?;
        }
        Ok(Self { lake, inventory, here: Mutex::default(), place: Place::New(lock) })
    }

    fn begin_again(
        disk: Disk,
        path: &Path,
        inventory: Inventory,
        verify: bool,
    ) -> Result<Self, StoreError> {
        let lake = Lake::open_on(disk, path)?;
        lake.identity.demand(&inventory.identity, path)?;
        if lake.identity.digest() != inventory.identity.digest() {
            return Err(StoreError::OtherIdentity {
                path: path.to_owned(),
                what: "flags of actions",
                lake: "one set".into(),
                wanted: "another".into(),
            });
        }
        let maintenance = lake.maintenance()?;
        let writer = lake.writer()?;
        let here = maintenance.catalog.reading(|log| {
            if let Some(what) = own_work(log)? {
                return Ok(Err(what));
            }
            let now = manifest::segments(log, &lake, SnapshotId(i64::MAX))?;
            Ok(Ok((now, manifest::retired(log, &lake)?)))
        })?;
        let (mut here, mut before) =
            here.map_err(|what| StoreError::OwnWork { path: path.to_owned(), what })?;
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
    fn take_up(&self) -> Result<(), StoreError> {
        let folder = self.lake.path.join(FOLDER);
        let missing = self.missing();
        let wanted: HashMap<_, _> = missing.iter().map(|row| (row.name(), row)).collect();
        // A completion that was cut short had moved some already.
        for row in &missing {
            let path = row.path(&self.lake.path);
            if path.exists()
                && let Some(segment) = self.as_listed(row, &path)?
            {
                self.keep(segment);
            }
        }
        let entries = std::fs::read_dir(&folder).map_err(StoreError::io("list", &folder))?;
        for entry in entries {
            let path = entry.map_err(StoreError::io("list", &folder))?.path();
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
    fn as_listed(&self, row: &FileRow, path: &Path) -> Result<Option<Segment>, StoreError> {
        let reading = || StoreError::io("read", path);
        let file = self.lake.disk.open(path).map_err(reading())?;
        if file.bytes().map_err(reading())? != row.bytes {
            return Ok(None);
        }
        let (mut whole, mut blocks) = (blake3::Hasher::new(), Vec::new());
        let mut block = vec![0; BLOCK_BYTES];
        for start in (0..row.bytes).step_by(BLOCK_BYTES) {
            let read = file.read_at(&mut block, start).map_err(reading())?;
            whole.update(&block[..read]);
            blocks.extend_from_slice(blake3::hash(&block[..read]).as_bytes());
        }
        let is_it = whole.finalize().to_hex().as_str() == row.digest;
        Ok(is_it.then(|| self.segment(row, BlockDigests::new(blocks))))
    }

    fn segment(&self, row: &FileRow, blocks: BlockDigests) -> Segment {
        Segment {
            table: row.table,
            path: row.path(&self.lake.path),
            rows: row.rows,
            bytes: row.bytes,
            digest: row.digest.clone(),
            key_range: row.key_range,
            layer: row.layer,
            is_counted: row.is_counted,
            blocks,
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
    /// [`StoreError::DiskFull`] and what else a disk does.
    pub fn file(&self, row: &FileRow) -> Result<FetchedFile, StoreError> {
        let path = self.lake.path.join(FOLDER).join(row.name());
        let mut temporary = path.clone().into_os_string();
        temporary.push(".tmp");
        let file = self.lake.disk.create(temporary.clone().into())?;
        Ok(FetchedFile { file, temporary: temporary.into(), path, row: row.clone() })
    }

    /// Makes a file that is as listed durable, and takes it for the lake.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when it is not what the list says: it is removed. What else a disk
    /// does.
    pub fn take(&self, file: FetchedFile) -> Result<(), StoreError> {
        if !file.is_as_listed() {
            self.lake.disk.remove(&file.temporary)?;
            return Err(StoreError::corrupt(&file.path, "it is not what its digest says"));
        }
        let FetchedFile { file, temporary, path, row } = file;
        let mut file = file;
        file.sync()?;
        self.lake.disk.rename(&temporary, &path)?;
        self.keep(self.segment(&row, BlockDigests::new(file.blocks())));
        Ok(())
    }

    /// Makes the folder the lake of the list; `what` says for people what that is. An older copy,
    /// and what only it had, is gone, but for who reads it at this moment.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does. The lake is then as it was before.
    ///
    /// # Panics
    ///
    /// When a file is missing.
    pub fn complete(self, what: &str) -> Result<Lake, StoreError> {
        let Self { lake, inventory, here, place } = self;
        let here = here.into_inner().unwrap_or_else(PoisonError::into_inner);
        let segments = inventory.files.iter().map(|row| {
            let known = here.get(&row.digest).expect("all files are there");
            let path = row.path(&lake.path);
            let (layer, is_counted, rows) = (row.layer, row.is_counted, row.rows);
            let (table, key_range) = (row.table, row.key_range);
            Segment { table, path, rows, key_range, layer, is_counted, ..known.clone() }
        });
        let segments = segments.collect::<Vec<_>>();
        move_in(&lake, &segments)?;
        let rights = match place {
            Place::New(lock) => {
                Catalog::create(&lake.path, &lake.identity, &lake.disk)?;
                let mut catalog =
                    Catalog::open_for_writing(&lake.path, &lake.identity, &lake.disk)?;
                adopt(&mut catalog, &lake, &inventory, &segments, what)?;
                drop(catalog);
                ReadersLock::create(&lake.path)?;
                lake.identity.write(&lake.path, &lake.disk)?;
                // It is a lake, whatever becomes of this: nobody heeds the file beside a lake.json.
                let _ = lake.disk.remove(&lake.path.join(UNFINISHED));
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
            maintenance.settle(true);
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
    temporary: PathBuf,
    path: PathBuf,
    row: FileRow,
}

impl FetchedFile {
    /// Adds what comes next of its content.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does.
    pub fn write(&mut self, content: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(content).map_err(StoreError::io("write", &self.path))
    }

    /// Says whether what was written is the file that was wanted.
    pub fn is_as_listed(&self) -> bool {
        self.file.bytes() == self.row.bytes && *self.file.digest().to_hex() == *self.row.digest
    }
}

/// Moves files from where they came to where the lake has them. Durable on return.
fn move_in(lake: &Lake, segments: &[Segment]) -> Result<(), StoreError> {
    for segment in segments {
        let name = segment.path.file_name().expect("a segment has a name");
        let from = lake.path.join(FOLDER).join(name);
        if from.exists() {
            lake.disk
                .create_dir(segment.path.parent().expect("it lies in the folder of its table"))?;
            lake.disk.rename(&from, &segment.path)?;
        } else if !segment.path.exists() {
            // It was retired once, and comes back.
            let from = retired::retired_place(&segment.path);
            lake.disk
                .create_dir(segment.path.parent().expect("it lies in the folder of its table"))?;
            lake.disk.rename(&from, &segment.path)?;
        }
    }
    Ok(())
}

fn last_fetch(log: &Connection) -> rusqlite::Result<Option<Fetched>> {
    let sql = "SELECT inputs FROM derivations WHERE name = ?1";
    let fetched: Option<String> = log.query_row(sql, [DERIVATION], |row| row.get(0)).optional()?;
    Ok(fetched.and_then(|text| serde_json::from_str(&text).ok()))
}

/// The snapshot that a fetch made of the lake; none where it was not fetched.
pub(super) fn fetched_in(log: &Connection) -> rusqlite::Result<Option<SnapshotId>> {
    Ok(last_fetch(log)?.map(|fetched| SnapshotId(fetched.snapshot)))
}

/// What a lake holds that no fetch brought, in the words of a message.
fn own_work(log: &Connection) -> rusqlite::Result<Option<&'static str>> {
    let count = |sql: &str, after: i64| log.query_row(sql, [after], |row| row.get::<_, i64>(0));
    let Some(fetched) = last_fetch(log)? else {
        let sql = "SELECT (SELECT count(*) FROM segments) + (SELECT count(*) FROM runs)
                   + (SELECT count(*) FROM frames) + ?1";
        return Ok((count(sql, 0)? > 0).then_some("it was not made by a fetch"));
    };
    if count("SELECT count(*) + 0 * ?1 FROM frames", 0)? > 0 {
        return Ok(Some("rows were recorded in it that are not sealed"));
    }
    if runs_digest(&catalog::runs(log)?) != fetched.runs {
        return Ok(Some("a run was begun in it"));
    }
    if count("SELECT count(*) FROM retractions WHERE snapshot_id > ?1", fetched.snapshot)? > 0 {
        return Ok(Some("something was retracted in it"));
    }
    // What a repair writes is what is left of what came.
    let sql =
        "SELECT count(*) FROM segments WHERE retired_in IS NULL AND layer IS NULL AND added_in > ?1
               AND added_in NOT IN (SELECT snapshot_id FROM snapshots WHERE kind = 'repair')";
    let added = count(sql, fetched.snapshot)? > 0;
    Ok(added.then_some("rows were sealed in it"))
}

fn runs_digest(runs: &[RunRow]) -> String {
    let mut hasher = blake3::Hasher::new();
    for run in runs {
        let row = format!("{} {} {} {}\n", run.id.0, run.uid, run.finished, run.arguments);
        hasher.update(row.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// Makes the catalog say what the list says, in one transaction and a snapshot of its own.
fn adopt(
    catalog: &mut Catalog,
    lake: &Lake,
    inventory: &Inventory,
    segments: &[Segment],
    what: &str,
) -> Result<(), StoreError> {
    let path = catalog.path().to_owned();
    let now_ms = lake.disk.now_ms();
    let transaction = catalog.write()?;
    let publish = || {
        let kind = SnapshotKind::Fetch;
        let snapshot = manifest::begin_snapshot(&transaction, now_ms, kind, what)?;
        for table in ["runs", "retracted_runs", "retractions", "losses", "derivations"] {
            transaction.execute(&format!("DELETE FROM {table}"), [])?;
        }
        for run in &inventory.runs {
            catalog::insert_run(&transaction, run)?;
        }
        for row in &inventory.retractions {
            retractions::insert(&transaction, &RetractionRow { snapshot, ..row.clone() })?;
        }
        for row in &inventory.losses {
            losses::insert(&transaction, &LossRow { snapshot, ..row.clone() })?;
        }
        let sql = "UPDATE segments SET retired_in = ?1 WHERE retired_in IS NULL";
        transaction.execute(sql, [snapshot.0])?;
        for segment in segments {
            manifest::insert(&transaction, &lake.path, segment, snapshot)?;
            if segment.is_counted {
                manifest::mark_counted(&transaction, &lake.path, segment, snapshot)?;
            }
        }
        let runs = runs_digest(&catalog::runs(&transaction)?);
        let fetched = Fetched { what: what.to_owned(), snapshot: snapshot.0, runs };
        let fetched = serde_json::to_string(&fetched).expect("strings and numbers serialise");
        let derivations =
            [("dedup", inventory.dedup_inputs.as_deref()), (DERIVATION, Some(fetched.as_str()))];
        for (name, inputs) in derivations {
            if let Some(inputs) = inputs {
                let sql = "INSERT INTO derivations VALUES (?1, ?2)";
                transaction.execute(sql, params![name, inputs])?;
            }
        }
        Ok(())
    };
    publish().map_err(StoreError::sqlite(&path))?;
    lake.disk.commit(transaction, &path)?;
    // The transaction is durable either way; brought home, no damage to the log can take it back.
    let _ = catalog.settle();
    Ok(())
}

/// Lets go of older copies: their runs may have had other numbers.
fn clear_old(maintenance: &mut Maintenance) -> Result<(), StoreError> {
    maintenance.expire(Keep::Newest(std::num::NonZeroU64::MIN))?;
    maintenance.collect().map(drop)
}

impl Lake {
    /// What the lake was fetched from, in the words of [`Fetching::complete`]; none where it was
    /// not.
    ///
    /// # Errors
    ///
    /// When the catalog cannot be read.
    pub fn fetched(&self) -> Result<Option<String>, StoreError> {
        let catalog = Catalog::open_for_reading(&self.path, &self.identity, &self.disk)?;
        Ok(catalog.reading(last_fetch)?.map(|fetched| fetched.what))
    }
}
