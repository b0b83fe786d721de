//! Searches by measured time.
//!
//! To a search, [`Timed`] is an environment with one more observation space: the time of a run of
//! the state's kernel. A state of which the lake has samples of this machine and compilation is not
//! measured again; the samples of any other state go to `measurements` with the run's other rows,
//! before the episode that needed them settles. So a resumed search learns the times that it learnt
//! before; a state that had no time is measured once more. A wrong kernel is a row of
//! `miscompilations`, if that of the state before it is known to be right.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::now_ms;
use crate::assembly::command_error::{Code, CommandError};
use crate::env::loops::State;
use crate::env::{Environment, Session, SessionError, Start, Started};
use crate::execution::Settings;
use crate::lake::{MeasurementRow, MiscompilationRow, Snapshot, random_uid};
use crate::measure::{
    Kernel, KernelError, Space, Timing, kernel_compilation, machine, measured_times, median,
};
use crate::model::{
    ActionIndex, BenchmarkUri, EnvironmentSpec, ObservationIndex, ObservationSpace, StateId, Step,
    Value, ValueType,
};
use crate::record::MeasurementSink;
use crate::semantics::wrong_kernel;

/// The samples of a state.
const SAMPLES: u32 = 3;

/// An environment whose states have times.
#[derive(Debug)]
pub(super) struct Timed {
    inner: Box<dyn Environment>,
    clock: Arc<Clock>,
}

/// What measures for all sessions.
#[derive(Debug)]
struct Clock {
    spec: EnvironmentSpec,
    /// The place of the space of times.
    space: ObservationIndex,
    settings: Settings,
    machine: String,
    compilation: String,
    sink: MeasurementSink,
    /// The medians that are known; infinity for a state without a time. Whoever measures holds the
    /// lock, so that only one kernel runs at a time.
    known: Mutex<HashMap<StateId, f64>>,
}

/// The name of the space of times.
pub(super) fn time_space() -> &'static str {
    Space::Runtime.as_str()
}

/// What this machine calls itself, how it makes kernels, and the times of states that a lake has of
/// both.
#[derive(Debug)]
pub(super) struct KnownTimes {
    machine: String,
    compilation: String,
    settings: Settings,
    known: HashMap<StateId, f64>,
}

impl KnownTimes {
    /// Reads the times of a lake.
    ///
    /// # Errors
    ///
    /// If this machine has no compiler for kernels, or the lake cannot be read.
    pub(super) fn of(snapshot: &Snapshot) -> Result<Self, CommandError> {
        let (settings, machine) = (Settings::default(), machine(None, None));
        let compilation = kernel_compilation(&settings)
            .map_err(|error| CommandError::new(Code::Failed, error.to_string()))?;
        let known = measured_times(snapshot, Space::Runtime, &machine, &compilation)?;
        Ok(Self { machine, compilation, settings, known })
    }
}

impl Timed {
    /// Adds times to the states of `inner`. What is measured goes to `sink`.
    pub(super) fn new(
        inner: Box<dyn Environment>,
        times: KnownTimes,
        sink: MeasurementSink,
    ) -> Self {
        let mut spec = inner.spec().clone();
        let space = ObservationSpace::new(time_space(), ValueType::Float).on_request();
        spec.observation_spaces.push(space);
        let space = spec.observation_index(time_space()).expect("it was added");
        let KnownTimes { machine, compilation, settings, known } = times;
        let known = Mutex::new(known);
        let clock = Clock { spec, space, settings, machine, compilation, sink, known };
        Self { inner, clock: Arc::new(clock) }
    }
}

impl Environment for Timed {
    fn spec(&self) -> &EnvironmentSpec {
        &self.clock.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        let (inner, clock) = (self.inner.session()?, Arc::clone(&self.clock));
        Ok(Box::new(TimedSession { inner, clock, at: None }))
    }

    fn repeated_windows(&self) -> u64 {
        self.inner.repeated_windows()
    }
}

/// A session whose states have times.
struct TimedSession {
    inner: Box<dyn Session>,
    clock: Arc<Clock>,
    /// Where the episode is; none without one.
    at: Option<At>,
}

