//! Sessions whose steps are answered from a lake.

use std::sync::Arc;
use std::time::Duration;

use super::graph::{Recorded, StateEdge, StateRow};
use super::live::{LiveSession, LiveStart, MissingEdge, PathFromStart};
use super::recorded::{RecordedPart, count, demand_action, unreadable};
use super::spaces::SpaceSource;
use steplake_env::{Session, SessionError, Start, Started, Watch};
use steplake_lake::KnownBenchmark;
use steplake_model::{
    ActionIndex, Baselines, Failure, ObservationIndex, Outcome, StateId, Step, Value,
};

/// A session of a [`CachedEnvironment`](super::CachedEnvironment).
pub(super) struct CachedSession {
    part: Arc<RecordedPart>,
    /// Whether an action without a recorded result leaves the state as it is.
    stays: bool,
    /// The compiler to ask for what the lake does not have.
    live: Option<LiveSession>,
    episode: Option<CachedEpisode>,
}

/// An episode under way.
#[derive(Clone)]
struct CachedEpisode {
    start: Arc<KnownStart>,
    place: PresentState,
    /// With a live session, the actions so far that changed the state.
    actions: Vec<ActionIndex>,
    has_ended: bool,
}

/// What all states of an episode share.
struct KnownStart {
    baselines: Baselines,
    /// For each reward space; none if a baseline is not known.
    divisors: Vec<Option<f64>>,
    /// None without a compiler.
    live: Option<LiveStart>,
}

/// Where an episode is.
#[derive(Clone, Copy)]
enum PresentState {
    /// In a state of the graph.
    Recorded(StateRow),
    /// In a state that only the live session has.
    Live(StateId),
}

impl CachedSession {
    pub(super) fn new(part: Arc<RecordedPart>, missing_edge: &MissingEdge) -> Self {
        let live = match missing_edge {
            MissingEdge::Live(open) => Some(LiveSession::new(Arc::clone(open), &part.spaces)),
            MissingEdge::Error | MissingEdge::Stay => None,
        };
        Self { part, stays: matches!(missing_edge, MissingEdge::Stay), live, episode: None }
    }

    /// Returns what the lake knows about the program of a start; none if it does not have it, or
    /// has it from failed starts alone.
    fn known(&self, start: &Start<'_>) -> Result<Option<&KnownBenchmark>, SessionError> {
        let uri = start.benchmark.uri.as_str();
        let known = self.part.benchmarks.get(uri);
        let Some(known) = known.filter(|known| known.initial_state.is_some()) else {
            return Ok(None);
        };
        let program = &start.benchmark.program;
        let is_other = || blake3::hash(program).to_hex().as_str() != known.program_digest;
        if !program.is_empty() && !known.program_digest.is_empty() && is_other() {
            return Err(SessionError::NotRecorded {
                what: format!("this program of {uri}, but another one of that name"),
                advice: "take the program that was recorded, or an empty one".to_owned(),
            });
        }
        Ok(Some(known))
    }

    /// Begins an episode of a program that the lake does not have.
    fn begin_elsewhere(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        let uri = start.benchmark.uri.as_str();
        let part = Arc::clone(&self.part);
        let watch = live_watch(&part, start);
        if let Some(live) = &mut self.live {
            let space = start.action_space;
            return live.begin(space, start.benchmark, start.baselines, &watch);
        }
        match self.part.failed_start(uri).map_err(|error| unreadable(&error))? {
            Some(failure) => {
                Err(SessionError::StartFailed { uri: uri.to_owned(), failure: failure.clone() })
            }
            None => Err(SessionError::NotRecorded {
                what: format!("the first state of {uri}"),
                advice: format!(
                    "choose one of its {} benchmarks (SELECT benchmark_uri FROM benchmarks), or record this one",
                    self.part.benchmarks.len()
                ),
            }),
        }
    }

    /// Answers an action of which the lake does not know the result.
    fn missing(&mut self, row: StateRow, action: ActionIndex) -> Result<Step, SessionError> {
        let counters = &self.part.counters;
        if self.live.is_some() {
            count(&counters.went_live);
            return self.apply_live(action);
        }
        let state = self.part.graph.state(row);
        if self.stays {
            count(&counters.stayed);
            let rewards = vec![0.0; self.part.spaces.rewards.len()].into();
            return Ok(Step { outcome: reached(state, false), rewards, wall_time: Duration::ZERO });
        }
        count(&counters.refused);
        let name = demand_action(&self.part.spaces, action)?;
        Err(SessionError::MissingEdge {
            state: state.to_string(),
            index: action.0,
            action: name.to_owned(),
        })
    }

