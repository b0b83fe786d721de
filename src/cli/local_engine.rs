//! The engine of this process.

use super::args::LimitArgs;
use crate::assembly::arguments::{Bytes, GlobalArgs};
use crate::assembly::engine;
use crate::console::source::{EngineSource, OpenEngine, Opening};
use crate::lake::Snapshot;
use crate::query::{Engine, EngineOptions, QueryError, SpillSpace};

/// Returns the lake of the command line, with `open` for its engines.
pub(super) fn source<'a>(global: &'a GlobalArgs, open: &'a OpenEngine) -> EngineSource<'a> {
    EngineSource { lake: &global.lake, is_quiet: global.quiet, open }
}

/// Returns a function that opens engines in this process, within these limits.
pub(super) fn opening(limits: LimitArgs) -> impl Fn(Snapshot) -> Opening + Send + Sync {
    move |snapshot| Box::pin(engine(snapshot, limits))
}

/// Opens an engine over a snapshot, within these limits.
pub(super) async fn engine(snapshot: Snapshot, limits: LimitArgs) -> Result<Engine, QueryError> {
    let spill = limits.spill.map(|bytes| SpillSpace::of(bytes.0)).unwrap_or_default();
    let memory_bytes_max = limits.memory.map(Bytes::of_memory);
    let options = EngineOptions { memory_bytes_max, spill, ..EngineOptions::default() };
    engine::open(snapshot, options).await
}
