//! What the sessions of an environment share.

use super::actions::Action;
use super::spaces::Observation;
use crate::model::EnvironmentSpec;

/// What the sessions of an environment share.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) spec: EnvironmentSpec,
    /// The actions of the first action space.
    pub(super) actions: Vec<Action>,
    /// What the observation spaces show, in the spec's order.
    pub(super) observations: Vec<Observation>,
}
