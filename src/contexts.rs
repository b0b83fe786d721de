//! The context of a lake in which something is recorded.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::environments::action_space;
use crate::lake::{Identity, Lake, LakeError};
use crate::model::EnvironmentSpec;

/// Returns the folder of the context of a lake that holds what this environment records with this
/// action space, or would: see [`Lake::context_folder`]. Without an action space, any will do.
///
/// # Errors
///
/// If the environment has no such action space, or the lake cannot be read.
pub fn recorded_by(
    lake: &Path,
    spec: &EnvironmentSpec,
    wanted: Option<&str>,
) -> Result<PathBuf, Error> {
    let space = action_space(spec, wanted)?;
    let is_wanted = |there: &Identity| {
        there.environment == spec.name
            && there.compiler == *spec.compiler
            && there.target == *spec.target
            && wanted.is_none_or(|wanted| there.action_space.name == wanted)
    };
    Ok(Lake::context_folder(lake, &spec.name, &space.name, is_wanted)?)
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
