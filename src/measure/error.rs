//! Why measuring stops.

use crate::env::gcc;
use crate::execution::ExecutionError;
use crate::lake::LakeError;
use crate::replay::ReplayError;
use crate::replay::rebuild::RebuildError;

/// Why measuring stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The lake cannot be read or written, or the caller stopped the work.
    #[error(transparent)]
    Store(#[from] LakeError),
    /// The lake's compiler is not here, or its sessions fail.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// States cannot be rebuilt here.
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
    /// This machine cannot build or run programs.
    #[error(transparent)]
    Machine(ExecutionError),
    /// The device on which kernels run failed.
    #[error("{0}")]
    Device(String),
    /// The environment makes no machine code that is run.
    #[error("{}", nothing_to_run(.0))]
    NoCode(String),
}

/// Says why the states of the environment of this name cannot be run, though its compiler is here.
pub fn nothing_to_run(environment: &str) -> String {
    if environment == gcc::NAME {
        return format!(
            "the environment {environment} makes objects (`obj`) that are not linked, so nothing can be \
             run: the space `command_line` says how to make a program by hand"
        );
    }
    format!("the environment {environment} makes no machine code of a state, so nothing can be run")
}
