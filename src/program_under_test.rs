//! What belongs to the machine: the program of a state, built and run here, for those observation
//! spaces that no environment can answer alone.
//!
//! ```
//! use std::sync::Arc;
//!
//! use steplake::program_under_test::ProgramUnderTest;
//! use steplake::env::llvm::{LlvmEnvironment, assemble};
//! use steplake::env::{Environment, Start, Watch};
//! use steplake::execution::RunSettings;
//! use steplake::model::{Benchmark, Execution, Linker, MachineSpace, Provenance, Value};
//!
//! let benchmark = Benchmark {
//!     uri: "benchmark://user-v0/nothing".parse()?,
//!     program: assemble(b"define i32 @main() {\n ret i32 0\n}")?.into(),
//!     provenance: Provenance::default(),
//!     execution: Some(Execution::linked(Linker::C, &[])),
//! };
//! let environment: Arc<dyn Environment> = Arc::new(LlvmEnvironment::new());
//! let mut session = environment.session()?;
//! let started = session.start(&Start {
//!     benchmark: &benchmark,
//!     action_space: "llvm22-v1",
//!     baselines: None,
//!     watch: &Watch::default(),
//! })?;
//! let files = std::env::temp_dir();
//! let settings = RunSettings::default();
//! let mut program = ProgramUnderTest::new(environment, benchmark, settings, files);
//! program.counts.runtimes = 3;
//! let seconds = program.observe(MachineSpace::Runtime, session.as_mut(), started.state)?;
//! assert!(matches!(seconds, Value::FloatVector(seconds) if seconds.len() == 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use crate::env::loops::costs::Costs;
use crate::env::{Environment, Session, SessionError, Start, Watch, loops};
use crate::execution::{Executable, ExecutableCode, ExecutionError, Oracle, RunSettings, cpu_info};
use crate::measure::{BuiltKernel, KernelError, Timing, median, nothing_to_run};
use crate::model::{
    ActionIndex, Benchmark, BenchmarkUri, Build, EnvironmentSpec, Execution, Failure, MachineSpace,
    ObservationIndex, Outcome, StateId, Value,
};
use crate::model::{Classified, ErrorKind, Remedy, as_f64};
use crate::sandbox::Interrupt;

/// The action space with LLVM's own pipelines, each an action.
pub const PIPELINES: &str = "llvm22-pipelines-v0";

/// The runs before the samples of a speed, and the samples.
const SPEED_WARMUPS: u32 = 2;
const SPEED_SAMPLES: u32 = 11;

/// A number for each file that is written, and for the inputs of each schedule that is timed.
static NUMBER: AtomicU64 = AtomicU64::new(0);

static CPU_INFO: LazyLock<String> = LazyLock::new(cpu_info);

/// How often a program is run and built for one observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepetitionCounts {
    /// The number of samples of [`MachineSpace::Runtime`].
    pub runtimes: u32,
    /// The number of runs before them that are left out.
    pub warmups: u32,
    /// The number of samples of [`MachineSpace::Buildtime`].
    pub buildtimes: u32,
}

impl Default for RepetitionCounts {
    /// One run that counts and one build, as in CompilerGym.
    fn default() -> Self {
        Self { runtimes: 1, warmups: 0, buildtimes: 1 }
    }
}

/// Why there is no observation in a space of the machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineSpaceError {
    /// The session failed, or the compiler did on an observation; or whoever waits gave up
    /// ([`SessionError::Interrupted`]).
    #[error("{0}")]
    Session(#[from] SessionError),
    /// The compiler failed on one of its own pipelines.
    #[error("the compiler failed on {pipeline}: {}: {}", failure.kind, failure.detail)]
    CompilerFailed {
        /// The pipeline.
        pipeline: &'static str,
        /// How it failed.
        failure: Failure,
    },
    /// The benchmark does not say how it is built.
    #[error("{0} cannot be built: nobody says how, so it has no build time")]
    NotBuildable(BenchmarkUri),
    /// The benchmark does not say how it is run.
    #[error("{0} cannot be run: nobody says how, so it has no run time")]
    NotRunnable(BenchmarkUri),
    /// The program could not be built or run.
    #[error("{0}")]
    Execution(#[source] ExecutionError),
    /// A schedule has no code, or a wrong one.
    #[error("the schedule has no speed: {0}")]
    Kernel(String),
    /// The environment makes no machine code that is run.
    #[error("{0}")]
    NoCode(String),
    /// The environment has no such pipeline.
    #[error("{environment} has no pipeline {pipeline}")]
    NoPipeline {
        /// The environment.
        environment: String,
        /// The pipeline.
        pipeline: &'static str,
    },
    /// The file of a state cannot be written.
    #[error("{} cannot be written", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Classified for MachineSpaceError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Session(error) => error.classify(),
            Self::Execution(error) => error.classify(),
            Self::CompilerFailed { .. } => (ErrorKind::CompilerFailed, None),
            Self::NotBuildable(_)
            | Self::NotRunnable(_)
            | Self::NoCode(_)
            | Self::NoPipeline { .. } => (ErrorKind::Usage, None),
            Self::Kernel(_) | Self::File { .. } => (ErrorKind::Failed, None),
        }
    }
}

