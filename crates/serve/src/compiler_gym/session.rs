//! One session of a client.

use std::fmt;
use std::ops::ControlFlow;

use steplake::env::{Session, SessionError, Start, Watch};
use steplake::execution::Settings;
use steplake::model::{
    ActionIndex, Baselines, Benchmark, EnvironmentSpec, Execution, Failure, ObservationIndex,
    Outcome, Value,
};
use tonic::Status;

use super::recording::RecordedEnvironment;
use super::running::{self, Running, Sized};
use super::status;

/// The action space with LLVM's own pipelines, each an action.
const PIPELINES: &str = "llvm22-pipelines-v0";

/// A session with what its client has set.
pub(super) struct OpenSession {
    session: Box<dyn Session>,
    benchmark: Benchmark,
    baselines: Baselines,
    /// The name of the action space in the environment, and its number of actions.
    action_space: (String, usize),
    has_failed: bool,
    running: Running,
    pub(super) counts: Counts,
}

/// How often clients want programs to be run and linked for an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) runtimes: i64,
    pub(super) warmups: i64,
    pub(super) buildtimes: i64,
}

impl Default for Counts {
    fn default() -> Self {
        Self { runtimes: 1, warmups: 0, buildtimes: 1 }
    }
}

/// What a list of actions did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Played {
    pub(super) has_ended: bool,
    pub(super) has_changed: bool,
}

impl fmt::Debug for OpenSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSession").field("uri", &self.benchmark.uri).finish_non_exhaustive()
    }
}

impl OpenSession {
    /// Opens a session and begins its episode.
    ///
    /// # Errors
    ///
    /// If the program cannot be started.
    pub(super) fn start(
        environment: &RecordedEnvironment,
        benchmark: Benchmark,
        action_space: (&str, usize),
        watched: Vec<ObservationIndex>,
    ) -> Result<Self, Status> {
        let known = environment.baselines(&benchmark);
        let watch = Watch { spaces: watched, ..Watch::default() };
        let start = Start {
            benchmark: &benchmark,
            action_space: action_space.0,
            baselines: known.as_ref(),
            watch: &watch,
        };
        let began = || {
            let mut session = environment.session()?;
            let started = session.start(&start)?;
            Ok((session, started))
        };
        let (session, started) = began().map_err(|error| status::of(&error))?;
        if known.as_ref() != Some(&started.baselines) {
            environment.keep_baselines(&benchmark, &started.baselines);
        }
        let action_space = (action_space.0.to_owned(), action_space.1);
        let (baselines, counts) = (started.baselines, Counts::default());
        let (has_failed, running) = (false, Running::default());
        Ok(Self { session, benchmark, baselines, action_space, has_failed, running, counts })
    }

    /// The number of actions.
    pub(super) fn actions(&self) -> usize {
        self.action_space.1
    }

    /// Whether the compiler failed on an action, and the episode is over.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Applies actions in order.
    ///
    /// # Errors
    ///
    /// If the compiler fails, or the session does. The first ends the session.
    pub(super) fn play(
        &mut self,
        spec: &EnvironmentSpec,
        actions: &[ActionIndex],
    ) -> Result<Played, Status> {
        let mut played = Played { has_ended: false, has_changed: false };
        let mut failed: Option<Failure> = None;
        let mut taken = 0;
        let result = self.session.multistep(actions, &mut |step, _| {
            taken += 1;
            match step.outcome {
                Outcome::State { changed, end_of_episode, .. } => {
                    played.has_changed |= changed;
                    played.has_ended |= end_of_episode;
                }
                Outcome::Crashed(failure) => failed = Some(failure),
            }
            Ok(ControlFlow::Continue(()))
        });
        if played.has_changed || result.is_err() {
            self.running.forget_state();
        }
        result.map_err(|error| status::after(taken, status::of(&error)))?;
        let Some(failure) = failed else { return Ok(played) };
        self.has_failed = true;
        let space = spec.action_space(&self.action_space.0);
        let action = space.zip(actions.get(taken - 1)).and_then(|(space, &at)| space.get(at));
        let name = action.map_or("an action", |action| action.name.as_str());
        Err(status::of_failure(name, &failure))
    }

    /// Looks at the present state.
    ///
    /// # Errors
    ///
    /// If the compiler fails on the observation.
    pub(super) fn observe(&mut self, space: ObservationIndex) -> Result<Value, Status> {
        self.session.observe(space).map_err(|error| status::of(&error))
    }

    /// Opens a second session in the same state.
    ///
    /// # Errors
    ///
    /// If the episode is over.
    pub(super) fn fork(&mut self) -> Result<Self, Status> {
        let session = self.session.fork().map_err(|error| status::of(&error))?;
        Ok(Self {
            session,
            benchmark: self.benchmark.clone(),
            baselines: self.baselines.clone(),
            action_space: self.action_space.clone(),
            has_failed: false,
            running: Running::default(),
            counts: self.counts.clone(),
        })
    }

