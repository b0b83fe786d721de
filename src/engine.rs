//! Engines over the lakes of this project's environments.

use crate::environments::Environments;
use crate::ir;
use crate::lake::Snapshot;
use crate::query::{Engine, EngineOptions, QueryError};

/// Opens an engine over a snapshot, which shows and rebuilds states with the lake's environment, in
/// place of the rebuilder of `options`.
///
/// # Errors
///
/// Those of [`Engine::new`].
pub async fn open(
    environments: &Environments,
    snapshot: Snapshot,
    options: EngineOptions,
) -> Result<Engine, QueryError> {
    let environment = &snapshot.identity().environment;
    let renderer = ir::renderer(environments, environment);
    let rebuilder = Some(ir::rebuilder(environments));
    Engine::new(snapshot, renderer, &EngineOptions { rebuilder, ..options }).await
}
