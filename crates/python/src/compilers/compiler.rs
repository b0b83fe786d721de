//! An environment whose compiler is a Python class: `python/steplake/compiler.py`.
//!
//! The compiler runs in this process. Sessions are called detached from the interpreter, and attach
//! to it for each call of the class. Nobody who is attached waits for a session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyException, PyMemoryError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use steplake::env::{Environment, Session, SessionError, Start, Started};
use steplake::lake::bitcode_sha1;
use steplake::model::{
    ActionIndex, Baselines, EnvironmentSpec, Failure, FailureKind, ObservationIndex, Outcome,
    RewardTracker, StateId, Step, Value,
};

use crate::compilers::values::{expected, value};
use crate::interpreter::errors::{broken, raised};

/// The largest cost that a floating-point number, as all rewards are, holds exactly.
const COST_MAX: i64 = 1 << f64::MANTISSA_DIGITS;

/// An environment whose compiler is a Python class.
#[derive(Debug)]
pub(crate) struct OwnEnvironment {
    own: Arc<CompilerClass>,
}

impl OwnEnvironment {
    /// `make` is called without arguments for each episode. `class` is what it makes, for messages.
    pub(crate) fn new(spec: EnvironmentSpec, class: String, make: Py<PyAny>) -> Self {
        Self { own: Arc::new(CompilerClass { spec, class, make }) }
    }
}

impl Environment for OwnEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.own.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(OwnSession { own: Arc::clone(&self.own), episode: None }))
    }
}

/// What the sessions share.
#[derive(Debug)]
struct CompilerClass {
    spec: EnvironmentSpec,
    class: String,
    make: Py<PyAny>,
}

impl CompilerClass {
    /// Makes a compiler, and has it start from a program. What it raises over the program is left
    /// to the caller.
    fn started(&self, py: Python<'_>, program: &[u8]) -> Result<PyResult<Py<PyAny>>, SessionError> {
        let compiler = self.make.call0(py).map_err(|error| raised(py, error))?;
        let started = compiler.call_method1(py, "start", (PyBytes::new(py, program),));
        Ok(started.map(|_none| compiler))
    }

    fn save(&self, py: Python<'_>, compiler: &Py<PyAny>) -> Result<Vec<u8>, SessionError> {
        let saved = compiler.call_method0(py, "save").map_err(|error| raised(py, error))?;
        match saved.bind(py).cast::<PyBytes>() {
            Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
            Err(_) => Err(self.wrong("save()", "bytes", saved.bind(py))),
        }
    }

    /// Says what a method returned instead of what it should.
    fn wrong(&self, call: &str, expected: &str, returned: &Bound<'_, PyAny>) -> SessionError {
        const SHOWN_MAX: usize = 80;
        let shown = returned.repr().map_or_else(|_none| "?".to_owned(), |text| text.to_string());
        let mut short: String = shown.chars().take(SHOWN_MAX).collect();
        if short.len() < shown.len() {
            short.push('…');
        }
        let class = &self.class;
        broken(format!("{class}.{call} returned {short}, and should return {expected}"))
    }
}

/// A session with one compiler for each episode.
struct OwnSession {
    own: Arc<CompilerClass>,
    episode: Option<Episode>,
}

struct Episode {
    space: usize,
    compiler: Py<PyAny>,
    state: CompilerState,
    rewards: RewardTracker,
}

/// A state, with what was looked at.
#[derive(Clone)]
struct CompilerState {
    id: StateId,
    saved: Vec<u8>,
    /// By observation space. A state is looked at once, so that costs and observations agree.
    observed: Vec<Option<Value>>,
}

impl CompilerState {
    fn new(saved: Vec<u8>, spec: &EnvironmentSpec) -> Self {
        let id = StateId(bitcode_sha1(&saved));
        Self { id, saved, observed: vec![None; spec.observation_spaces.len()] }
    }

    /// Looks at the state that the compiler is in.
    fn observe(
        &mut self,
        py: Python<'_>,
        own: &CompilerClass,
        compiler: &Py<PyAny>,
        index: ObservationIndex,
    ) -> Result<Value, SessionError> {
        if index == own.spec.state_index() {
            return Ok(Value::Bytes(self.saved.clone()));
        }
        let at = usize::from(index.0);
        if let Some(known) = &self.observed[at] {
            return Ok(known.clone());
        }
        let space = &own.spec.observation_spaces[at];
        let name = space.name.as_ref();
        let seen = compiler.call_method1(py, "observe", (name,));
        let seen = seen.map_err(|error| raised(py, error))?;
        let Some(found) = value(seen.bind(py), space) else {
            return Err(own.wrong(&format!("observe({name:?})"), &expected(space), seen.bind(py)));
        };
        Ok(self.observed[at].insert(found).clone())
    }

