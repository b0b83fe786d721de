//! The engines of a lake: one for each version of its contents, and for each process.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use steplake::assembly::engine;
use steplake::lake::{Lake, RunRow, Snapshot, SnapshotId};
use steplake::query::{Engine, EngineOptions, QueryError};
use tokio::task::spawn_blocking;

use crate::errors::{Failure, raise};
use crate::of_process::OfProcess;
use crate::progress::Progress;
use crate::runtime::wait_for;

/// The place of a lake, and its newest engine or that of one snapshot.
#[derive(Debug)]
pub(crate) struct Engines {
    path: PathBuf,
    snapshot: Option<i64>,
    options: EngineOptions,
    /// Only a thread that is attached to the interpreter locks it, and never while it waits.
    opened: Mutex<Option<OfProcess<Opened>>>,
}

/// An engine, and what tells it from that of other contents.
#[derive(Debug, Clone)]
struct Opened {
    engine: Arc<Engine>,
    /// The process's own: a forked one has another cache of graphs.
    options: EngineOptions,
    snapshot: SnapshotId,
    has_hot_rows: bool,
    runs: Vec<RunRow>,
}

impl Opened {
    /// Returns whether `snapshot` certainly holds the same rows.
    fn is(&self, snapshot: &Snapshot) -> bool {
        let is_sealed = !self.has_hot_rows && !snapshot.has_hot_rows();
        is_sealed && self.snapshot == snapshot.id() && self.runs == snapshot.runs()
    }
}

impl Engines {
    pub(crate) fn new(path: PathBuf, snapshot: Option<i64>, options: EngineOptions) -> Self {
        Self { path, snapshot, options, opened: Mutex::new(None) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The snapshot that is read; `None` for the newest one.
    pub(crate) fn snapshot(&self) -> Option<i64> {
        self.snapshot
    }

    pub(crate) fn lake(&self) -> PyResult<Lake> {
        Lake::open(&self.path).map_err(|error| raise(error.into()))
    }

    /// Opens the snapshot that is read.
    pub(crate) fn read(&self) -> PyResult<Snapshot> {
        read(&self.path, self.snapshot).map_err(raise)
    }

    /// Returns an engine over the lake as it is now, or over the one snapshot.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Arc<Engine>> {
        let known = self.known();
        if let (Some(known), Some(_)) = (&known, self.snapshot) {
            return Ok(Arc::clone(&known.engine));
        }
        let (path, snapshot) = (self.path.clone(), self.snapshot);
        let options =
            known.as_ref().map_or_else(|| self.options.clone(), |one| one.options.clone());
        let opened = wait_for(py, &Progress::none(), async move {
            let snapshot = spawn_blocking(move || read(&path, snapshot)).await;
            let snapshot = snapshot.map_err(|error| Failure::defect(&error))??;
            match known {
                Some(known) if known.is(&snapshot) => Ok(known),
                // The old engine lives until the new one has taken over its graph.
                _ => open(snapshot, options).await.map_err(Failure::from),
            }
        })?;
        let engine = Arc::clone(&opened.engine);
        *self.lock() = Some(OfProcess::new(opened));
        Ok(engine)
    }

    /// Forgets the engine, and with it the files that it keeps from being deleted.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    fn known(&self) -> Option<Opened> {
        self.lock().as_ref().and_then(OfProcess::get).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<OfProcess<Opened>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path, snapshot: Option<i64>) -> Result<Snapshot, Failure> {
    let lake = Lake::open(path)?;
    Ok(match snapshot {
        Some(number) => lake.snapshot_at(SnapshotId(number))?,
        None => lake.snapshot()?,
    })
}

async fn open(snapshot: Snapshot, options: EngineOptions) -> Result<Opened, QueryError> {
    let (id, has_hot_rows) = (snapshot.id(), snapshot.has_hot_rows());
    let runs = snapshot.runs().to_vec();
    let engine = Arc::new(engine::open(snapshot, options.clone()).await?);
    Ok(Opened { engine, options, snapshot: id, has_hot_rows, runs })
}
