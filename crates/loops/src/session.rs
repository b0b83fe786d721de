//! A live session: arithmetic on trees.

use std::sync::Arc;
use std::time::Duration;

use super::CURSOR_SPACE;
use super::context::LoopsContext;
use super::cursor::CursorAction;
use super::kernel::TooLarge;
use super::spaces;
use super::state::LoopsState;
use steplake_env::{
    Session, SessionError, Start, Started, action, action_space, reward_tracker, unknown_space,
};
use steplake_model::{
    ActionIndex, Baselines, Failure, FailureKind, Name, ObservationIndex, Outcome, RewardTracker,
    StateId, Step, Value, as_f64,
};

pub(super) struct LoopsSession {
    context: Arc<LoopsContext>,
    episode: Option<LoopsEpisode>,
}

#[derive(Debug, Clone)]
struct LoopsEpisode {
    state: LoopsState,
    id: StateId,
    /// The place of the action space.
    space: usize,
    rewards: RewardTracker,
    baselines: Baselines,
}

impl LoopsSession {
    pub(super) fn new(context: Arc<LoopsContext>) -> Self {
        Self { context, episode: None }
    }
}

/// Returns the cost in the space of a name.
fn cost(costs: &[(Name, i64)], name: &str) -> f64 {
    let found = costs.iter().find(|(known, _)| known == name);
    found.map_or(f64::NAN, |&(_, cost)| as_f64(cost))
}

fn bad_program(uri: &str) -> impl Fn(String) -> SessionError {
    move |detail| SessionError::BadProgram { uri: uri.to_owned(), detail }
}

impl Session for LoopsSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.episode = None;
        let spec = &self.context.spec;
        let space = action_space(spec, start.action_space)?;
        let bad = bad_program(start.benchmark.uri.as_str());
        let state = LoopsState::parse(&start.benchmark.program).map_err(&bad)?;
        let state = if start.action_space == CURSOR_SPACE {
            state.with_cursor().map_err(bad)?
        } else {
            state.without_cursor()
        };
        let id = state.identify();
        let baselines = start.baselines.cloned().unwrap_or_else(|| {
            Baselines(spaces::baselines(&LoopsState::initial((*state.dag).clone())))
        });
        let costs = spaces::rewarded(&state);
        let rewards = reward_tracker(spec, &baselines, |name| cost(&costs, name))?;
        let started = Started { state: id, baselines: baselines.clone() };
        self.episode = Some(LoopsEpisode { state, id, space, rewards, baselines });
        Ok(started)
    }

    fn apply(&mut self, index: ActionIndex) -> Result<Step, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        action(&self.context.spec.action_spaces[episode.space], index)?;
        let next = if episode.space == 0 {
            self.context.actions[index.place()].apply(&episode.state)
        } else {
            CursorAction::ALL[index.place()].apply(&episode.state)
        };
        let changed = next.is_some();
        let rewards = match next {
            Some(next) => {
                episode.state = next;
                episode.id = episode.state.identify();
                let costs = spaces::rewarded(&episode.state);
                episode.rewards.advance(|name| cost(&costs, name))
            }
            None => episode.rewards.rest(),
        };
        Ok(Step {
            outcome: Outcome::State {
                id: episode.id,
                changed,
                end_of_episode: false,
                action_space_changed: false,
            },
            rewards,
            wall_time: Duration::ZERO,
        })
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        let spec = &self.context.spec;
        let name = spec.observation_space(space).map_or("?", |space| &space.name);
        if let Some(known) = episode.baselines.get(name) {
            return Ok(Value::Int(known));
        }
        let observation = self.context.observations.get(usize::from(space.0)).copied();
        let observation = observation.ok_or_else(|| unknown_space(spec, name))?;
        spaces::observe(observation, &episode.state)
            .map_err(|error| SessionError::Unobservable(too_large(error)))
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        Ok(LoopsState::parse(state).map_err(bad_program("a stored state"))?.identify())
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let episode = self.episode.clone().ok_or(SessionError::NoEpisode)?;
        Ok(Box::new(Self { context: Arc::clone(&self.context), episode: Some(episode) }))
    }
}

/// The failure of a schedule of which no kernel is made.
fn too_large(error: TooLarge) -> Failure {
    Failure { kind: FailureKind::Rejected, detail: error.to_string() }
}
