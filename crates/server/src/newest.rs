//! The lake as it is now: an engine for each version of its contents, shared by all queries that
//! need it.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steplake::engine::{are_those, open_all, snapshots};
use steplake::environments::Environments;
use steplake::lake::{Identity, Lake, Snapshot, SnapshotContents, SnapshotId};
use steplake::model::line;
use steplake::query::{Engine, EngineOptions, QueryError};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::pins::{PinId, Pins};

/// The files that change whenever the lake changes.
const CATALOG_FILES: [&str; 2] = ["hot.sqlite", "hot.sqlite-wal"];

/// Two changes closer together than this may leave the same time on a file.
const CLOCK_TICK: Duration = Duration::from_millis(50);

/// How long the newest engine is kept without queries. While it is kept, `steplake gc` deletes
/// nothing.
const IDLE_MAX: Duration = Duration::from_mins(1);

/// The contexts of the lake that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedContexts {
    /// The first, by itself.
    First,
    /// All, as one engine over them.
    All,
}

/// An engine for fixed contents of the lake.
#[derive(Debug)]
pub struct Served {
    /// The engine.
    pub engine: Engine,
    /// What the first context is of, with its spaces.
    pub identity: Identity,
    /// The contents of each context.
    contents: Vec<SnapshotContents>,
}

/// The state of a catalog's files: size, time and inode number of each.
type CatalogStamp = [Option<(u64, i64, i64, u64)>; CATALOG_FILES.len()];

/// The folders of the contexts beside the first, and the state of the catalog of each.
type Stamp = (Vec<PathBuf>, Vec<CatalogStamp>);

struct Current {
    served: Arc<Served>,
    /// The state of the files before they were read.
    stamp: Stamp,
    /// Whether the stamp would reveal any later change.
    is_stable: bool,
    read_at: Instant,
}

/// Provides engines. A query keeps the engine with which it began; a newer one does not change its
/// answer.
pub struct NewestEngine {
    lake: Lake,
    contexts: ServedContexts,
    pinned: Option<Arc<Served>>,
    current: Mutex<Option<Current>>,
    pins: Pins,
    used_at: parking_lot::Mutex<Instant>,
    last: parking_lot::Mutex<Result<SnapshotId, &'static str>>,
    environments: Environments,
    /// What all engines share.
    options: EngineOptions,
    /// The runtime that reads the catalog. Its threads are not those of queries that wait for
    /// files, which may be many.
    catalog_threads: Handle,
}

impl fmt::Debug for NewestEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewestEngine").field("path", &self.lake.path()).finish_non_exhaustive()
    }
}

impl NewestEngine {
    /// Opens the lake, which must exist, with these contexts, and the snapshot if the server is
    /// fixed to one, which is that of the first context. The catalog is read on the blocking
    /// threads of `catalog_threads`.
    ///
    /// # Errors
    ///
    /// If the lake or the snapshot cannot be read.
    pub async fn open(
        environments: Environments,
        lake: Lake,
        contexts: ServedContexts,
        snapshot: Option<i64>,
        options: EngineOptions,
        catalog_threads: Handle,
    ) -> Result<Self, QueryError> {
        let mut newest = Self {
            pinned: None,
            current: Mutex::default(),
            pins: Pins::default(),
            used_at: parking_lot::Mutex::new(Instant::now()),
            last: parking_lot::Mutex::new(Err("the lake was not read yet")),
            environments,
            options,
            lake,
            contexts,
            catalog_threads,
        };
        if let Some(number) = snapshot {
            let snapshot = newest.lake.snapshot_at(SnapshotId(number))?;
            newest.pinned = Some(Arc::new(newest.serve(vec![(String::new(), snapshot)]).await?));
        }
        newest.get().await?;
        Ok(newest)
    }

    /// Returns the current lake, with every row that was durable before the call.
    ///
    /// # Errors
    ///
    /// If the lake cannot be read.
    pub async fn get(&self) -> Result<Arc<Served>, QueryError> {
        let served = self.refresh().await;
        let known = served.as_ref().map(|served| served.contents[0].snapshot()).map_err(|error| {
            tracing::warn!("the lake cannot be read: {}", line(error));
            "the lake cannot be read"
        });
        *self.last.lock() = known;
        served
    }

