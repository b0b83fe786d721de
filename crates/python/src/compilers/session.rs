//! `Session`: one live instance of a compiler.

use std::ops::ControlFlow;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;
use steplake::env::{self, RequestedRewards, Start, WantedRewards, Watch};
use steplake::environments::catalogue::Catalogue;
use steplake::generate::ProgramProvider;
use steplake::model::{
    self, ActionIndex, Baselines, EnvironmentSpec, ObservationIndex, Outcome, Value,
};
use steplake::program_under_test::RepetitionCounts;

use crate::compilers::benchmark::Benchmark;
use crate::compilers::machine::Machine;
use crate::compilers::open_session::{OpenSession, Opened};
use crate::compilers::run::Run;
use crate::compilers::values::{object, objects};
use crate::interpreter::errors::{PendingException, raise};

/// One live instance of a compiler, used by one thread at a time.
#[pyclass(frozen, module = "steplake._steplake")]
pub(crate) struct Session {
    inner: Arc<OpenSession>,
    /// The rewards that are wanted of it and of its forks.
    wanted: Arc<WantedRewards>,
    catalogue: Arc<Catalogue>,
    recording: Option<Arc<Run>>,
}

/// A step that a session took.
#[pyclass(frozen, get_all, module = "steplake._steplake")]
pub(crate) struct Step {
    /// The id of the state, 40 hexadecimal digits; None after a failure of the compiler.
    state_id: Option<String>,
    /// Whether the state changed.
    changed: bool,
    /// Whether the episode ends, with the failure or by the environment.
    end_of_episode: bool,
    /// Whether the action space changed.
    action_space_changed: bool,
    /// How the compiler failed, if it did.
    error: Option<String>,
    /// The reward in each space; NaN where there is none, as after a failure.
    rewards: Vec<f64>,
    /// The time that the compiler took, in seconds.
    compiler_seconds: f64,
}

impl From<&model::Step> for Step {
    fn from(step: &model::Step) -> Self {
        let (rewards, compiler_seconds) = (step.rewards.to_vec(), step.wall_time.as_secs_f64());
        match &step.outcome {
            Outcome::State { id, changed, end_of_episode, action_space_changed } => Self {
                state_id: Some(id.to_string()),
                changed: *changed,
                end_of_episode: *end_of_episode,
                action_space_changed: *action_space_changed,
                error: None,
                rewards,
                compiler_seconds,
            },
            Outcome::Crashed(failure) => Self {
                state_id: None,
                changed: false,
                end_of_episode: true,
                action_space_changed: false,
                error: Some(format!("{}: {}", failure.kind, failure.detail)),
                rewards,
                compiler_seconds,
            },
        }
    }
}

/// How many actions are applied between two looks for signals.
const ACTIONS_AT_ONCE: usize = 64;

/// The id of the initial state, the baselines, and the observations.
type StartedEpisode<'py> = (String, Vec<(String, i64)>, Bound<'py, PyList>);

/// Steps, the observations of the last state, and why no more steps were taken, as Python gets
/// them.
type PlayedObjects<'py> = (Vec<Step>, Bound<'py, PyList>, Option<PyErr>);

/// Steps, the observations of the last state, and why no more steps were taken.
type PlayedSteps = (Vec<Step>, Vec<Value>, Option<PendingException>);

impl Session {
    /// Wraps a session of the environment with this specification.
    pub(crate) fn of(
        session: Box<dyn env::Session>,
        spec: &EnvironmentSpec,
        machine: Machine,
        catalogue: Arc<Catalogue>,
        recording: Option<Arc<Run>>,
    ) -> Self {
        let wanted = Arc::new(WantedRewards::default());
        let spec = Arc::new(spec.clone());
        let session = Box::new(RequestedRewards::new(session, spec, Arc::clone(&wanted)));
        Self::with_wanted(Opened { session, machine }, wanted, catalogue, recording)
    }

    fn with_wanted(
        opened: Opened,
        wanted: Arc<WantedRewards>,
        catalogue: Arc<Catalogue>,
        recording: Option<Arc<Run>>,
    ) -> Self {
        let inner = Arc::new(OpenSession::new(opened));
        if let Some(run) = &recording {
            run.has_session(&inner);
        }
        Self { inner, wanted, catalogue, recording }
    }

    /// The baselines of a program, if they are known: all rewards of a benchmark in a lake are
    /// scaled by the same ones.
    fn baselines(&self, benchmark: &model::Benchmark) -> Option<Baselines> {
        let of_lake = self.recording.as_ref().and_then(|run| run.baselines(benchmark));
        of_lake.or_else(|| self.catalogue.baselines(benchmark))
    }

