//! Why measuring stops.

use crate::replay::ReplayError;
use crate::replay::rebuild::RebuildError;
use steplake_lake::LakeError;
use steplake_model::{Classified, EnvironmentSpec, ErrorKind, Remedy};
use steplake_programs::execution::ExecutionError;

/// Why measuring stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The lake cannot be read or written, or the caller stopped the work.
    #[error("{0}")]
    Store(#[from] LakeError),
    /// The lake's compiler is not here, or its sessions fail.
    #[error("{0}")]
    Replay(#[from] ReplayError),
    /// States cannot be rebuilt here.
    #[error("{0}")]
    Rebuild(#[from] RebuildError),
    /// This machine cannot build or run programs.
    #[error("{0}")]
    Machine(#[source] ExecutionError),
    /// The device on which kernels run failed.
    #[error("{0}")]
    Device(String),
    /// The environment makes no machine code that is run.
    #[error("{0}")]
    NoCode(String),
}

impl Classified for MeasureError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Store(error) => error.classify(),
            Self::Replay(error) => error.classify(),
            Self::Rebuild(error) => error.classify(),
            Self::NoCode(_) => (ErrorKind::Usage, None),
            _ => (ErrorKind::Failed, None),
        }
    }
}

/// Says why the states of an environment cannot be run, though its compiler is here.
pub fn nothing_to_run(spec: &EnvironmentSpec) -> String {
    let environment = &spec.name;
    format!("the environment {environment} makes no machine code of a state, so nothing can be run")
}
