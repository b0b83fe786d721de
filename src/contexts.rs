//! The context of a lake in which something is recorded, and whether contexts agree.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::environments::{Environments, action_space};
use crate::lake::{Identity, Lake, LakeError, OnProgress};
use crate::model::suggestions::list;
use crate::model::{EnvironmentSpec, Remedy};
use crate::replay::{ReplayReport, draw, replay_elsewhere};

/// Returns the folder of the context of a lake that holds what this environment records with this
/// action space, or would: see [`Lake::context_folder`]. Without an action space, that is the only
/// context of the environment and its compiler, or of several that of the environment's first
/// action space.
///
/// # Errors
///
/// If the environment has no such action space, or the lake cannot be read.
pub fn recorded_by(
    lake: &Path,
    spec: &EnvironmentSpec,
    wanted: Option<&str>,
) -> Result<PathBuf, Error> {
    let space = action_space(spec, wanted)?.name;
    let is_of_compiler = |there: &Identity| {
        there.environment == spec.name
            && there.compiler == *spec.compiler
            && there.target == *spec.target
    };
    let mut spaces = Vec::new();
    let is_of_space = |there: &Identity, wanted: &str| {
        is_of_compiler(there) && there.action_space.name == *wanted
    };
    let folder = Lake::context_folder(lake, &spec.name, &space, |there| {
        if is_of_compiler(there) {
            spaces.push(there.action_space.name.clone());
        }
        is_of_space(there, &space)
    })?;
    if wanted.is_some() || spaces.is_empty() || spaces.contains(&space) {
        return Ok(folder);
    }
    if let [only] = &spaces[..] {
        let is_it = |there: &Identity| is_of_space(there, only);
        return Ok(Lake::context_folder(lake, &spec.name, only, is_it)?);
    }
    let spaces = list(&spaces);
    let said = format!(
        "the lake at {} has {} with several action spaces: {spaces}",
        lake.display(),
        spec.name
    );
    Err(Error::usage(said).with(Remedy::Field("action_space")))
}

/// Returns the folder of the context of a lake for rows of this identity.
///
/// # Errors
///
/// If the lake cannot be read.
pub fn of_identity(lake: &Path, identity: &Identity) -> Result<PathBuf, LakeError> {
    let (environment, space) = (&identity.environment, &identity.action_space.name);
    Lake::context_folder(lake, environment, space, |there| there.is_of_context(identity))
}

/// What a sample of a context's transitions leads to in the compiler that is here.
#[derive(Debug)]
pub struct Agreement {
    /// The exact build of that compiler.
    pub compiler: String,
    /// The transitions that were played, and those that led elsewhere.
    pub report: ReplayReport,
}

/// Plays `count` transitions of a context again, drawn by `seed`, in the compiler of its
/// environment that is here, which may be another build. So it shows whether a newer context agrees
/// with it.
///
/// # Errors
///
/// If the environment is not here, the ids of its states have another scheme here, it lacks the
/// context's action space, or no dedup has counted the transitions.
pub fn agreement(
    environments: &Environments,
    context: &Lake,
    (count, seed): (usize, i64),
    progress: &mut OnProgress<'_>,
) -> Result<Agreement, Error> {
    let snapshot = context.snapshot()?;
    let here = environments.open(&snapshot.identity().environment)?;
    let workers = environments.workers(here.as_ref(), snapshot.runs());
    let transitions = draw(&snapshot, count, seed)?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let report = replay_elsewhere(workers.as_ref(), &snapshot, &transitions, jobs, progress)?;
    Ok(Agreement { compiler: here.spec().compiler.clone(), report })
}
