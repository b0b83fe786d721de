//! What the sessions of an environment share.

use std::sync::Arc;

use super::actions::OptionAction;
use super::compiler::Compiler;
use super::outputs::Outputs;
use super::spaces::Observation;
use steplake_env::worker::WorkerConfig;
use steplake_model::EnvironmentSpec;

/// What the sessions of an environment share.
#[derive(Debug)]
pub(super) struct GccContext {
    pub(super) spec: EnvironmentSpec,
    pub(super) compiler: Arc<Compiler>,
    /// The actions, in the order of the spec's only action space.
    pub(super) actions: Vec<OptionAction>,
    /// What the observation spaces show, in the spec's order.
    pub(super) observations: Vec<Observation>,
    /// The limits of a compile: those of a step in a worker.
    pub(super) config: WorkerConfig,
    pub(super) outputs: Arc<Outputs>,
}