    /// Returns what the state costs, by the names of the observation spaces that are costs.
    fn costs(
        &mut self,
        py: Python<'_>,
        own: &CompilerClass,
        compiler: &Py<PyAny>,
    ) -> Result<Vec<(String, f64)>, SessionError> {
        let names = own.spec.reward_spaces.iter().map(|space| space.cost.as_ref());
        let costs = names.map(|name| {
            let index = own.spec.observation_index(name).expect("the declaration was checked");
            let (shown, cost) = match self.observe(py, own, compiler, index)? {
                Value::Float(cost) => {
                    (cost.to_string(), Some(cost).filter(|cost| cost.is_finite()))
                }
                Value::Int(cost) => (cost.to_string(), exact(cost)),
                other => (format!("{other:?}"), None),
            };
            let wrong = || {
                broken(format!(
                    "{}.observe({name:?}) returned {shown}, and a cost should be finite, and if it \
                     is an integer, at most 2^53: rewards are floating-point numbers",
                    own.class
                ))
            };
            Ok((name.to_owned(), cost.ok_or_else(wrong)?))
        });
        costs.collect()
    }
}

/// Converts a cost, if that is exact.
#[expect(clippy::cast_precision_loss, reason = "the range is checked")]
fn exact(cost: i64) -> Option<f64> {
    (-COST_MAX..=COST_MAX).contains(&cost).then_some(cost as f64)
}

/// Finds a cost by its name.
fn cost_of(costs: &[(String, f64)]) -> impl Fn(&str) -> f64 {
    |name| costs.iter().find(|(known, _)| known == name).map_or(f64::NAN, |&(_, cost)| cost)
}

fn unknown_space(spec: &EnvironmentSpec, name: &str) -> SessionError {
    SessionError::UnknownSpace { name: name.to_owned(), environment: spec.name.to_string() }
}

/// Returns the failure that an exception of the compiler is, in one line. What interrupts the whole
/// program is no failure.
fn failure(py: Python<'_>, error: &PyErr) -> Option<Failure> {
    if !error.is_instance_of::<PyException>(py) {
        return None;
    }
    let kind = if error.is_instance_of::<PyMemoryError>(py) {
        FailureKind::OutOfMemory
    } else if error.is_instance_of::<PyTimeoutError>(py) {
        FailureKind::TimeOut
    } else {
        FailureKind::Crash
    };
    let class = error.get_type(py).name().map_or_else(|_| String::new(), |name| name.to_string());
    let detail = match message(py, error) {
        message if message.is_empty() => class,
        message => format!("{class}: {message}"),
    };
    Some(Failure { kind, detail })
}

