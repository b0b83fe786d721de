//! An episode of a session of the cache.

use std::sync::Arc;

use steplake::env::{SessionError, Watch};
use steplake::model::{
    ActionIndex, Baselines, Benchmark, RewardSpace, RewardTracker, StateId, Value,
};

use super::shared::Cache;

/// An episode under way.
#[derive(Debug, Clone)]
pub(super) struct CacheEpisode {
    pub(super) start: Arc<EpisodeStart>,
    pub(super) state: StateId,
    /// The actions so far that changed the state; none if its client knows the state alone.
    pub(super) actions: Option<Vec<ActionIndex>>,
    pub(super) rewards: RewardTracker,
    pub(super) has_ended: bool,
}

/// What all states of an episode share.
#[derive(Debug)]
pub(super) struct EpisodeStart {
    /// Its program may be empty.
    pub(super) benchmark: Benchmark,
    pub(super) baselines: Baselines,
    pub(super) watch: Watch,
    pub(super) state: StateId,
}

impl EpisodeStart {
    /// All baselines that a compiler measures at each start, if they are known.
    pub(super) fn whole_baselines(&self, cache: &Cache) -> Option<&Baselines> {
        let spaces = cache.spec().observation_spaces.iter();
        let mut measured = spaces.filter(|space| space.of_benchmark && !space.on_request);
        let is_known = measured.all(|space| self.baselines.get(&space.name).is_some());
        is_known.then_some(&self.baselines)
    }

    /// Whether the baselines of all recorded rewards are known, so that none is measured.
    pub(super) fn has_all_baselines(&self, cache: &Cache) -> bool {
        let recorded = &cache.transitions.identity().rewards;
        let spaces = cache.spec().reward_spaces.iter();
        let mut spaces = spaces.filter(|space| recorded.iter().any(|one| one.name == space.name));
        self.whole_baselines(cache).is_some()
            && spaces.all(|space| space.divisor(&self.baselines).is_ok())
    }
}

impl CacheEpisode {
    /// Begins an episode in the first state of its benchmark.
    pub(super) fn new(cache: &Cache, start: EpisodeStart) -> Result<Self, SessionError> {
        let rewards = tracker(cache, &start, start.state)?;
        let (state, actions, has_ended) = (start.state, Some(Vec::new()), false);
        Ok(Self { start: Arc::new(start), state, actions, rewards, has_ended })
    }

    /// Goes to a state of which no way is known.
    pub(super) fn go_to(&mut self, cache: &Cache, state: StateId) -> Result<(), SessionError> {
        if state != self.state {
            self.rewards = tracker(cache, &self.start, state)?;
            (self.state, self.actions) = (state, None);
        }
        Ok(())
    }

    /// Returns the actions that changed the state, from the start on.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotRecorded`] if no recorded path leads from the start to the state.
    pub(super) fn way(&mut self, cache: &Cache) -> Result<&[ActionIndex], SessionError> {
        if self.actions.is_none() {
            let path = cache.transitions.path(self.start.state, self.state);
            self.actions = Some(path.ok_or_else(|| self.no_way(self.state))?);
        }
        Ok(self.actions.as_deref().unwrap_or_default())
    }

    /// Says that no way leads to a state.
    pub(super) fn no_way(&self, state: StateId) -> SessionError {
        SessionError::NotRecorded {
            what: format!("a path from the start of {} to state {state}", self.start.benchmark.uri),
            advice: "name the benchmark that leads there".to_owned(),
        }
    }

    /// Goes to the state to which an action led.
    pub(super) fn advance(&mut self, action: ActionIndex, next: StateId) {
        if next != self.state {
            self.state = next;
            if let Some(actions) = &mut self.actions {
                actions.push(action);
            }
        }
    }
}

/// Follows the rewards whose scale is known.
fn tracker(
    cache: &Cache,
    start: &EpisodeStart,
    state: StateId,
) -> Result<RewardTracker, SessionError> {
    let known = |space: &RewardSpace| space.divisor(&start.baselines).is_ok();
    let spaces = cache.spec().reward_spaces.iter();
    let spaces = spaces.map(|space| Some(space).filter(|space| known(space)));
    let cost = |name: &str| cost(cache, state, name);
    let tracker = RewardTracker::new(spaces, &start.baselines, cost);
    tracker.map_err(|name| SessionError::UnknownSpace {
        name,
        environment: cache.spec().name.to_string(),
    })
}

/// What a state costs in a space; NaN if that is not known.
pub(super) fn cost(cache: &Cache, state: StateId, name: &str) -> f64 {
    let space = cache.spec().observation_index(name);
    let value = space.and_then(|space| match cache.transitions.value(state, space) {
        Ok(value) => value,
        Err(error) => {
            tracing::warn!(%state, %error, "a cost cannot be read");
            None
        }
    });
    match value {
        Some(Value::Int(cost)) => as_f64(cost),
        Some(Value::Float(cost)) => cost,
        _ => f64::NAN,
    }
}

#[expect(clippy::cast_precision_loss, reason = "costs are far below 2^53")]
fn as_f64(cost: i64) -> f64 {
    cost as f64
}