impl From<ExecutionError> for MachineSpaceError {
    fn from(error: ExecutionError) -> Self {
        match error {
            ExecutionError::Stopped => Self::Session(SessionError::Interrupted),
            other => Self::Execution(other),
        }
    }
}

/// The program of a session, as far as this machine has built it. A session and its forks have one
/// each.
#[derive(Debug)]
pub struct ProgramUnderTest {
    environment: Arc<dyn Environment>,
    benchmark: Benchmark,
    settings: RunSettings,
    files: PathBuf,
    /// How often the program is run and built for one observation.
    pub counts: RepetitionCounts,
    /// Is asked before each build and each run; a program that runs already comes to its end.
    pub interrupt: Interrupt,
    /// What the program has to do, if somebody has wanted to know; that of the forks too.
    oracle: Option<Arc<Oracle>>,
    /// That of the state that was built last.
    executable: Option<(StateId, Executable)>,
    /// The sizes that do not depend on the state.
    sizes: BTreeMap<MachineSpace, i64>,
}

impl ProgramUnderTest {
    /// A program that nobody has built yet. Sessions of `environment` are opened for the sizes
    /// after the compiler's own pipelines, so it should not be one that is recorded. Files of
    /// [`MachineSpace::BitcodeFile`] go into the folder `files`, and belong to the caller.
    pub fn new(
        environment: Arc<dyn Environment>,
        benchmark: Benchmark,
        settings: RunSettings,
        files: PathBuf,
    ) -> Self {
        Self {
            environment,
            benchmark,
            settings,
            files,
            counts: RepetitionCounts::default(),
            interrupt: Interrupt::default(),
            oracle: None,
            executable: None,
            sizes: BTreeMap::new(),
        }
    }

