//! The supervisor's record of an episode.

use std::sync::Arc;

use super::wire::WireStart;
use crate::KeyframeCount;
use steplake_model::{ActionIndex, EnvironmentSpec, Outcome, StateId, Value};

/// All that is needed to play an episode again and to continue it.
#[derive(Debug, Clone)]
pub(super) struct EpisodeRecord {
    /// The request that began the episode.
    pub(super) first: Arc<WireStart>,
    /// The request that makes a worker begin the episode where the way back begins: the program is
    /// a later state of the episode if the way back begins there. The rewards continue from there:
    /// they depend only on the program's baselines and on the state's cost.
    pub(super) start: Arc<WireStart>,
    /// The actions of the way back.
    pub(super) actions: Vec<u32>,
    pub(super) state: StateId,
    /// The changes since the last keyframe, counted from the start or from the fork.
    pub(super) count: KeyframeCount,
    /// Values of the present state that were sent unasked.
    pub(super) observed: Vec<(u8, Value)>,
}

impl EpisodeRecord {
    /// Makes the way back begin in the present state if an action on the way may lead elsewhere
    /// next time. After such an action, workers send states along.
    pub(super) fn shorten_way_back(&mut self, spec: &EnvironmentSpec) {
        let itself = spec.state_index().0;
        let state = self.observed.iter().find(|(space, _)| *space == itself);
        if self.is_in_doubt(spec)
            && let Some((_, Value::Bytes(state))) = state
        {
            let start = Arc::make_mut(&mut self.start);
            start.program.clone_from(state);
            start.steps += self.actions.len() as u64;
            self.actions.clear();
        }
    }

    /// Returns whether the way back has an action that may lead elsewhere next time.
    fn is_in_doubt(&self, spec: &EnvironmentSpec) -> bool {
        let is_sure = |&action| self.start.flags(spec, ActionIndex(action)).replayable;
        !self.actions.iter().all(is_sure)
    }

    /// Returns the record of a fork, which counts its keyframes from here.
    pub(super) fn fork(&self) -> Self {
        Self { count: KeyframeCount::default(), ..self.clone() }
    }

    /// Returns the record after a step, with the values that were sent along; none if the episode
    /// is over.
    pub(super) fn after(
        mut self,
        action: ActionIndex,
        outcome: &Outcome,
        observed: Vec<(u8, Value)>,
        spec: &EnvironmentSpec,
    ) -> Option<Self> {
        let &Outcome::State { id, changed, .. } = outcome else { return None };
        if let Some(every) = self.start.keyframes {
            self.count.step(every, changed, self.start.flags(spec, action));
        }
        self.actions.push(action.0);
        if id != self.state {
            self.observed.clear();
        }
        self.observed.extend(observed);
        self.state = id;
        Some(self)
    }
}
