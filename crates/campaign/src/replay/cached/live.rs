//! A live session that follows a cached one, as far behind as it can.

use std::fmt;
use std::sync::Arc;

use super::recorded::{RecordedPart, count};
use super::spaces::CachedSpaces;
use steplake_env::{
    Destination, Expected, RequestedRewards, Route, Session, SessionError, Start, Started, Strayed,
    WantedRewards, Watch,
};
use steplake_model::{
    ActionIndex, Baselines, Benchmark, EnvironmentSpec, ObservationIndex, Outcome, StateId, Step,
    Value,
};

/// Opens live sessions.
///
/// They may record what they do: a [`Recorder`](crate::record::Recorder) is a session.
pub type SessionOpener = Arc<dyn Fn() -> Result<Box<dyn Session>, SessionError> + Send + Sync>;

/// What a session does at a missing edge: an action whose result in the present state is not
/// recorded.
#[derive(Clone, Default)]
pub enum MissingEdge {
    /// It returns [`SessionError::MissingEdge`].
    #[default]
    Error,
    /// It stays in the state, with rewards of 0. This is counted.
    Stay,
    /// It asks a live session, which is brought to the present state first: it starts the
    /// benchmark and plays the actions that it lacks. Episodes need the whole benchmark then, not
    /// the URI alone. A session returns to the lake as soon as a live step reaches a state that
    /// the lake has.
    Live(SessionOpener),
}

impl fmt::Debug for MissingEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "Error",
            Self::Stay => "Stay",
            Self::Live(_) => "Live(..)",
        })
    }
}

/// The start of an episode, for a live session.
pub(super) struct LiveStart {
    pub(super) benchmark: Benchmark,
    /// All baselines that the live environment wants, if they are known.
    pub(super) baselines: Option<Baselines>,
    pub(super) watch: Watch,
    /// The state in which the episode begins.
    pub(super) state: StateId,
}

/// The way from the start of an episode to its present state.
#[derive(Clone, Copy)]
pub(super) struct PathFromStart<'a> {
    pub(super) start: &'a LiveStart,
    /// The actions that changed the state.
    pub(super) actions: &'a [ActionIndex],
    pub(super) state: StateId,
}

/// A live session, opened and brought in step when it is first needed.
pub(super) struct LiveSession {
    open: SessionOpener,
    spec: Arc<EnvironmentSpec>,
    /// The rewards that the lake has, by their places in the live environment.
    wanted: Arc<WantedRewards>,
    session: Option<Box<dyn Session>>,
    /// The number of the present episode's actions that it has played; none if it has not begun
    /// that episode.
    played: Option<usize>,
}

impl LiveSession {
    pub(super) fn new(open: SessionOpener, spaces: &CachedSpaces) -> Self {
        let wanted = Arc::new(WantedRewards::new(spaces.rewards.iter().map(|&(_, place)| place)));
        Self { open, spec: Arc::clone(&spaces.live), wanted, session: None, played: None }
    }

    /// Forgets the episode: the next one has to be begun.
    pub(super) fn forget(&mut self) {
        self.played = None;
    }

    /// Returns the session, opened if need be.
    pub(super) fn session(&mut self) -> Result<&mut dyn Session, SessionError> {
        let session = if let Some(session) = self.session.take() {
            session
        } else {
            let (spec, wanted) = (Arc::clone(&self.spec), Arc::clone(&self.wanted));
            Box::new(RequestedRewards::new((self.open)()?, spec, wanted))
        };
        Ok(self.session.insert(session).as_mut())
    }

    /// Begins an episode.
    pub(super) fn begin(
        &mut self,
        action_space: &str,
        benchmark: &Benchmark,
        baselines: Option<&Baselines>,
        watch: &Watch,
    ) -> Result<Started, SessionError> {
        self.played = None;
        let start = Start { benchmark, action_space, baselines, watch };
        let started = self.session()?.start(&start)?;
        self.played = Some(0);
        Ok(started)
    }

    /// Brings the session to the present state: begins the episode, and plays what it lacks.
    fn catch_up(
        &mut self,
        part: &RecordedPart,
        way: PathFromStart<'_>,
    ) -> Result<(), SessionError> {
        let uri = &way.start.benchmark.uri;
        if self.played.is_none() {
            let LiveStart { benchmark, baselines, watch, state } = way.start;
            let action_space = &part.spaces.spec.action_spaces[0].name;
            let started = self.begin(action_space, benchmark, baselines.as_ref(), watch)?;
            if let Err(strayed) = Strayed::at_start(Destination::State(started.state), *state) {
                self.played = None;
                return Err(strayed.diverged(uri, *state));
            }
        }
        // Until all went well, nobody knows where the session is.
        let played = self.played.take().unwrap_or(0);
        let route = Route { actions: &way.actions[played..], expected: Expected::Last(way.state) };
        let replayed = &part.counters.replayed_steps;
        let brought = route.bring(self.session()?, |_, _| count(replayed))?;
        brought.map_err(|strayed| strayed.diverged(uri, way.state))?;
        self.played = Some(way.actions.len());
        Ok(())
    }

    /// Whether the session has played these actions of the episode, which are all so far.
    pub(super) fn is_in_step(&self, actions: &[ActionIndex]) -> bool {
        self.played == Some(actions.len())
    }

    /// Passes an announcement on, if the session is open.
    pub(super) fn announce(&mut self, actions: &[ActionIndex]) {
        if let Some(session) = &mut self.session {
            session.announce(actions);
        }
    }

    /// Applies an action in the present state.
    pub(super) fn apply(
        &mut self,
        part: &RecordedPart,
        way: PathFromStart<'_>,
        action: ActionIndex,
    ) -> Result<Step, SessionError> {
        self.catch_up(part, way)?;
        let played = self.played.take();
        let step = self.session()?.apply(action);
        match &step {
            Ok(Step { outcome: Outcome::State { changed, .. }, .. }) => {
                self.played = played.map(|played| played + usize::from(*changed));
            }
            // An invalid action leaves the state as it was.
            Err(SessionError::InvalidAction { .. }) => self.played = played,
            Ok(_) | Err(_) => {}
        }
        step
    }

    /// Looks at the present state.
    pub(super) fn observe(
        &mut self,
        part: &RecordedPart,
        way: PathFromStart<'_>,
        space: ObservationIndex,
    ) -> Result<Value, SessionError> {
        self.catch_up(part, way)?;
        self.session()?.observe(space)
    }

    /// Returns the live session of a fork. It forks this one only if the present state is nowhere
    /// else (`is_only_here`); otherwise it is brought in step when it is needed.
    pub(super) fn fork(&mut self, is_only_here: bool) -> Result<Self, SessionError> {
        let (open, session, played) = (Arc::clone(&self.open), None, None);
        let (spec, wanted) = (Arc::clone(&self.spec), Arc::clone(&self.wanted));
        let mut fork = Self { open, spec, wanted, session, played };
        if let Some(session) = self.session.as_mut().filter(|_| is_only_here) {
            (fork.session, fork.played) = (Some(session.fork()?), self.played);
        }
        Ok(fork)
    }
}