    /// The spaces that it answers for an environment: those of programs, if the environment makes
    /// machine code and has LLVM's own pipelines; the speed, if it has schedules; and otherwise
    /// none.
    pub fn spaces(spec: &EnvironmentSpec) -> &'static [MachineSpace] {
        let has_code = spec.object_index().is_some();
        if has_code && spec.action_space(PIPELINES).is_some() {
            MachineSpace::OF_PROGRAMS
        } else if spec.name == loops::NAME {
            &[MachineSpace::Flops]
        } else {
            &[]
        }
    }

    /// The program of a fork of the session. It is built anew when it is wanted.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            environment: Arc::clone(&self.environment),
            benchmark: self.benchmark.clone(),
            settings: self.settings.clone(),
            files: self.files.clone(),
            counts: self.counts,
            interrupt: self.interrupt.clone(),
            oracle: self.oracle.clone(),
            executable: None,
            sizes: self.sizes.clone(),
        }
    }

    /// Observes the present state of `session`, whose id is `state`: the executable is kept as
    /// long as the id is the same.
    ///
    /// # Errors
    ///
    /// See [`MachineSpaceError`]. The session stays in its state.
    pub fn observe(
        &mut self,
        space: MachineSpace,
        session: &mut dyn Session,
        state: StateId,
    ) -> Result<Value, MachineSpaceError> {
        let flag = |is_set: bool| Ok(Value::Int(is_set.into()));
        match space {
            MachineSpace::Runtime => self.run_times(session, state),
            MachineSpace::Buildtime => self.build_times(session, state),
            MachineSpace::IsBuildable => flag(self.benchmark.execution.is_some()),
            MachineSpace::IsRunnable => flag(self.is_runnable()),
            MachineSpace::TextSizeBytes
            | MachineSpace::TextSizeO0
            | MachineSpace::TextSizeO3
            | MachineSpace::TextSizeOz => self.text_size(space, session, state),
            MachineSpace::CpuInfo => Ok(Value::Text(CPU_INFO.clone())),
            MachineSpace::BitcodeFile => self.file(session),
            MachineSpace::Flops => self.speed(session),
        }
    }

    /// Builds the program as it came, by its build command, which needs no session.
    ///
    /// # Errors
    ///
    /// See [`MachineSpaceError`]; a program without such a command is
    /// [`ExecutionError::WrongCode`].
    pub fn build_as_it_came(&self) -> Result<Executable, MachineSpaceError> {
        if self.interrupt.is_raised() {
            return Err(SessionError::Interrupted.into());
        }
        let program = ExecutableCode::Program(&self.benchmark.program);
        Ok(Executable::build(self.execution()?, program, &self.settings)?)
    }

    fn is_runnable(&self) -> bool {
        self.benchmark.execution.as_ref().is_some_and(|execution| execution.run.is_some())
    }

    fn execution(&self) -> Result<&Execution, MachineSpaceError> {
        let execution = self.benchmark.execution.as_ref();
        execution.ok_or_else(|| MachineSpaceError::NotBuildable(self.benchmark.uri.clone()))
    }

    /// How long runs take, in seconds, that do what the program does untouched.
    fn run_times(
        &mut self,
        session: &mut dyn Session,
        state: StateId,
    ) -> Result<Value, MachineSpaceError> {
        if !self.is_runnable() {
            return Err(MachineSpaceError::NotRunnable(self.benchmark.uri.clone()));
        }
        let oracle = self.oracle()?;
        let (RepetitionCounts { runtimes, warmups, .. }, interrupt) =
            (self.counts, self.interrupt.clone());
        let executable = self.executable(session, state)?;
        let mut times = Vec::new();
        let count = u64::from(warmups) + u64::from(runtimes);
        let taken = executable.runs(count, &mut |run| {
            times.push(oracle.time_of(&run)?.as_secs_f64());
            if interrupt.is_raised() { Err(ExecutionError::Stopped) } else { Ok(()) }
        });
        match taken {
            Err(ExecutionError::Stopped) => Err(SessionError::Interrupted.into()),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(Value::FloatVector(times.split_off(warmups as usize).into())),
        }
    }

    /// What the program has to do. It is built and run untouched for that, once.
    fn oracle(&mut self) -> Result<Arc<Oracle>, MachineSpaceError> {
        if let Some(known) = &self.oracle {
            return Ok(Arc::clone(known));
        }
        let code = self.code(self.untouched()?.as_mut())?;
        let oracle = Oracle::of(self.execution()?, &code, &self.settings, &self.interrupt)?;
        let oracle = oracle.for_times()?.with_run_limit(self.settings.run_limit);
        Ok(Arc::clone(self.oracle.insert(Arc::new(oracle))))
    }

    /// How long builds take, in seconds.
    fn build_times(
        &mut self,
        session: &mut dyn Session,
        state: StateId,
    ) -> Result<Value, MachineSpaceError> {
        let mut times = Vec::new();
        for _ in 0..self.counts.buildtimes {
            let executable = self.build(session)?;
            times.push(executable.build_time().as_secs_f64());
            self.executable = Some((state, executable));
        }
        Ok(Value::FloatVector(times.into()))
    }

    /// The size in a space of sizes.
    fn text_size(
        &mut self,
        space: MachineSpace,
        session: &mut dyn Session,
        state: StateId,
    ) -> Result<Value, MachineSpaceError> {
        if self.benchmark.execution.is_none() {
            let object =
                self.environment.spec().observation_index(&format!("Object{}", space.name()));
            return Ok(session.observe(object.ok_or_else(|| self.no_code())?)?);
        }
        let pipeline = match space {
            MachineSpace::TextSizeO0 => None,
            MachineSpace::TextSizeO3 => Some("-O3"),
            MachineSpace::TextSizeOz => Some("-Oz"),
            _ => return Ok(Value::Int(text_size_of(self.executable(session, state)?)?)),
        };
        if let Some(&known) = self.sizes.get(&space) {
            return Ok(Value::Int(known));
        }
        let size = self.size_after(pipeline)?;
        self.sizes.insert(space, size);
        Ok(Value::Int(size))
    }

    /// The size of the program after a pipeline; without one, of the program untouched.
    fn size_after(&self, pipeline: Option<&'static str>) -> Result<i64, MachineSpaceError> {
        let spec = self.environment.spec();
        let place = |name| {
            let environment = spec.name.to_string();
            let missing = MachineSpaceError::NoPipeline { environment, pipeline: name };
            pipeline_index(spec, name).ok_or(missing).map(|place| (name, place))
        };
        let pipeline = pipeline.map(place).transpose()?;
        let mut session = self.untouched()?;
        if let Some((pipeline, place)) = pipeline
            && let Outcome::Crashed(failure) = session.apply(place)?.outcome
        {
            return Err(MachineSpaceError::CompilerFailed { pipeline, failure });
        }
        text_size_of(&self.build(session.as_mut())?)
    }

    /// A session in the program's first state, whose actions are LLVM's own pipelines.
    fn untouched(&self) -> Result<Box<dyn Session>, MachineSpaceError> {
        let mut session = self.environment.session()?;
        session.start(&Start {
            benchmark: &self.benchmark,
            action_space: PIPELINES,
            baselines: Some(&self.environment.spec().zero_baselines()),
            watch: &Watch::default(),
        })?;
        Ok(session)
    }

    /// The executable of a state, which is that of the session.
    fn executable(
        &mut self,
        session: &mut dyn Session,
        state: StateId,
    ) -> Result<&Executable, MachineSpaceError> {
        let executable = match self.executable.take() {
            Some((of, known)) if of == state => known,
            _ => self.build(session)?,
        };
        Ok(&self.executable.insert((state, executable)).1)
    }

    /// Builds the present state of a session.
    fn build(&self, session: &mut dyn Session) -> Result<Executable, MachineSpaceError> {
        if self.interrupt.is_raised() {
            return Err(SessionError::Interrupted.into());
        }
        let (execution, code) = (self.execution()?, self.code(session)?);
        Ok(Executable::build(
            execution,
            ExecutableCode::of(&execution.build, &code),
            &self.settings,
        )?)
    }

    /// The code of the present state of a session that the program's build takes.
    fn code(&self, session: &mut dyn Session) -> Result<Vec<u8>, MachineSpaceError> {
        let spec = self.environment.spec();
        let space = match self.execution()?.build {
            Build::Link { .. } => spec.object_index().ok_or_else(|| self.no_code())?,
            Build::Command(_) => spec.state_index(),
        };
        Ok(bytes(session, space)?)
    }

    /// How many operations of a schedule are done in a nanosecond: that of the median of samples.
    fn speed(&self, session: &mut dyn Session) -> Result<Value, MachineSpaceError> {
        if self.interrupt.is_raised() {
            return Err(SessionError::Interrupted.into());
        }
        let text = bytes(session, self.environment.spec().state_index())?;
        let state = loops::LoopsState::parse(&text).map_err(|_other| self.no_code())?;
        let failed = |error: KernelError| match error {
            KernelError::Execution(error) => MachineSpaceError::from(error),
            error => MachineSpaceError::Kernel(error.to_string()),
        };
        let kernel = BuiltKernel::build(&state, &self.settings).map_err(failed)?;
        let timing = Timing {
            seed: NUMBER.fetch_add(1, Ordering::Relaxed),
            threads: Timing::threads(&self.settings),
            warmups: SPEED_WARMUPS,
            samples: SPEED_SAMPLES,
        };
        let seconds = median(&kernel.run(&timing).map_err(failed)?);
        let operations = i64::try_from(Costs::new(&state).operations()).unwrap_or(i64::MAX);
        Ok(Value::Float(as_f64(operations) / seconds * 1e-9))
    }

    fn no_code(&self) -> MachineSpaceError {
        MachineSpaceError::NoCode(nothing_to_run(self.environment.spec()))
    }

    /// Writes the present state of a session into a file, and returns its path.
    fn file(&self, session: &mut dyn Session) -> Result<Value, MachineSpaceError> {
        // Bitcode for other tools says more than that of a stored state.
        let spec = self.environment.spec();
        let space = spec.observation_index("Bitcode").unwrap_or_else(|| spec.state_index());
        let state = bytes(session, space)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = self.files.join(format!("module-{}-{number}.bc", std::process::id()));
        let written = File::create_new(&path).and_then(|mut file| file.write_all(&state));
        match written {
            Ok(()) => Ok(Value::Text(path.to_string_lossy().into_owned())),
            Err(source) => Err(MachineSpaceError::File { path, source }),
        }
    }
}

fn text_size_of(executable: &Executable) -> Result<i64, MachineSpaceError> {
    let size = executable.text_size()?;
    i64::try_from(size).map_err(|_large| SessionError::Defect("a size of 2^63 bytes".into()).into())
}

fn bytes(session: &mut dyn Session, space: ObservationIndex) -> Result<Vec<u8>, SessionError> {
    match session.observe(space)? {
        Value::Bytes(bytes) => Ok(bytes),
        _ => Err(SessionError::Defect("a program is not bytes".into())),
    }
}

/// The place of one of LLVM's own pipelines among the actions of [`PIPELINES`].
pub fn pipeline_index(spec: &EnvironmentSpec, name: &str) -> Option<ActionIndex> {
    spec.action_space(PIPELINES)?.index_of(name)
}
