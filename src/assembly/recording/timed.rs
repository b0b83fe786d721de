//! Searches by measured time.
//!
//! To a search, [`Timed`] is an environment with one more observation space: the time of a run of
//! the state. A [`Clock`] knows it, or measures it: of the kernels of a schedule
//! ([`KernelClock`](super::kernel_clock::KernelClock)), or of a program that is timed beside the
//! fastest one so far ([`Stopwatch`](super::Stopwatch)).

use std::sync::Arc;

use crate::env::{Environment, Session, SessionError, Start, Started};
use crate::measure::Space;
use crate::model::{
    ActionIndex, BenchmarkUri, EnvironmentSpec, ObservationIndex, ObservationSpace, StateId, Step,
    Value, ValueType,
};

/// The name of the space of times.
pub(super) fn time_space() -> &'static str {
    Space::Runtime.as_str()
}

/// What tells the times of states, for all sessions.
pub(super) trait Clock: std::fmt::Debug + Send + Sync {
    /// Returns the seconds of a run of the state in which `session` is; infinity if it has no time.
    ///
    /// # Errors
    ///
    /// If this machine cannot measure, or somebody interrupts it.
    fn seconds(&self, at: &At, session: &mut dyn Session) -> Result<f64, SessionError>;
}

/// An environment whose states have times.
#[derive(Debug)]
pub(super) struct Timed {
    inner: Box<dyn Environment>,
    spec: EnvironmentSpec,
    /// The place of the space of times.
    space: ObservationIndex,
    clock: Arc<dyn Clock>,
}

impl Timed {
    /// Adds the times that `clock` tells to the states of `inner`.
    pub(super) fn new(inner: Box<dyn Environment>, clock: Arc<dyn Clock>) -> Self {
        let mut spec = inner.spec().clone();
        let space = ObservationSpace::new(time_space(), ValueType::Float).on_request();
        spec.observation_spaces.push(space);
        let space = spec.observation_index(time_space()).expect("it was added");
        Self { inner, spec, space, clock }
    }
}

impl Environment for Timed {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        let (inner, clock) = (self.inner.session()?, Arc::clone(&self.clock));
        Ok(Box::new(TimedSession { inner, space: self.space, clock, at: None }))
    }

    fn repeated_windows(&self) -> u64 {
        self.inner.repeated_windows()
    }
}

/// A session whose states have times.
struct TimedSession {
    inner: Box<dyn Session>,
    space: ObservationIndex,
    clock: Arc<dyn Clock>,
    /// Where the episode is; none without one.
    at: Option<At>,
}

/// The present state of an episode.
#[derive(Debug, Clone)]
pub(super) struct At {
    pub(super) benchmark: BenchmarkUri,
    pub(super) state: StateId,
    /// The state before that.
    pub(super) before: Option<StateId>,
    /// The actions from the program's first state on, without those that changed nothing.
    pub(super) actions: Vec<ActionIndex>,
}

impl Session for TimedSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.at = None;
        let started = self.inner.start(start)?;
        self.at = Some(At {
            benchmark: start.benchmark.uri.clone(),
            state: started.state,
            before: None,
            actions: Vec::new(),
        });
        Ok(started)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let step = self.inner.apply(action)?;
        if let (Some(at), Some(state)) = (&mut self.at, step.outcome.state())
            && state != at.state
        {
            at.before = Some(std::mem::replace(&mut at.state, state));
            at.actions.push(action);
        }
        Ok(step)
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        if space != self.space {
            return self.inner.observe(space);
        }
        let at = self.at.as_ref().ok_or(SessionError::NoEpisode)?;
        self.clock.seconds(at, self.inner.as_mut()).map(Value::Float)
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        self.inner.identify(state)
    }

    fn text(&mut self, state: &[u8]) -> Result<String, SessionError> {
        self.inner.text(state)
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let (inner, clock) = (self.inner.fork()?, Arc::clone(&self.clock));
        Ok(Box::new(Self { inner, space: self.space, clock, at: self.at.clone() }))
    }
}
