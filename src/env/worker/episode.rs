//! The supervisor's account of an episode.

use super::wire::{Request, WireStart};
use crate::env::{KeyframeCount, Start, Watch, flags};
use crate::model::{
    ActionIndex, Baselines, Benchmark, EnvironmentSpec, ObservationIndex, Outcome, StateId, Value,
};

/// What it takes to play an episode again, and to go on with it.
#[derive(Debug, Clone)]
pub(super) struct Episode {
    /// Its program is a state further on, where the way back begins there.
    pub(super) benchmark: Benchmark,
    /// The steps before the way back.
    pub(super) steps_before: u64,
    pub(super) action_space: String,
    pub(super) baselines: Baselines,
    pub(super) watch: Watch,
    /// The way back.
    pub(super) actions: Vec<u16>,
    pub(super) state: StateId,
    /// Of the keyframes since the start, or since this session was forked.
    pub(super) count: KeyframeCount,
    /// Values of the present state that came along unasked.
    pub(super) observed: Vec<(ObservationIndex, Value)>,
}

impl Episode {
    /// Asks a worker to begin it where its actions begin. Rewards go on from there: they depend on
    /// the baselines of the program and on the cost of the state alone.
    pub(super) fn start_request(&self, session: u32) -> Request {
        let start = Start {
            benchmark: &self.benchmark,
            action_space: &self.action_space,
            baselines: Some(&self.baselines),
            watch: &self.watch,
        };
        let mut start = WireStart::new(&start);
        start.steps = self.steps_before;
        start.is_observed = true;
        Request::Start { session, start }
    }

    /// Lets the way back begin in the present state, where an action on the way may lead elsewhere
    /// next time. From such an action on, states come along.
    pub(super) fn shorten_way_back(&mut self, spec: &EnvironmentSpec) {
        let itself = spec.state_index();
        let state = self.observed.iter().find(|(space, _)| *space == itself);
        if self.is_in_doubt(spec)
            && let Some((_, Value::Bytes(state))) = state
        {
            self.benchmark.program = state.as_slice().into();
            self.steps_before += self.actions.len() as u64;
            self.actions.clear();
        }
    }

    /// Whether an action was taken that may lead elsewhere next time.
    fn is_in_doubt(&self, spec: &EnvironmentSpec) -> bool {
        let is_sure = |&action| flags(spec, &self.action_space, ActionIndex(action)).replayable;
        !self.actions.iter().all(is_sure)
    }

    /// The account of a fork: its keyframes are counted from here.
    pub(super) fn fork(&self) -> Self {
        Self { count: KeyframeCount::default(), ..self.clone() }
    }

    /// Takes a step into account, with the values of its state that came along; none once it is
    /// over.
    pub(super) fn after(
        mut self,
        action: ActionIndex,
        outcome: &Outcome,
        observed: Vec<(ObservationIndex, Value)>,
        spec: &EnvironmentSpec,
    ) -> Option<Self> {
        let &Outcome::State { id, changed, .. } = outcome else { return None };
        if let Some(every) = self.watch.keyframes {
            self.count.step(every, changed, flags(spec, &self.action_space, action));
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