/// The present state of an episode.
#[derive(Debug, Clone)]
struct At {
    benchmark: BenchmarkUri,
    state: StateId,
    /// The state before that.
    before: Option<StateId>,
    /// The actions from the program's first state on, without those that changed nothing.
    actions: Vec<ActionIndex>,
}

impl TimedSession {
    /// Returns the seconds of a run of the present state's kernel, which is measured if they are
    /// not known; infinity if it has no kernel, or a wrong one.
    fn seconds(&mut self) -> Result<f64, SessionError> {
        let at = self.at.clone().ok_or(SessionError::NoEpisode)?;
        let (benchmark, id) = (at.benchmark.clone(), at.state);
        let clock = Arc::clone(&self.clock);
        let mut known = clock.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&seconds) = known.get(&id) {
            return Ok(seconds);
        }
        let Value::Bytes(text) = self.inner.observe(clock.spec.state_index())? else {
            return Err(SessionError::Visit("a serialised state must be bytes".into()));
        };
        let uid = random_uid().map_err(|error| SessionError::Visit(error.to_string()))?;
        let seconds = match clock.samples(&text, &uid) {
            Ok(samples) => {
                let seconds = median(&samples);
                clock.sink.push(clock.row(uid, benchmark, id, samples))?;
                seconds
            }
            Err(error) => match error.machine() {
                Ok(error) => {
                    let what = format!("a kernel cannot be measured: {error}");
                    return Err(SessionError::Visit(what));
                }
                Err(error) => {
                    tracing::warn!(%benchmark, state = %id, %error, "a schedule has no time");
                    if let KernelError::Wrong(what) = error {
                        clock.note_wrong(&known, at, &what)?;
                    }
                    f64::INFINITY
                }
            },
        };
        known.insert(id, seconds);
        Ok(seconds)
    }
}

impl Clock {
    /// Builds, checks and times the kernel of a state, on inputs that nothing else has.
    fn samples(&self, text: &[u8], uid: &str) -> Result<Vec<f64>, KernelError> {
        let state = State::parse(text).expect("a session serialises states");
        let kernel = Kernel::build(&state, &self.settings)?;
        kernel.run(&Timing {
            seed: Timing::seed(uid),
            threads: Timing::threads(&self.settings),
            warmups: 0,
            samples: SAMPLES,
        })
    }

    /// Records a wrong kernel, if the one of the state before is known to be right.
    fn note_wrong(
        &self,
        known: &HashMap<StateId, f64>,
        At { benchmark, state, before, actions }: At,
        what: &str,
    ) -> Result<(), SessionError> {
        let is_right = |before: &StateId| known.get(before).is_some_and(|time| time.is_finite());
        let Some(before) = before.filter(is_right) else { return Ok(()) };
        let row = wrong_kernel(&benchmark, (before, state), actions, what);
        let row = row.map_err(|error| SessionError::Visit(error.to_string()))?;
        let compilation = self.compilation.clone();
        self.sink.push_miscompilation(MiscompilationRow {
            compilation,
            found_at_ms: now_ms(),
            ..row
        })
    }

    fn row(
        &self,
        uid: String,
        benchmark: BenchmarkUri,
        state: StateId,
        samples: Vec<f64>,
    ) -> MeasurementRow {
        MeasurementRow {
            uid,
            state,
            benchmark,
            space: time_space().to_owned(),
            machine: self.machine.clone(),
            compilation: self.compilation.clone(),
            warmups: 0,
            measured_at_ms: now_ms(),
            samples,
        }
    }
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
        if space == self.clock.space {
            self.seconds().map(Value::Float)
        } else {
            self.inner.observe(space)
        }
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        self.inner.identify(state)
    }

    fn text(&mut self, state: &[u8]) -> Result<String, SessionError> {
        self.inner.text(state)
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let (inner, clock) = (self.inner.fork()?, Arc::clone(&self.clock));
        Ok(Box::new(Self { inner, clock, at: self.at.clone() }))
    }
}
