//! What the sessions of an environment share.

use std::sync::Arc;

use super::actions::Action;
use super::compiler::Compiler;
use super::outputs::Outputs;
use super::spaces::Observation;
use crate::env::worker::WorkerConfig;
use crate::model::EnvironmentSpec;

/// What the sessions of an environment share.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) spec: EnvironmentSpec,
    pub(super) compiler: Arc<Compiler>,
    /// The actions, in the order of the spec's only action space.
    pub(super) actions: Vec<Action>,
    /// What the observation spaces show, in the spec's order.
    pub(super) observations: Vec<Observation>,
    /// The limits of a compile: those of a step in a worker.
    pub(super) config: WorkerConfig,
    pub(super) outputs: Arc<Outputs>,
}
