//! Engines over the lakes of this project's environments.

use std::path::Path;

use crate::environments::Environments;
use crate::ir;
use crate::lake::{Context, Lake, LakeError, Snapshot, SnapshotContents};
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

/// Reads the newest snapshot of each context of a lake.
///
/// # Errors
///
/// If there is no lake, or it cannot be read.
pub fn snapshots(lake: &Path) -> Result<Vec<(String, Snapshot)>, LakeError> {
    let contexts = Lake::contexts(lake)?.into_iter();
    contexts.map(|Context { name, lake }| Ok((name, lake.snapshot()?))).collect()
}

/// Whether these snapshots have the contents that an engine was opened over.
pub fn are_those(contents: &[SnapshotContents], newest: &[(String, Snapshot)]) -> bool {
    let mut pairs = contents.iter().zip(newest);
    contents.len() == newest.len() && pairs.all(|(own, (_, now))| own.are_those_of(now))
}

/// Opens an engine over snapshots of contexts, each with its name: over one as [`open`] does, over
/// several as [`Engine::over`] does.
///
/// # Errors
///
/// Those of [`Engine::new`] and [`Engine::over`].
pub async fn open_all(
    environments: &Environments,
    snapshots: Vec<(String, Snapshot)>,
    options: &EngineOptions,
) -> Result<Engine, QueryError> {
    let mut engines = Vec::new();
    for (name, snapshot) in snapshots {
        engines.push((name, open(environments, snapshot, options.clone()).await?));
    }
    match engines.pop() {
        Some((_, only)) if engines.is_empty() => Ok(only),
        last => Engine::over(engines.into_iter().chain(last).collect(), options).await,
    }
}