    /// Runs `work` with the session. Call it detached from the interpreter.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut Opened) -> Result<T, PendingException>,
    ) -> Result<T, PendingException> {
        self.inner.with(|opened| match opened {
            Some(opened) => work(opened),
            None => Err(PendingException::usage(match &self.recording {
                Some(run) if run.has_ended() => {
                    "the recording of this environment has ended, and the environment with it: make \
                     another one"
                }
                _ => "this environment is closed: make another one",
            })),
        })
    }

    /// Lets the compiler begin with actions that will be played next. If it cannot, `play` will say
    /// so.
    fn announce(&self, actions: &[ActionIndex]) {
        let announced = self.with(|opened| {
            opened.session.announce(actions);
            Ok(())
        });
        drop(announced);
    }

    /// Returns the places up to the first one of a space that belongs to the machine; all if there
    /// is no session, as `play` will say. Call it detached from the interpreter, as `with`.
    fn before_machine<'a>(&self, places: &'a [u8]) -> &'a [u8] {
        let count = self.inner.with(|opened| {
            let is_own = |place: &&u8| {
                opened.as_ref().is_none_or(|opened| opened.machine.space(**place).is_none())
            };
            Ok(places.iter().take_while(is_own).count())
        });
        &places[..count.unwrap_or(places.len())]
    }

    /// Applies actions, and observes the last state.
    fn play(&self, actions: &[ActionIndex], observed: &[u8]) -> PlayedSteps {
        let (mut steps, mut values) = (Vec::with_capacity(actions.len()), Vec::new());
        let played = self.with(|opened| {
            let Opened { session, machine } = opened;
            session.multistep(actions, &mut |step, _| {
                machine.step(&step.outcome);
                steps.push(Step::from(&step));
                Ok(ControlFlow::Continue(()))
            })?;
            // Values of a state that was seen before do not come along with its step.
            if steps.last().is_none_or(|step: &Step| step.state_id.is_some()) {
                for &place in observed {
                    values.push(opened.observe(place)?);
                }
            }
            Ok(())
        });
        (steps, values, played.err())
    }
}

#[pymethods]
impl Session {
    /// Begins an episode. Returns the id of the initial state, the baselines, and observations.
    fn start<'py>(
        &self,
        py: Python<'py>,
        benchmark: &Benchmark,
        action_space: &str,
        observed: Vec<u8>,
    ) -> PyResult<StartedEpisode<'py>> {
        let (benchmark, is_named_by_caller) = (&benchmark.benchmark, benchmark.is_named_by_caller);
        let dataset = benchmark.uri.dataset_uri();
        if is_named_by_caller && self.catalogue.has_dataset(dataset) {
            return Err(raise(PendingException::new(
                "BadBenchmark",
                format!(
                    "{} names a program of {dataset}, and this program was given by the caller: \
                     give it another name, such as benchmark://user-v0/NAME",
                    benchmark.uri
                ),
            )));
        }
        let started = py.detach(|| {
            let baselines = self.baselines(benchmark);
            self.with(|opened| {
                let of_machine = |place: &u8| opened.machine.space(*place).is_some();
                let spaces = observed.iter().filter(|place| !of_machine(place));
                let spaces = spaces.copied().map(ObservationIndex).collect();
                let watch = Watch { spaces, ..Watch::default() };
                let start =
                    Start { benchmark, action_space, baselines: baselines.as_ref(), watch: &watch };
                opened.machine.end();
                let started = opened.session.start(&start)?;
                opened.machine.begin(benchmark, started.state);
                if baselines.as_ref() != Some(&started.baselines) {
                    self.catalogue.keep_baselines(benchmark, &started.baselines);
                }
                let values = observed.iter().map(|&place| opened.observe(place));
                Ok((started, values.collect::<Result<Vec<_>, _>>()?))
            })
        });
        let (started, values) = started.map_err(raise)?;
        Ok((started.state.to_string(), started.baselines.0, objects(py, values)?))
    }

    /// Applies actions in order, until one ends the episode. An error comes with the steps before
    /// it, which were taken all the same.
    fn step<'py>(
        &self,
        py: Python<'py>,
        actions: Vec<u32>,
        observed: Vec<u8>,
    ) -> PyResult<PlayedObjects<'py>> {
        let actions: Vec<ActionIndex> = actions.into_iter().map(ActionIndex).collect();
        let mut steps = Vec::with_capacity(actions.len());
        let mut lists = actions.chunks(ACTIONS_AT_ONCE).peekable();
        let (mut values, mut failure) = loop {
            let list = lists.next().unwrap_or_default();
            let is_last = lists.peek().is_none();
            let observed = if is_last { &observed[..] } else { &[] };
            let (more, values, failure) = py.detach(|| self.play(list, observed));
            let has_ended = more.last().is_some_and(|step| step.end_of_episode);
            steps.extend(more);
            let failure = failure.map(raise).or_else(|| py.check_signals().err());
            if failure.is_some() || has_ended || is_last {
                break (values, failure);
            }
        };
        if failure.is_some() && !steps.is_empty() && values.len() < observed.len() {
            // The session is behind the last step, and the caller is to know what is there. No
            // program is built and run for that.
            let (_, seen, again) = py.detach(|| self.play(&[], self.before_machine(&observed)));
            values = seen;
            // Ctrl-C comes before any error.
            failure = again.filter(|again| again.is_interrupt).map(raise).or(failure);
        }
        Ok((steps, objects(py, values)?, failure))
    }

    /// Looks at the present state.
    fn observe<'py>(&self, py: Python<'py>, space: u8) -> PyResult<Bound<'py, PyAny>> {
        let look = || self.with(|opened| opened.observe(space));
        object(py, py.detach(look).map_err(raise)?)
    }

    /// Opens a second session in the same state.
    fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        let fork = |opened: &mut Opened| {
            Ok(Opened { session: opened.session.fork()?, machine: opened.machine.fork() })
        };
        let fork = py.detach(|| self.with(fork)).map_err(raise)?;
        let (wanted, catalogue) = (Arc::clone(&self.wanted), Arc::clone(&self.catalogue));
        Ok(Self::with_wanted(fork, wanted, catalogue, self.recording.clone()))
    }

    /// Has the rewards of these spaces computed from the next step on, where they take an
    /// observation of their own.
    fn want(&self, rewards: Vec<usize>) {
        for place in rewards {
            self.wanted.want(place);
        }
    }

    /// Has the program run and built so often for an observation.
    fn set_counts(
        &self,
        py: Python<'_>,
        runtimes: u32,
        warmups: u32,
        buildtimes: u32,
    ) -> PyResult<()> {
        let set = |opened: &mut Opened| {
            opened.machine.counts = RepetitionCounts { runtimes, warmups, buildtimes };
            Ok(())
        };
        py.detach(|| self.with(set)).map_err(raise)
    }

    /// Returns a serialised state as text.
    fn text(&self, py: Python<'_>, state: &[u8]) -> PyResult<String> {
        py.detach(|| self.with(|opened| Ok(opened.session.text(state)?))).map_err(raise)
    }

    /// Ends the session, and with it its worker if no fork uses it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| self.inner.close());
        // A forked process leaves the session to its own.
        if self.inner.is_here() { closed.map_err(raise) } else { Ok(()) }
    }
}

