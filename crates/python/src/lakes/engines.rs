//! The engines of a lake: one for each version of its contents, and for each process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use steplake::engine;
use steplake::lake::{Lake, Snapshot, SnapshotContents, SnapshotId};
use steplake::query::{Engine, EngineOptions, QueryError};

use crate::compilers::worker::environments;
use crate::interpreter::errors::{PendingException, raise};
use crate::interpreter::of_process::OfProcess;
use crate::interpreter::progress::Progress;
use crate::interpreter::runtime::{blocking, wait_for};

/// The place of a lake, and its newest engine or that of one snapshot.
#[derive(Debug)]
pub(crate) struct Engines {
    path: PathBuf,
    snapshot: Option<i64>,
    options: EngineOptions,
    /// Only a thread that is attached to the interpreter locks it, and never while it waits.
    opened: Mutex<Option<OfProcess<CachedEngine>>>,
}

/// An engine, and what it reads.
#[derive(Debug, Clone)]
struct CachedEngine {
    engine: Arc<Engine>,
    /// The process's own: a forked one has another cache of graphs.
    options: EngineOptions,
    contents: SnapshotContents,
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
            let snapshot = blocking(move || read(&path, snapshot)).await?;
            match known {
                Some(known) if known.contents.are_those_of(&snapshot) => Ok(known),
                // The old engine lives until the new one has taken over its graph.
                _ => open(snapshot, options).await.map_err(PendingException::from),
            }
        })?;
        let engine = Arc::clone(&opened.engine);
        *self.opened.lock() = Some(OfProcess::new(opened));
        Ok(engine)
    }

    /// Forgets the engine, and with it the files that it keeps from being deleted.
    pub(crate) fn close(&self) {
        *self.opened.lock() = None;
    }

    fn known(&self) -> Option<CachedEngine> {
        self.opened.lock().as_ref().and_then(OfProcess::get).cloned()
    }
}

fn read(path: &Path, snapshot: Option<i64>) -> Result<Snapshot, PendingException> {
    let lake = Lake::open(path)?;
    Ok(match snapshot {
        Some(number) => lake.snapshot_at(SnapshotId(number))?,
        None => lake.snapshot()?,
    })
}

async fn open(snapshot: Snapshot, options: EngineOptions) -> Result<CachedEngine, QueryError> {
    let contents = SnapshotContents::of(&snapshot);
    let engine = Arc::new(engine::open(&environments(), snapshot, options.clone()).await?);
    Ok(CachedEngine { engine, options, contents })
}