    /// Applies an action in the live session, and returns to the lake if it has the next state.
    fn apply_live(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let (part, live, episode) = self.with_live()?;
        let step = live.apply(part, episode.way(part)?, action)?;
        count(&part.counters.live_steps);
        let rewards = part.spaces.rewards.iter().map(|&(_, place)| step.rewards[place]).collect();
        match &step.outcome {
            Outcome::Crashed(_) => self.episode = None,
            Outcome::State { id, changed, end_of_episode, .. } => {
                if *changed {
                    episode.actions.push(action);
                }
                episode.place =
                    part.graph.find(id).map_or(PresentState::Live(*id), PresentState::Recorded);
                episode.has_ended = *end_of_episode;
            }
        }
        Ok(Step { rewards, ..step })
    }

    fn with_live(
        &mut self,
    ) -> Result<(&RecordedPart, &mut LiveSession, &mut CachedEpisode), SessionError> {
        let live = self.live.as_mut().expect("only a session with a compiler goes there");
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        Ok((&self.part, live, episode))
    }

    /// Follows a recorded transition.
    fn follow(&mut self, edge: &StateEdge) -> Result<Step, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let divisors = episode.start.divisors.iter().enumerate();
        let rewards = divisors.map(|(place, &divisor)| self.part.reward(place, edge, divisor));
        let rewards = rewards.collect::<Result<_, _>>().map_err(|error| unreadable(&error))?;
        let changed = edge.from != edge.to;
        if changed && self.live.is_some() {
            episode.actions.push(edge.action);
        }
        episode.place = PresentState::Recorded(edge.to);
        count(&self.part.counters.from_lake);
        let outcome = reached(self.part.graph.state(edge.to), changed);
        Ok(Step { outcome, rewards, wall_time: Duration::ZERO })
    }

    /// Ends the episode with a recorded failure.
    fn fail(&mut self, failure: Failure) -> Step {
        self.episode = None;
        count(&self.part.counters.from_lake);
        Step::failed(failure, self.part.spaces.rewards.len(), Duration::ZERO)
    }

    /// Returns the recorded value of the present state in a space, if there is one.
    fn recorded(&self, space: ObservationIndex) -> Result<Option<Value>, SessionError> {
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        let spaces = &self.part.spaces;
        let unknown = || SessionError::UnknownSpace {
            name: format!("observation space {}", space.0),
            environment: spaces.spec.name.to_string(),
        };
        let &(source, _) = spaces.observations.get(usize::from(space.0)).ok_or_else(unknown)?;
        let value = match (source, episode.place) {
            (SpaceSource::Column(column), PresentState::Recorded(row)) => {
                self.part.observations(column).map(|values| values.row(row))
            }
            (SpaceSource::Ir, PresentState::Recorded(row)) => {
                self.part.ir(row).map(|ir| ir.map(Value::Bytes))
            }
            (SpaceSource::Baseline, _) => {
                let cost = spaces.name(space).and_then(|name| episode.start.baselines.get(name));
                Ok(cost.map(Value::Int))
            }
            (SpaceSource::Live, _) | (_, PresentState::Live(_)) => Ok(None),
        };
        value.map_err(|error| unreadable(&error))
    }

    /// Returns the error for what only a compiler can do.
    fn unavailable(&self, what: &str) -> SessionError {
        SessionError::Unavailable {
            environment: self.part.spaces.spec.name.to_string(),
            detail: format!("{what} takes the compiler, and this session has none"),
        }
    }
}

impl CachedEpisode {
    /// The way of a live session to the present state.
    fn way(&self, part: &RecordedPart) -> Result<PathFromStart<'_>, SessionError> {
        let start = self.start.live.as_ref().ok_or(SessionError::NoEpisode)?;
        let state = match self.place {
            PresentState::Recorded(row) => part.graph.state(row),
            PresentState::Live(state) => state,
        };
        Ok(PathFromStart { start, actions: &self.actions, state })
    }
}

/// The outcome of an action that led to a state.
fn reached(id: StateId, changed: bool) -> Outcome {
    Outcome::State { id, changed, end_of_episode: false, action_space_changed: false }
}

/// What is to be observed, in the numbers of the live environment.
fn live_watch(part: &RecordedPart, start: &Start<'_>) -> Watch {
    let place = |space: &ObservationIndex| {
        let found = part.spaces.observations.get(usize::from(space.0));
        found.map(|&(_, live)| live)
    };
    let spaces = start.watch.spaces.iter().filter_map(place).collect();
    Watch { spaces, ..start.watch.clone() }
}