/// Applies one list of actions in each session, all sessions at once.
#[pyfunction]
pub(crate) fn step_all(
    py: Python<'_>,
    sessions: Vec<Py<Session>>,
    actions: Vec<Vec<u32>>,
    observed: Vec<u8>,
) -> PyResult<Vec<PlayedObjects<'_>>> {
    if sessions.len() != actions.len() {
        let (there, given) = (sessions.len(), actions.len());
        return Err(raise(PendingException::usage(format!(
            "there are {there} environments, and actions for {given}: give one list to each"
        ))));
    }
    let lists: Vec<Vec<ActionIndex>> =
        actions.into_iter().map(|list| list.into_iter().map(ActionIndex).collect()).collect();
    let each = || sessions.iter().map(Py::get).zip(&lists);
    let all: Vec<PlayedSteps> = py.detach(|| {
        // One thread suffices: the compilers compute in their own processes. While a program is
        // built and run, they rest: they would disturb its times.
        let at_once = sessions
            .first()
            .is_none_or(|first| first.get().before_machine(&observed).len() == observed.len());
        if at_once {
            for (session, actions) in each() {
                session.announce(actions);
            }
        }
        let mut is_interrupted = false;
        let played = each().map(|(session, actions)| {
            if is_interrupted {
                // It is as before the announcement.
                session.announce(&[]);
                return PlayedSteps::default();
            }
            let played = session.play(actions, &observed);
            is_interrupted = played.2.as_ref().is_some_and(|failure| failure.is_interrupt);
            played
        });
        played.collect()
    });
    let mut interrupted = py.check_signals().err();
    let objects = all.into_iter().map(|(steps, values, failure)| {
        let error = failure.map(raise).or_else(|| interrupted.take());
        Ok((steps, objects(py, values)?, error))
    });
    let mut objects = objects.collect::<PyResult<Vec<_>>>()?;
    match (interrupted, objects.first_mut()) {
        // Every environment has an error, and this one comes first.
        (Some(interrupted), Some((.., error))) => *error = Some(interrupted),
        (Some(interrupted), None) => return Err(interrupted),
        (None, _) => {}
    }
    Ok(objects)
}
