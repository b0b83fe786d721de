//! The supervisor's account of an episode.

use super::wire::{Request, WireStart};
use crate::env::{KeyframeCount, Start, Watch, flags};
use crate::model::{
    ActionIndex, Baselines, Benchmark, EnvironmentSpec, ObservationIndex, Outcome, StateId, Value,
};

/// What it takes to play an episode again, and to go on with it.
#[derive(Debug, Clone)]
pub(super) struct Episode {
    pub(super) benchmark: Benchmark,
    pub(super) action_space: String,
    pub(super) baselines: Baselines,
    pub(super) watch: Watch,
    pub(super) actions: Vec<u16>,
    pub(super) state: StateId,
    /// Of the keyframes since the start, or since this session was forked.
    pub(super) count: KeyframeCount,
    /// Values of the present state that came along unasked.
    pub(super) observed: Vec<(ObservationIndex, Value)>,
}

impl Episode {
    /// Asks a worker to start it.
    pub(super) fn start_request(&self, session: u32) -> Request {
        let start = Start {
            benchmark: &self.benchmark,
            action_space: &self.action_space,
            baselines: Some(&self.baselines),
            watch: &self.watch,
        };
        Request::Start { session, start: WireStart::new(&start) }
    }

    /// Asks a worker to start in its present state, if that came along. What an action comes to
    /// there is what it comes to in the episode, but for rewards.
    pub(super) fn start_in_state_request(
        &self,
        session: u32,
        spec: &EnvironmentSpec,
    ) -> Option<Request> {
        let itself = spec.state_index();
        let (_, value) = self.observed.iter().find(|(space, _)| *space == itself)?;
        let Value::Bytes(state) = value else { return None };
        let start = Start {
            benchmark: &Benchmark { program: state.as_slice().into(), ..self.benchmark.clone() },
            action_space: &self.action_space,
            baselines: Some(&self.baselines),
            watch: &Watch::default(),
        };
        let mut start = WireStart::new(&start);
        start.steps = self.actions.len() as u64;
        Some(Request::Start { session, start })
    }

    /// Whether an action was taken that may lead elsewhere next time.
    pub(super) fn is_in_doubt(&self, spec: &EnvironmentSpec) -> bool {
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