impl Session for CachedSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.episode = None;
        if let Some(live) = &mut self.live {
            live.forget();
        }
        let spaces = &self.part.spaces;
        if spaces.spec.action_space(start.action_space).is_none() {
            return Err(SessionError::UnknownSpace {
                name: start.action_space.to_owned(),
                environment: spaces.spec.name.to_string(),
            });
        }
        let known = self.known(start)?.map(|known| Started {
            state: known.initial_state.expect("a program without one is not known"),
            baselines: start.baselines.unwrap_or(&known.baselines).clone(),
        });
        let started = match known {
            Some(started) => started,
            None => self.begin_elsewhere(start)?,
        };
        let spaces = &self.part.spaces;
        let baselines = started.baselines.clone();
        let of_benchmark = spaces.live.observation_spaces.iter();
        let of_benchmark = of_benchmark.filter(|space| space.of_benchmark && !space.on_request);
        let mut wanted = of_benchmark.map(|space| &*space.name);
        let all = wanted.all(|name| baselines.get(name).is_some()).then(|| baselines.clone());
        let rewards = spaces.spec.reward_spaces.iter();
        let divisors = rewards.map(|space| space.divisor(&baselines).ok()).collect();
        let live = self.live.is_some().then(|| LiveStart {
            benchmark: start.benchmark.clone(),
            baselines: all,
            watch: live_watch(&self.part, start),
            state: started.state,
        });
        let row = self.part.graph.find(&started.state);
        self.episode = Some(CachedEpisode {
            start: Arc::new(KnownStart { baselines, divisors, live }),
            place: row.map_or(PresentState::Live(started.state), PresentState::Recorded),
            actions: Vec::new(),
            has_ended: false,
        });
        Ok(started)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let episode = self.episode.as_ref().filter(|episode| !episode.has_ended);
        let place = episode.ok_or(SessionError::NoEpisode)?.place;
        demand_action(&self.part.spaces, action)?;
        let PresentState::Recorded(row) = place else { return self.apply_live(action) };
        match self.part.graph.recorded(row, action) {
            Recorded::Led(edge) => self.follow(&edge),
            Recorded::Failed(failed) => {
                let failure = failed.failure.clone();
                Ok(self.fail(failure))
            }
            Recorded::Nothing => self.missing(row, action),
        }
    }

    /// An action is passed on if the compiler will be asked for it, and is in the present state
    /// already.
    fn announce(&mut self, actions: &[ActionIndex]) {
        let Some(live) = &mut self.live else { return };
        let episode = self.episode.as_ref().filter(|episode| !episode.has_ended);
        let goes_live = match (episode, actions) {
            (Some(episode), &[action]) if demand_action(&self.part.spaces, action).is_ok() => {
                let is_missing = match episode.place {
                    PresentState::Recorded(row) => {
                        matches!(self.part.graph.recorded(row, action), Recorded::Nothing)
                    }
                    PresentState::Live(_) => true,
                };
                is_missing && live.is_in_step(&episode.actions)
            }
            _ => false,
        };
        live.announce(if goes_live { actions } else { &[] });
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        match &mut self.live {
            Some(live) => live.session()?.identify(state),
            None => Err(self.unavailable("the id of a state")),
        }
    }

    fn text(&mut self, state: &[u8]) -> Result<String, SessionError> {
        match &mut self.live {
            Some(live) => live.session()?.text(state),
            None => Err(self.unavailable("the text of a state")),
        }
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        if let Some(value) = self.recorded(space)? {
            return Ok(value);
        }
        let &(_, in_live) = &self.part.spaces.observations[usize::from(space.0)];
        if self.live.is_some() {
            let (part, live, episode) = self.with_live()?;
            return live.observe(part, episode.way(part)?, in_live);
        }
        let name = self.part.spaces.name(space).unwrap_or_default();
        let what = match self.episode.as_ref().map(|episode| episode.place) {
            Some(PresentState::Recorded(row)) => {
                format!("`{name}` of state {}", self.part.graph.state(row))
            }
            _ => format!("`{name}`"),
        };
        let advice = "observe another space, or ask a live session for what is missing".to_owned();
        Err(SessionError::NotRecorded { what, advice })
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let episode = self.episode.clone().ok_or(SessionError::NoEpisode)?;
        let is_only_here = matches!(episode.place, PresentState::Live(_));
        let live = self.live.as_mut().map(|live| live.fork(is_only_here)).transpose()?;
        let part = Arc::clone(&self.part);
        Ok(Box::new(Self { part, stays: self.stays, live, episode: Some(episode) }))
    }
}
