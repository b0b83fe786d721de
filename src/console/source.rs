//! What `sql` and `query` need to answer: a lake, and an engine over one of its snapshots.

use std::fmt;
use std::path::Path;

use futures::future::BoxFuture;

use super::arguments::SnapshotArgs;
use crate::lake::{Lake, LakeError, Snapshot, SnapshotId};
use crate::query::{Engine, QueryError};

/// An engine that is being opened.
pub type EngineFuture = BoxFuture<'static, Result<Engine, QueryError>>;

/// Opens an engine over a snapshot.
pub type OpenEngine = dyn Fn(Snapshot) -> EngineFuture + Send + Sync;

/// The lake that questions are about, and the engine that answers them.
#[derive(Clone, Copy)]
pub struct EngineSource<'a> {
    /// The folder of the lake.
    pub lake: &'a Path,
    /// Whether to show no progress.
    pub is_quiet: bool,
    /// Opens an engine over a snapshot of the lake.
    pub open: &'a OpenEngine,
}

impl fmt::Debug for EngineSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineSource").field("lake", &self.lake).finish_non_exhaustive()
    }
}

/// Returns the snapshot that a command reads.
///
/// # Errors
///
/// If the lake cannot be read or has no such snapshot.
pub fn snapshot(lake: &Lake, args: SnapshotArgs) -> Result<Snapshot, LakeError> {
    match args.snapshot {
        Some(number) => lake.snapshot_at(SnapshotId(number)),
        None => lake.snapshot(),
    }
}
