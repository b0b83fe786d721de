//! The lake as it is now: an engine for each version of its contents, shared by all queries that
//! need it.

use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use datafusion::execution::memory_pool::GreedyMemoryPool;
use steplake::cli::ir;
use steplake::cli::messages::line;
use steplake::lake::{Lake, RunRow, Snapshot, SnapshotId};
use steplake::query::{
    Engine, EngineOptions, Graphs, IrRebuilder, IrRenderer, QueryError, SpillSpace,
};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

/// The files that change whenever the lake changes.
const CATALOG_FILES: [&str; 2] = ["hot.sqlite", "hot.sqlite-wal"];

/// Two changes closer together than this may leave the same time on a file.
const CLOCK_TICK: Duration = Duration::from_millis(50);

/// How long the newest engine is kept without queries. While it is kept, `steplake gc` deletes
/// nothing.
const IDLE_MAX: Duration = Duration::from_mins(1);

/// An engine for fixed contents of the lake.
#[derive(Debug)]
pub(crate) struct Served {
    /// The engine.
    pub(crate) engine: Engine,
    /// The number of the sealed snapshot.
    pub(crate) snapshot: SnapshotId,
    has_hot_rows: bool,
    runs: Vec<RunRow>,
}

impl Served {
    /// Returns whether `snapshot` certainly holds the same rows.
    fn is(&self, snapshot: &Snapshot) -> bool {
        let sealed = !self.has_hot_rows && !snapshot.has_hot_rows();
        sealed && self.snapshot == snapshot.id() && self.runs == snapshot.runs()
    }
}

/// The state of the catalog's files: size, time and inode number of each.
type Stamp = [Option<(u64, i64, i64, u64)>; CATALOG_FILES.len()];

#[derive(Debug)]
struct Current {
    served: Arc<Served>,
    /// The state of the files before they were read.
    stamp: Stamp,
    /// Whether the stamp would reveal any later change.
    stamp_is_final: bool,
    read_at: Instant,
}

/// Provides engines. A query keeps the engine with which it began; a newer one does not change its
/// answer.
#[derive(Debug)]
pub(crate) struct Newest {
    lake: Lake,
    pinned: Option<Arc<Served>>,
    current: Mutex<Option<Current>>,
    asked_at: std::sync::Mutex<Instant>,
    last: std::sync::Mutex<Result<SnapshotId, &'static str>>,
    opening: Opening,
    /// The runtime that reads the catalog. Its threads are not those of queries that wait for
    /// files, which may be many.
    beside: Handle,
}

impl Newest {
    /// Opens the lake, which must exist, and the snapshot if the server is fixed to one. The
    /// catalog is read on the blocking threads of `beside`.
    ///
    /// # Errors
    ///
    /// If the lake or the snapshot cannot be read.
    pub(crate) async fn open(
        lake: Lake,
        snapshot: Option<i64>,
        resources: Resources,
        beside: Handle,
    ) -> Result<Self, QueryError> {
        let opening = Opening::new(&lake, resources);
        let pinned = match snapshot {
            Some(number) => {
                let snapshot = lake.snapshot_at(SnapshotId(number))?;
                Some(Arc::new(opening.serve(snapshot).await?))
            }
            None => None,
        };
        let (current, asked_at) = (Mutex::default(), std::sync::Mutex::new(Instant::now()));
        let last = std::sync::Mutex::new(Err("the lake was not read yet"));
        let newest = Self { lake, pinned, current, asked_at, last, opening, beside };
        newest.get().await?;
        Ok(newest)
    }

    /// Returns the current lake, with every row that was durable before the call.
    ///
    /// # Errors
    ///
    /// If the lake cannot be read.
    pub(crate) async fn get(&self) -> Result<Arc<Served>, QueryError> {
        let served = self.look().await;
        let known = served.as_ref().map(|served| served.snapshot).map_err(|error| {
            tracing::warn!("the lake cannot be read: {}", line(error));
            "the lake cannot be read"
        });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = known;
        served
    }