    /// Runs one of LLVM's own pipelines, which no action space of clients has, and returns whether
    /// it changed anything. The session goes on from its result. A lake has no steps for what is
    /// not an action: it records the session up to here.
    ///
    /// # Errors
    ///
    /// If the compiler fails, or the environment has no pipelines.
    pub(super) fn run_pipeline(
        &mut self,
        environment: &RecordedEnvironment,
        name: &str,
    ) -> Result<bool, Status> {
        let environment = environment.unrecorded();
        let spec = environment.spec();
        let place = pipeline(spec, name)?;
        // The baselines belong to the program as it came, also those that nobody has asked for yet.
        let mut baselines = self.baselines.clone();
        for (index, space) in (0..).map(ObservationIndex).zip(&spec.observation_spaces) {
            if space.of_benchmark
                && baselines.get(&space.name).is_none()
                && let Value::Int(cost) = self.observe(index)?
            {
                baselines.0.push((space.name.to_string(), cost));
            }
        }
        let begin = |program: Value, action_space: &str| {
            let Value::Bytes(program) = program else {
                return Err(SessionError::Broken("a state is not bytes".into()));
            };
            let benchmark = Benchmark { program: program.into(), ..self.benchmark.clone() };
            let (baselines, watch) = (Some(&baselines), &Watch::default());
            let mut session = environment.session()?;
            session.start(&Start { benchmark: &benchmark, action_space, baselines, watch })?;
            Ok(session)
        };
        let state = spec.state_index();
        let run = |session: &mut dyn Session| {
            let mut once = begin(session.observe(state)?, PIPELINES)?;
            match once.apply(place)?.outcome {
                Outcome::State { changed, .. } => {
                    Ok(Ok((begin(once.observe(state)?, &self.action_space.0)?, changed)))
                }
                Outcome::Crashed(failure) => Ok(Err(failure)),
            }
        };
        match run(self.session.as_mut()).map_err(|error| status::of(&error))? {
            Ok((session, changed)) => {
                (self.session, self.baselines) = (session, baselines);
                self.running.forget_state();
                Ok(changed)
            }
            Err(failure) => {
                self.has_failed = true;
                Err(status::of_failure(name, &failure))
            }
        }
    }
}

/// The place of one of LLVM's own pipelines among the actions that are pipelines.
fn pipeline(spec: &EnvironmentSpec, name: &str) -> Result<ActionIndex, Status> {
    let space = spec.action_space(PIPELINES);
    let place = space.and_then(|space| {
        let place = space.actions.iter().position(|action| action.name == name)?;
        u32::try_from(place).ok().map(ActionIndex)
    });
    place.ok_or_else(|| Status::unimplemented(format!("{} has no pipeline {name}", spec.name)))
}

/// What it takes to link and run the program.
impl OpenSession {
    /// How the program is linked and run, if it says so.
    pub(super) fn execution(&self) -> Option<&Execution> {
        self.benchmark.execution.as_ref()
    }

    /// Whether the program says how it is run.
    pub(super) fn is_runnable(&self) -> bool {
        self.execution().is_some_and(|execution| execution.run.is_some())
    }

    /// The size of the linked program in a state; what the space `object` shows if it is not
    /// linked.
    ///
    /// # Errors
    ///
    /// If the compiler fails, or the program cannot be linked.
    pub(super) fn text_size(
        &mut self,
        environment: &RecordedEnvironment,
        settings: &Settings,
        state: Sized,
        object: ObservationIndex,
    ) -> Result<Value, Status> {
        let environment = environment.unrecorded();
        let Self { session, running, benchmark, baselines, .. } = self;
        let Some(execution) = &benchmark.execution else { return self.observe(object) };
        let place = match state {
            Sized::Present => {
                let build = || running::build(environment.spec(), execution, settings, session);
                return running::text_size(running.executable(build)?).map(Value::Int);
            }
            Sized::First => None,
            Sized::After(name) => Some((name, pipeline(environment.spec(), name)?)),
        };
        let size = running.size(state, || {
            let (baselines, watch) = (Some(&*baselines), &Watch::default());
            let start = Start { benchmark, action_space: PIPELINES, baselines, watch };
            let begin = || {
                let mut session = environment.session()?;
                session.start(&start)?;
                Ok(session)
            };
            let mut session = begin().map_err(|error| status::of(&error))?;
            if let Some((name, place)) = place {
                let step = session.apply(place).map_err(|error| status::of(&error))?;
                if let Outcome::Crashed(failure) = step.outcome {
                    return Err(status::of_failure(name, &failure));
                }
            }
            let built = running::build(environment.spec(), execution, settings, &mut session)?;
            running::text_size(&built)
        })?;
        Ok(Value::Int(size))
    }

    /// How long runs of the program take, in seconds, as many as the client has set; none if it
    /// cannot be run.
    ///
    /// # Errors
    ///
    /// If the compiler fails, or the program cannot be linked, or fails.
    pub(super) fn run_times(
        &mut self,
        environment: &RecordedEnvironment,
        settings: &Settings,
    ) -> Result<Option<Value>, Status> {
        let spec = environment.unrecorded().spec();
        let Self { session, running, counts, benchmark, .. } = self;
        let execution = benchmark.execution.as_ref().filter(|execution| execution.run.is_some());
        let Some(execution) = execution else { return Ok(None) };
        let build = || running::build(spec, execution, settings, session);
        running::run_times(running.executable(build)?, counts.runtimes, counts.warmups).map(Some)
    }

    /// How long builds of the program take, in seconds, as many as the client has set; none if it
    /// cannot be built.
    ///
    /// # Errors
    ///
    /// If the compiler fails, or the program cannot be linked.
    pub(super) fn build_times(
        &mut self,
        environment: &RecordedEnvironment,
        settings: &Settings,
    ) -> Result<Option<Value>, Status> {
        let spec = environment.unrecorded().spec();
        let Self { session, running, counts, benchmark, .. } = self;
        let Some(execution) = &benchmark.execution else { return Ok(None) };
        let build = || running::build(spec, execution, settings, session);
        running.build_times(counts.buildtimes, build).map(Some)
    }
}
