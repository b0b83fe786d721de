//! Sequences of actions played from the first state of a program, and the code of where they lead.

use std::sync::Arc;

use super::{CheckedProgram, SemanticsError};
use crate::measure::nothing_to_run;
use steplake_env::{
    Destination, Environment, Expected, Route, Session, SessionError, Start, Strayed, Watch,
};
use steplake_model::{
    ActionIndex, Benchmark, Failure, ObservationIndex, Provenance, Rewards, StateId, Value,
};

/// A step that was played: its state, and its rewards.
pub(super) type PlayedStep = (StateId, Rewards);

/// Plays sequences, in one session after another.
pub(super) struct SequencePlayer<'a> {
    environment: &'a dyn Environment,
    action_space: &'a str,
    /// Whether rewards are wanted: then the baselines are measured.
    has_rewards: bool,
    session: Option<Box<dyn Session>>,
}

impl<'a> SequencePlayer<'a> {
    pub(super) fn new(
        environment: &'a dyn Environment,
        action_space: &'a str,
        has_rewards: bool,
    ) -> Self {
        Self { environment, action_space, has_rewards, session: None }
    }

    /// Has the next sequence played in a new session, which for a compiler in worker processes is a
    /// new process.
    pub(super) fn renew(&mut self) {
        self.session = None;
    }

    /// Returns the first state of a program. The inner error says why the compiler does not come
    /// there.
    pub(super) fn initial(
        &mut self,
        benchmark: &Benchmark,
    ) -> Result<Result<StateId, String>, SemanticsError> {
        let baselines = self.environment.spec().zero_baselines();
        let action_space = self.action_space;
        let started = self.session()?.start(&Start {
            benchmark,
            action_space,
            baselines: Some(&baselines),
            watch: &Watch::default(),
        });
        match started {
            Ok(started) => Ok(Ok(started.state)),
            Err(SessionError::StartFailed { failure, .. }) => Ok(Err(fails(&failure))),
            Err(error) => Err(error.into()),
        }
    }

    /// Plays actions from the first state of a program. Returns the step of each; the inner error
    /// says why the compiler did not come to the end.
    pub(super) fn play(
        &mut self,
        subject: &CheckedProgram,
        actions: &[ActionIndex],
    ) -> Result<Result<Vec<PlayedStep>, String>, SemanticsError> {
        let baselines = (!self.has_rewards).then(|| self.environment.spec().zero_baselines());
        let benchmark = Benchmark {
            uri: subject.benchmark.clone(),
            program: Arc::clone(&subject.program),
            provenance: Provenance::default(),
            execution: None,
        };
        let action_space = self.action_space;
        let session = self.session()?;
        let started = session.start(&Start {
            benchmark: &benchmark,
            action_space,
            baselines: baselines.as_ref(),
            watch: &Watch::default(),
        });
        match started {
            Err(SessionError::StartFailed { failure, .. }) => {
                return Ok(Err(fails(&failure)));
            }
            Err(error) => return Err(error.into()),
            Ok(started) if started.state != subject.initial => {
                let (known, found) = (subject.initial, started.state);
                return Ok(Err(format!("its first state is {known}, and now it is {found}")));
            }
            Ok(_) => {}
        }
        let mut steps = Vec::new();
        let route = Route { actions, expected: Expected::Any };
        let played = route.bring(session.as_mut(), |_, step| {
            steps.extend(step.outcome.state().map(|state| (state, step.rewards)));
        })?;
        match played {
            Err(Strayed { found: Destination::Failure(died), .. }) => {
                Ok(Err(format!("the compiler fails: {died}")))
            }
            Ok(()) | Err(_) => Ok(Ok(steps)),
        }
    }

    /// The object file of where the last sequence led. The inner error says why there is none.
    pub(super) fn object(&mut self) -> Result<Result<Vec<u8>, String>, SemanticsError> {
        let Some(space) = self.environment.spec().object_index() else {
            return Err(SemanticsError::NoCode(nothing_to_run(self.environment.spec())));
        };
        self.observe(space)
    }

    /// The place of a space, if the environment has it.
    pub(super) fn space(&self, name: &str) -> Option<ObservationIndex> {
        self.environment.spec().observation_index(name)
    }

    /// The serialisation of where the last sequence led.
    pub(super) fn serialised(&mut self) -> Result<Result<Vec<u8>, String>, SemanticsError> {
        self.observe(self.environment.spec().state_index())
    }

    /// Observes where the last sequence led, in a space of bytes. The inner error says why it has
    /// none.
    pub(super) fn observe(
        &mut self,
        space: ObservationIndex,
    ) -> Result<Result<Vec<u8>, String>, SemanticsError> {
        match self.session()?.observe(space) {
            Ok(Value::Bytes(bytes)) => Ok(Ok(bytes)),
            Ok(_) => unreachable!("an object file is bytes, and so is a state"),
            Err(SessionError::Unobservable(failure)) => Ok(Err(failure.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    fn session(&mut self) -> Result<&mut Box<dyn Session>, SemanticsError> {
        match &mut self.session {
            Some(session) => Ok(session),
            none => Ok(none.insert(self.environment.session()?)),
        }
    }
}

/// Says that a program does not start.
fn fails(failure: &Failure) -> String {
    format!("the compiler fails on it: {}", failure.detail)
}