    /// Returns whether the lake could be read at the last query and still exists, with the number
    /// of the newest snapshot at that time. Computes nothing and waits for nobody.
    ///
    /// # Errors
    ///
    /// The problem, phrased for everybody: the path of the lake and the system's error are in the
    /// log.
    pub(crate) fn health(&self) -> Result<SnapshotId, &'static str> {
        let place = self.lake.path();
        fs::metadata(place.join(CATALOG_FILES[0])).map_err(|error| {
            tracing::warn!("the lake at {} is not there: {error}", place.display());
            "the lake is not there"
        })?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self) -> Result<Arc<Served>, QueryError> {
        *self.asked_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        if let Some(pinned) = &self.pinned {
            return Ok(Arc::clone(pinned));
        }
        let mut current = self.current.lock().await;
        let stamp = self.stamp();
        if let Some(current) = current.as_ref()
            && current.stamp_is_final
            && current.stamp == stamp
        {
            return Ok(Arc::clone(&current.served));
        }
        // A change in the same tick as the stamp would not change the stamp, so such a stamp is not
        // trusted.
        let stamp_is_final = current.as_ref().is_some_and(|current| {
            current.stamp == stamp && current.read_at.elapsed() > CLOCK_TICK
        });
        let (lake, read_at) = (self.lake.clone(), Instant::now());
        let snapshot = self.beside.spawn_blocking(move || lake.snapshot()).await;
        let snapshot = snapshot.map_err(|error| QueryError::Failed(error.to_string()))??;
        // It lives until there is a new one, which takes over its graph.
        let before = current.take();
        let served = match &before {
            Some(before) if before.served.is(&snapshot) => Arc::clone(&before.served),
            _ => Arc::new(self.opening.serve(snapshot).await?),
        };
        *current = Some(Current { served: Arc::clone(&served), stamp, stamp_is_final, read_at });
        Ok(served)
    }

    /// Drops the newest engine, and with it its files, when there was no query for a while.
    pub(crate) async fn let_go_when_idle(&self) {
        loop {
            tokio::time::sleep(IDLE_MAX / 4).await;
            let asked_at = *self.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
            if asked_at.elapsed() > IDLE_MAX && self.current.lock().await.take().is_some() {
                tracing::debug!("nobody asks: the lake's files are let go");
            }
        }
    }

    fn stamp(&self) -> Stamp {
        CATALOG_FILES.map(|name| {
            let found: PathBuf = self.lake.path().join(name);
            let file = fs::metadata(found).ok()?;
            Some((file.size(), file.mtime(), file.mtime_nsec(), file.ino()))
        })
    }
}

/// What all engines share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resources {
    /// Bytes of memory for transition graphs. `None`: as much as there is.
    pub(crate) graph_memory: Option<NonZeroUsize>,
    /// Bytes of temporary files. `None`: as many as [`SpillSpace::default`] says.
    pub(crate) spill_bytes: Option<NonZeroUsize>,
}

/// The parts of an engine.
struct Opening {
    renderer: IrRenderer,
    rebuilder: Arc<dyn IrRebuilder>,
    graphs: Graphs,
    spill: SpillSpace,
}

impl Opening {
    fn new(lake: &Lake, resources: Resources) -> Self {
        let environment = &lake.identity().environment;
        let rebuilder = ir::rebuilder(environment);
        let within =
            |bytes: NonZeroUsize| Graphs::within(Arc::new(GreedyMemoryPool::new(bytes.get())));
        let renderer = ir::renderer(environment);
        let graphs = resources.graph_memory.map(within).unwrap_or_default();
        let bytes = |bytes: NonZeroUsize| SpillSpace::of(bytes.get() as u64);
        let spill = resources.spill_bytes.map(bytes).unwrap_or_default();
        Self { renderer, rebuilder, graphs, spill }
    }

    async fn serve(&self, snapshot: Snapshot) -> Result<Served, QueryError> {
        let (id, has_hot_rows) = (snapshot.id(), snapshot.has_hot_rows());
        let runs = snapshot.runs().to_vec();
        let rebuilder = Some(Arc::clone(&self.rebuilder));
        let (graphs, spill) = (self.graphs.clone(), self.spill.clone());
        let options = EngineOptions { rebuilder, graphs, spill, ..EngineOptions::default() };
        let engine = Engine::new(snapshot, Arc::clone(&self.renderer), &options).await?;
        tracing::info!(snapshot = id.0, has_hot_rows, "reading");
        Ok(Served { engine, snapshot: id, has_hot_rows, runs })
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").field("rebuilder", &self.rebuilder).finish_non_exhaustive()
    }
}