    /// Keeps contents of the lake for a while, for a client that will come back.
    pub fn pin(&self, served: &Arc<Served>) -> PinId {
        self.pins.pin(served)
    }

    /// Returns contents that are kept; none if they were for too long.
    pub fn pinned(&self, id: PinId) -> Option<Arc<Served>> {
        self.pins.get(id)
    }

    /// Returns whether the lake could be read at the last query and still exists, with the number
    /// of the newest snapshot at that time. Computes nothing and never waits.
    ///
    /// # Errors
    ///
    /// The problem, in words that anyone may read: the path of the lake and the system's error are
    /// only in the log.
    pub fn health(&self) -> Result<SnapshotId, &'static str> {
        let place = self.lake.path();
        fs::metadata(place.join(CATALOG_FILES[0])).map_err(|error| {
            tracing::warn!("the lake at {} is missing: {error}", place.display());
            "the lake is missing"
        })?;
        *self.last.lock()
    }

    async fn refresh(&self) -> Result<Arc<Served>, QueryError> {
        *self.used_at.lock() = Instant::now();
        if let Some(pinned) = &self.pinned {
            return Ok(Arc::clone(pinned));
        }
        let mut current = self.current.lock().await;
        let stamp = self.stamp();
        if let Some(current) = current.as_ref()
            && current.is_stable
            && current.stamp == stamp
        {
            return Ok(Arc::clone(&current.served));
        }
        // A change in the same tick as the stamp would not change the stamp, so such a stamp is not
        // trusted.
        let is_stable = current.as_ref().is_some_and(|current| {
            current.stamp == stamp && current.read_at.elapsed() > CLOCK_TICK
        });
        let (lake, contexts, read_at) = (self.lake.clone(), self.contexts, Instant::now());
        let newest = self.catalog_threads.spawn_blocking(move || match contexts {
            ServedContexts::First => Ok(vec![(String::new(), lake.snapshot()?)]),
            ServedContexts::All => snapshots(lake.path()),
        });
        let newest = newest.await;
        let newest = newest.map_err(|error| QueryError::Failed(error.to_string()))??;
        // The old engine lives until the new one has taken over its graph.
        let before = current.take();
        let served = match &before {
            Some(before) if are_those(&before.served.contents, &newest) => {
                Arc::clone(&before.served)
            }
            _ => Arc::new(self.serve(newest).await?),
        };
        *current = Some(Current { served: Arc::clone(&served), stamp, is_stable, read_at });
        Ok(served)
    }

    /// Drops the newest engine, and with it its files, when there was no query for a while, and
    /// contents that were kept for clients that did not come back.
    pub async fn release_when_idle(&self) {
        loop {
            tokio::time::sleep(IDLE_MAX / 4).await;
            self.pins.release_unused();
            let used_at = *self.used_at.lock();
            if used_at.elapsed() > IDLE_MAX && self.current.lock().await.take().is_some() {
                tracing::debug!("no query for a while: the lake's files are closed");
            }
        }
    }

    async fn serve(&self, newest: Vec<(String, Snapshot)>) -> Result<Served, QueryError> {
        let contents = newest.iter().map(|(_, snapshot)| SnapshotContents::of(snapshot)).collect();
        let identity = newest[0].1.identity().clone();
        for (context, snapshot) in &newest {
            let has_hot_rows = snapshot.has_hot_rows();
            tracing::info!(context, snapshot = snapshot.id().0, has_hot_rows, "reading");
        }
        let engine = open_all(&self.environments, newest, &self.options).await?;
        Ok(Served { engine, identity, contents })
    }

    /// The stamp of the lake. A context that cannot be listed shows when the lake is read.
    fn stamp(&self) -> Stamp {
        let others = match self.contexts {
            ServedContexts::First => Vec::new(),
            ServedContexts::All => self.lake.other_contexts().unwrap_or_default(),
        };
        let others: Vec<PathBuf> = others.into_iter().map(|(_, path)| path).collect();
        let folders = std::iter::once(self.lake.path()).chain(others.iter().map(AsRef::as_ref));
        let stamps = folders.map(|folder| {
            CATALOG_FILES.map(|name| {
                let file = fs::metadata(folder.join(name)).ok()?;
                Some((file.size(), file.mtime(), file.mtime_nsec(), file.ino()))
            })
        });
        let stamps = stamps.collect();
        (others, stamps)
    }
}
