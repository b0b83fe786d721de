//! What the sessions of an environment share.

use super::actions::ScheduleAction;
use super::spaces::Observation;
use steplake_model::EnvironmentSpec;

/// What the sessions of an environment share.
#[derive(Debug)]
pub(super) struct LoopsContext {
    pub(super) spec: EnvironmentSpec,
    /// The actions of the first action space.
    pub(super) actions: Vec<ScheduleAction>,
    /// What the observation spaces show, in the spec's order.
    pub(super) observations: Vec<Observation>,
}
