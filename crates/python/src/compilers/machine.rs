//! What belongs to the machine: the program of a session, built and run here.

use std::sync::Arc;

use steplake::env::{Environment, Session, SessionError};
use steplake::environments::catalogue::inputs_folder;
use steplake::execution::RunSettings;
use steplake::model::{Benchmark, MachineSpace, Outcome, StateId, Value};
use steplake::program_under_test::{ProgramUnderTest, RepetitionCounts};
use steplake::sandbox::Interrupt;
use tempfile::TempDir;

use crate::interpreter::errors::PendingException;

/// The program of a session's episode, which is built and run when it is wanted.
pub(crate) struct Machine {
    /// Its sessions are not recorded.
    environment: Arc<dyn Environment>,
    interrupt: Interrupt,
    spaces: &'static [MachineSpace],
    pub(crate) counts: RepetitionCounts,
    /// The folder of files for the caller, which forks share; none before one is needed.
    files: Option<Arc<TempDir>>,
    benchmark: Option<Benchmark>,
    program: Option<ProgramUnderTest>,
    /// The present state; none before the first episode, and after a failure of the compiler.
    state: Option<StateId>,
}

impl Machine {
    /// Answers these spaces.
    pub(crate) fn new(
        environment: Arc<dyn Environment>,
        interrupt: Interrupt,
        spaces: &'static [MachineSpace],
    ) -> Self {
        Self {
            environment,
            interrupt,
            spaces,
            counts: RepetitionCounts::default(),
            files: None,
            benchmark: None,
            program: None,
            state: None,
        }
    }

    /// Returns the space at a place. They come after those of the environment.
    pub(crate) fn space(&self, place: u8) -> Option<MachineSpace> {
        let own = self.environment.spec().observation_spaces.len();
        self.spaces.get(usize::from(place).checked_sub(own)?).copied()
    }

    /// Notes the end of an episode.
    pub(crate) fn end(&mut self) {
        self.state = None;
    }

    /// Notes the beginning of an episode. What is known of a program stays known in its next one,
    /// whose runs begin in a folder of their own.
    pub(crate) fn begin(&mut self, benchmark: &Benchmark, state: StateId) {
        let known = self.program.take().filter(|_| self.benchmark.as_ref() == Some(benchmark));
        self.program = known.as_ref().map(ProgramUnderTest::fork);
        (self.benchmark, self.state) = (Some(benchmark.clone()), Some(state));
    }

    /// Notes a step.
    pub(crate) fn step(&mut self, outcome: &Outcome) {
        self.state = outcome.state();
    }

    /// Returns that of a fork of the session.
    pub(crate) fn fork(&self) -> Self {
        Self {
            environment: Arc::clone(&self.environment),
            interrupt: self.interrupt.clone(),
            spaces: self.spaces,
            counts: self.counts,
            files: self.files.clone(),
            benchmark: self.benchmark.clone(),
            program: self.program.as_ref().map(ProgramUnderTest::fork),
            state: self.state,
        }
    }

    /// Observes the present state of the session.
    pub(crate) fn observe(
        &mut self,
        space: MachineSpace,
        session: &mut dyn Session,
    ) -> Result<Value, PendingException> {
        let (Some(state), Some(benchmark)) = (self.state, &self.benchmark) else {
            return Err(SessionError::NoEpisode.into());
        };
        let program = match &mut self.program {
            Some(known) => known,
            none => {
                let folder = match &self.files {
                    Some(known) => Arc::clone(known),
                    None => Arc::new(TempDir::new().map_err(PendingException::from)?),
                };
                let files = self.files.insert(folder).path().to_owned();
                let settings = RunSettings { inputs: inputs_folder(), ..RunSettings::default() };
                let environment = Arc::clone(&self.environment);
                let mut program =
                    ProgramUnderTest::new(environment, benchmark.clone(), settings, files);
                program.interrupt = self.interrupt.clone();
                none.insert(program)
            }
        };
        program.counts = self.counts;
        Ok(program.observe(space, session, state)?)
    }
}
