//! The engine of this process.

use super::args::LimitArgs;
use crate::console::source::{EngineFuture, EngineSource, OpenEngine};
use crate::engine;
use crate::environments::Environments;
use crate::lake::Snapshot;
use crate::query::{Engine, EngineOptions, QueryError, SpillSpace};
use steplake_terminal::arguments::{Bytes, GlobalArgs};

/// Returns the lake of the command line, with `open` for its engines.
pub(super) fn source<'a>(global: &'a GlobalArgs, open: &'a OpenEngine) -> EngineSource<'a> {
    EngineSource { lake: &global.lake, is_quiet: global.quiet, open }
}

/// Returns a function that opens engines in this process, within these limits.
pub(super) fn opening(
    environments: &Environments,
    limits: LimitArgs,
) -> impl Fn(Snapshot) -> EngineFuture + Send + Sync + use<> {
    let environments = environments.clone();
    move |snapshot| {
        let environments = environments.clone();
        Box::pin(async move { engine(&environments, snapshot, limits).await })
    }
}

/// Opens an engine over a snapshot, within these limits.
pub(super) async fn engine(
    environments: &Environments,
    snapshot: Snapshot,
    limits: LimitArgs,
) -> Result<Engine, QueryError> {
    engine::open(environments, snapshot, options(limits)).await
}

/// The options of engines within these limits.
pub(super) fn options(limits: LimitArgs) -> EngineOptions {
    let spill = limits.spill.map(|bytes| SpillSpace::of(bytes.0)).unwrap_or_default();
    let memory_bytes_max = limits.memory.map(Bytes::of_memory);
    EngineOptions { memory_bytes_max, spill, ..EngineOptions::default() }
}
