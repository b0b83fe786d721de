//! The engine of this process.

use super::args::LimitArgs;
use crate::assembly::arguments::{Bytes, GlobalArgs};
use crate::assembly::ir;
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

/// Opens an engine over a snapshot, which shows and rebuilds states of the lake's environment.
pub(super) async fn engine(snapshot: Snapshot, limits: LimitArgs) -> Result<Engine, QueryError> {
    let environment = &snapshot.identity().environment;
    let renderer = ir::renderer(environment);
    let rebuilder = Some(ir::rebuilder(environment));
    let spill = limits.spill.map(|bytes| SpillSpace::of(bytes.0)).unwrap_or_default();
    let memory_bytes_max = limits.memory.map(Bytes::of_memory);
    let options = EngineOptions { memory_bytes_max, spill, rebuilder, ..EngineOptions::default() };
    Engine::new(snapshot, renderer, &options).await
}
