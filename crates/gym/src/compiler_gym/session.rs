//! One session of a client.

use std::fmt;

use steplake::env::{Destination, Expected, Route, Session, SessionError, Start, Strayed, Watch};
use steplake::model::{
    ActionIndex, Baselines, Benchmark, EnvironmentSpec, MachineSpace, ObservationIndex, Outcome,
    StateId, Value,
};
use steplake::program_under_test::{
    MachineSpaceError, PIPELINES, ProgramUnderTest, pipeline_index,
};
use tonic::Status;

use super::recording::RecordedEnvironment;
use super::status;

/// A session with what its client has set.
pub(super) struct ClientSession {
    session: Box<dyn Session>,
    benchmark: Benchmark,
    baselines: Baselines,
    /// The name of the action space in the environment, and its number of actions.
    action_space: (String, usize),
    state: StateId,
    has_failed: bool,
    /// Whether the session goes on from what a pipeline made: with a compiler, also if a cache
    /// answers otherwise.
    has_compiler: bool,
    /// What belongs to the machine.
    pub(super) program: ProgramUnderTest,
}

/// What a list of actions did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ActionsResult {
    pub(super) has_ended: bool,
    pub(super) has_changed: bool,
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("uri", &self.benchmark.uri).finish_non_exhaustive()
    }
}

impl ClientSession {
    /// Opens a session of a program and begins its episode.
    ///
    /// # Errors
    ///
    /// If the program cannot be started.
    pub(super) fn start(
        environment: &RecordedEnvironment,
        benchmark: Benchmark,
        program: ProgramUnderTest,
        action_space: (&str, usize),
        watched: Vec<ObservationIndex>,
    ) -> Result<Self, SessionError> {
        let known = environment.baselines(&benchmark);
        let watch = Watch { spaces: watched, ..Watch::default() };
        let start = Start {
            benchmark: &benchmark,
            action_space: action_space.0,
            baselines: known.as_ref(),
            watch: &watch,
        };
        let mut session = environment.session()?;
        let started = session.start(&start)?;
        if known.as_ref() != Some(&started.baselines) {
            environment.keep_baselines(&benchmark, &started.baselines);
        }
        let action_space = (action_space.0.to_owned(), action_space.1);
        Ok(Self {
            session,
            benchmark,
            baselines: started.baselines,
            action_space,
            state: started.state,
            has_failed: false,
            has_compiler: false,
            program,
        })
    }

    /// The number of actions.
    pub(super) fn actions(&self) -> usize {
        self.action_space.1
    }

    /// The present state; none if the session has a compiler of its own whatever its state is.
    pub(super) fn state_of_cache(&self) -> Option<StateId> {
        (!self.has_compiler).then_some(self.state)
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
    ) -> Result<ActionsResult, Status> {
        let mut played = ActionsResult { has_ended: false, has_changed: false };
        let (mut taken, route) = (0, Route { actions, expected: Expected::Any });
        let brought = route.bring(self.session.as_mut(), |_, step| {
            taken += 1;
            if let Outcome::State { id, changed, end_of_episode, .. } = step.outcome {
                self.state = id;
                played.has_changed |= changed;
                played.has_ended |= end_of_episode;
            }
        });
        let brought = brought.map_err(|error| status::after(taken, status::of(&error)))?;
        let Err(Strayed { at, found: Destination::Failure(failure) }) = brought else {
            return Ok(played);
        };
        self.has_failed = true;
        let space = spec.action_space(&self.action_space.0);
        let action = space.and_then(|space| space.get(actions[at - 1]));
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

    /// Looks at the program of the present state on this machine.
    ///
    /// # Errors
    ///
    /// If the compiler fails, or the program cannot be built or run.
    pub(super) fn observe_on_machine(
        &mut self,
        space: MachineSpace,
    ) -> Result<Value, MachineSpaceError> {
        self.program.observe(space, self.session.as_mut(), self.state)
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
            state: self.state,
            has_failed: false,
            has_compiler: self.has_compiler,
            program: self.program.fork(),
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
        let place = pipeline_index(spec, name).ok_or_else(|| {
            Status::unimplemented(format!("{} has no pipeline {name}", spec.name))
        })?;
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
            let start = Start { benchmark: &benchmark, action_space, baselines, watch };
            let state = session.start(&start)?.state;
            Ok((session, state))
        };
        let state = spec.state_index();
        let run = |session: &mut dyn Session| {
            let (mut once, _) = begin(session.observe(state)?, PIPELINES)?;
            match once.apply(place)?.outcome {
                Outcome::State { changed, .. } => {
                    Ok(Ok((begin(once.observe(state)?, &self.action_space.0)?, changed)))
                }
                Outcome::Crashed(failure) => Ok(Err(failure)),
            }
        };
        match run(self.session.as_mut()).map_err(|error| status::of(&error))? {
            Ok(((session, state), changed)) => {
                (self.session, self.state, self.baselines) = (session, state, baselines);
                self.has_compiler = true;
                Ok(changed)
            }
            Err(failure) => {
                self.has_failed = true;
                Err(status::of_failure(name, &failure))
            }
        }
    }
}