/// The message of an exception, in one line.
fn message(py: Python<'_>, error: &PyErr) -> String {
    let text = error.value(py).str().map_or_else(|_none| String::new(), |text| text.to_string());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl OwnSession {
    /// Does something with the episode under way. An error ends it: what state the compiler is in
    /// then is not known.
    fn with<T>(
        &mut self,
        work: impl FnOnce(Python<'_>, &CompilerClass, &mut Episode) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let mut episode = self.episode.take().ok_or(SessionError::NoEpisode)?;
        let done = Python::attach(|py| work(py, &self.own, &mut episode));
        if done.is_ok() {
            self.episode = Some(episode);
        }
        done
    }
}

impl Episode {
    fn begin(
        py: Python<'_>,
        own: &CompilerClass,
        space: usize,
        compiler: Py<PyAny>,
    ) -> Result<Self, SessionError> {
        let mut state = CompilerState::new(own.save(py, &compiler)?, &own.spec);
        let costs = state.costs(py, own, &compiler)?;
        let none = Baselines::default();
        let rewards =
            RewardTracker::new(own.spec.reward_spaces.iter().map(Some), &none, cost_of(&costs))
                .map_err(|name| unknown_space(&own.spec, &name))?;
        Ok(Self { space, compiler, state, rewards })
    }

    /// Applies an action, and returns the time that it took and the failure, if it failed.
    fn act(
        &self,
        py: Python<'_>,
        own: &CompilerClass,
        action: &str,
    ) -> Result<(Duration, Result<bool, Failure>), SessionError> {
        let begun = Instant::now();
        let applied = self.compiler.call_method1(py, "apply", (action,));
        let wall_time = begun.elapsed();
        let applied = match applied {
            Ok(applied) => applied,
            Err(error) => {
                let failure = failure(py, &error);
                return Ok((wall_time, Err(failure.ok_or_else(|| raised(py, error))?)));
            }
        };
        let applied = applied.bind(py);
        let call = format!("apply({action:?})");
        let wrong = |_other| own.wrong(&call, "True, False or None", applied);
        let may_differ = applied.is_none() || applied.extract::<bool>().map_err(wrong)?;
        Ok((wall_time, Ok(may_differ)))
    }

    /// Brings the state and the costs up to what the compiler holds now.
    fn step(
        &mut self,
        py: Python<'_>,
        own: &CompilerClass,
        may_differ: bool,
        wall_time: Duration,
    ) -> Result<Step, SessionError> {
        let saved = if may_differ { Some(own.save(py, &self.compiler)?) } else { None };
        let saved = saved.filter(|saved| *saved != self.state.saved);
        let changed = saved.is_some();
        let rewards = match saved {
            Some(saved) => {
                self.state = CompilerState::new(saved, &own.spec);
                let costs = self.state.costs(py, own, &self.compiler)?;
                self.rewards.advance(cost_of(&costs))
            }
            None => self.rewards.rest(),
        };
        let (end_of_episode, action_space_changed) = (false, false);
        let id = self.state.id;
        let outcome = Outcome::State { id, changed, end_of_episode, action_space_changed };
        Ok(Step { outcome, rewards, wall_time })
    }

    /// Makes a second compiler in the same state.
    fn fork(&self, py: Python<'_>, own: &CompilerClass) -> Result<Self, SessionError> {
        let fork = self.compiler.call_method0(py, "fork").map_err(|error| raised(py, error))?;
        let (how, compiler) = if fork.is_none(py) {
            let started = own.started(py, &self.state.saved)?;
            ("start(save())", started.map_err(|error| raised(py, error))?)
        } else {
            ("fork()", fork)
        };
        if compiler.is(&self.compiler) {
            let class = &own.class;
            return Err(broken(format!(
                "{class}.fork() returned itself, and not another compiler"
            )));
        }
        if own.save(py, &compiler)? != self.state.saved {
            let class = &own.class;
            return Err(broken(format!(
                "{class}.{how} leads to another state than the one that was saved"
            )));
        }
        let (state, rewards) = (self.state.clone(), self.rewards.clone());
        Ok(Self { space: self.space, compiler, state, rewards })
    }
}

impl Session for OwnSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.episode = None;
        let own = Arc::clone(&self.own);
        let spaces = &own.spec.action_spaces;
        let space = spaces.iter().position(|space| space.name == start.action_space);
        let space = space.ok_or_else(|| unknown_space(&own.spec, start.action_space))?;
        let episode = Python::attach(|py| {
            let compiler = own.started(py, &start.benchmark.program)?.map_err(|error| {
                let uri = start.benchmark.uri.to_string();
                if error.is_instance_of::<PyValueError>(py) {
                    return SessionError::BadProgram { uri, detail: message(py, &error) };
                }
                match failure(py, &error) {
                    Some(failure) => SessionError::StartFailed { uri, failure },
                    None => raised(py, error),
                }
            })?;
            Episode::begin(py, &own, space, compiler)
        })?;
        let state = episode.state.id;
        self.episode = Some(episode);
        Ok(Started { state, baselines: Baselines::default() })
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        let space = &self.own.spec.action_spaces[episode.space];
        let Some(action) = space.get(action).map(|action| action.name.clone()) else {
            let (index, len) = (action.0, space.actions.len());
            return Err(SessionError::InvalidAction { index, space: space.name.clone(), len });
        };
        let step = self.with(|py, own, episode| {
            let (wall_time, applied) = episode.act(py, own, &action)?;
            match applied {
                Ok(may_differ) => episode.step(py, own, may_differ, wall_time),
                Err(failure) => Ok(Step::failed(failure, own.spec.reward_spaces.len(), wall_time)),
            }
        })?;
        if step.outcome.ends_episode() {
            self.episode = None;
        }
        Ok(step)
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        if self.own.spec.observation_space(space).is_none() {
            return Err(unknown_space(&self.own.spec, &space.0.to_string()));
        }
        self.with(|py, own, episode| episode.state.observe(py, own, &episode.compiler, space))
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        Python::attach(|py| {
            let compiler =
                self.own.started(py, state)?.map_err(|error| not_a_state(&message(py, &error)))?;
            Ok(StateId(bitcode_sha1(&self.own.save(py, &compiler)?)))
        })
    }

    fn text(&mut self, state: &[u8]) -> Result<String, SessionError> {
        let text = std::str::from_utf8(state).map(str::to_owned);
        text.map_err(|_no_text| not_a_state("its bytes are no text"))
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let own = Arc::clone(&self.own);
        let episode = self.with(|py, own, episode| episode.fork(py, own))?;
        Ok(Box::new(Self { own, episode: Some(episode) }))
    }
}

fn not_a_state(detail: &str) -> SessionError {
    SessionError::BadProgram { uri: "a saved state".to_owned(), detail: detail.to_owned() }
}
