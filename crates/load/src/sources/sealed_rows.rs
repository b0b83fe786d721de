//! The sealed rows of a snapshot, ready to be loaded.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::source::Source;
use super::states::{ObservedStates, digest};
use crate::error::LoadError;
use crate::matrices::matrix_cache::MatrixCache;
use steplake_lake::{Identity, Snapshot, SnapshotId, Table};
use steplake_query::Engine;

/// The sealed rows of a snapshot: what datasets are opened from.
#[derive(Clone)]
pub struct SealedRows {
    pub(crate) engine: Arc<Engine>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) cache: MatrixCache,
    pub(crate) states: Arc<ObservedStates>,
}

impl SealedRows {
    /// Opens the rows of a snapshot without hot rows. `engine` answers about the same snapshot.
    ///
    /// The ids of all states are read, unless the cache has them.
    ///
    /// # Errors
    ///
    /// [`LoadError::Store`] and [`LoadError::Cache`].
    pub async fn open(
        engine: Arc<Engine>,
        snapshot: Arc<Snapshot>,
        cache: &MatrixCache,
    ) -> Result<Self, LoadError> {
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let (read, own_cache) = (Arc::clone(&snapshot), cache.clone());
        let states = blocking(move || ObservedStates::of(read, &own_cache, threads)).await?;
        Ok(Self { engine, snapshot, cache: cache.clone(), states: Arc::new(states) })
    }

    /// The number of the snapshot.
    pub fn snapshot(&self) -> SnapshotId {
        self.snapshot.id()
    }

    /// Names all that a question about the snapshot may depend on.
    pub(crate) fn everything(&self) -> String {
        let sealed = digest(&self.snapshot, &Table::ALL);
        let (number, runs) = (self.snapshot.id().0, self.snapshot.runs());
        let lists = (self.snapshot.retractions(), self.snapshot.losses());
        format!("{sealed} {number} {runs:?} {lists:?}")
    }

    /// The number of rows of a source.
    pub fn count(&self, source: Source) -> u64 {
        self.snapshot.rows(source.table())
    }

    /// What the lake holds.
    pub fn identity(&self) -> &Identity {
        self.snapshot.identity()
    }

    /// Answers questions about the snapshot.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl fmt::Debug for SealedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedRows").field("snapshot", &self.snapshot.id()).finish_non_exhaustive()
    }
}

/// Runs work that reads files on a thread that may wait.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
