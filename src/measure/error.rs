//! Why measuring stops.

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
    /// The environment makes no machine code.
    #[error("the environment {0} makes no machine code of a state, so nothing can be run")]
    NoCode(String),
}
