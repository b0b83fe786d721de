//! A program made smaller within a budget of compilations: what `steplake optimize` does.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::catalogue::{Catalogue, inputs_folder};
use super::command_error::{Code, CommandError};
use super::environments::{action_space, environment, live, worker_config};
use super::known_sequences::known_sequences;
use super::program_under_test::{PIPELINES, pipeline_index};
use super::recording::{Keyframes, RunEnding, RunRequest, existing, record_run};
use crate::datasets::{Cache, compiled_for_size};
use crate::env::worker::Interrupt;
use crate::env::{Environment, Session, SessionError, Start, Watch};
use crate::generate::{Policy, Programs as _, Progress, Stop};
use crate::lake::Lake;
use crate::model::{
    ActionIndex, Benchmark, BenchmarkUri, EnvironmentSpec, Outcome, Value, as_f64, opt_command,
};
use crate::semantics::{Validation, validate};

/// The most actions of a sequence. `-Oz` runs some 250 passes.
const LENGTH_MAX: u32 = 256;

/// The distance of the states whose IR is kept. The others are made again when somebody asks.
const KEYFRAMES: u32 = 32;

/// The observation space of the result as an object file.
const OBJECT: &str = "ObjectCodegenOz";

/// The most results that are checked, until one is right.
const CHECKED_MAX: usize = 8;

/// What shall be small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// The instructions of the IR.
    Ir,
    /// The bytes of code and constants in the object file, with code generation for functions that
    /// are marked as those of `clang -Oz`.
    Size,
}

impl Goal {
    /// Returns the observation space of its costs.
    fn cost(self) -> &'static str {
        match self {
            Self::Ir => "IrInstructionCount",
            Self::Size => "ObjectTextSizeBytesCodegenOz",
        }
    }

    /// Returns what is counted.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Ir => "instructions",
            Self::Size => "bytes",
        }
    }
}

/// What to optimise, and how.
#[derive(Debug, Clone)]
pub struct OptimizeRequest {
    /// The program: a file, or the URI of a benchmark.
    pub program: String,
    /// What shall be small.
    pub goal: Goal,
    /// How many sequences are tried.
    pub budget: u64,
    /// The seed of all choices.
    pub seed: i64,
}

/// What a program costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Untouched.
    pub before: i64,
    /// After `-Oz`.
    pub oz: i64,
    /// After `-O3`.
    pub o3: i64,
}

impl Figures {
    /// Returns the one of LLVM's own pipelines whose result is smaller, and its cost. That of `-O3`
    /// counts only if it is of `the_same_program` as that of `-Oz`.
    fn smaller(self, the_same_program: bool) -> (&'static str, i64) {
        if the_same_program && self.o3 < self.oz { ("-O3", self.o3) } else { ("-Oz", self.oz) }
    }
}

/// A result.
#[derive(Debug)]
pub struct Found {
    /// What it costs.
    pub after: i64,
    /// The names of the actions that make it.
    pub actions: Vec<String>,
    /// Whether the program was run, and does what it does untouched.
    pub is_checked: bool,
    /// What limits the check, or why there is none.
    pub remarks: Vec<String>,
}

/// What came of a search.
#[derive(Debug)]
pub struct Optimized {
    /// The program as the lake has it: of a file of C or C++, bitcode in the cache, whose functions
    /// are marked as `clang -Oz` marks them.
    pub uri: BenchmarkUri,
    /// What the program costs. After `-O3`, a file of C or C++ is not marked.
    pub figures: Figures,
    /// What is smaller than what LLVM's own pipelines make. If there is nothing, the result is that
    /// of `pipeline`.
    pub found: Option<Found>,
    /// The smaller one of `-Oz` and `-O3`; of a file of C or C++ `-Oz`.
    pub pipeline: &'static str,
    /// The command of `opt` that makes the result of the program.
    pub command: String,
    /// The result as bitcode.
    pub bitcode: Vec<u8>,
    /// The result as an object file, with the code generation of [`Goal::Size`].
    pub object: Vec<u8>,
    /// Smaller programs that do something else: how they differ, one line each.
    pub wrong: Vec<String>,
}

/// Looks for a sequence of passes that makes a program small, records what it tries in the lake at
/// `lake`, which is made if there is none, and checks what it found. The lake's own sequences are
/// tried too.
///
/// # Errors
///
/// If there is no such program, the lake cannot be recorded into, the compiler cannot start the
/// program, or `interrupt` is set. What was recorded stays.
pub fn optimize(
    lake: &Path,
    request: &OptimizeRequest,
    progress: &Progress,
    interrupt: &Arc<AtomicBool>,
) -> Result<Optimized, CommandError> {
    let here = environment(crate::env::DEFAULT)?;
    let mut config = worker_config();
    let interrupted = Arc::clone(interrupt);
    config.interrupt = Interrupt::new(move || interrupted.load(Ordering::Relaxed));
    let catalogue = Catalogue::of(here.as_ref(), &config)?;
    let named = catalogue.one(&uri_of(&request.program)?)?;
    let uri = marked_for_size(&named, &catalogue)?;
    let there = existing(lake)?;
    let identity = there.as_ref().map(Lake::identity);
    let of_lake = identity.filter(|identity| identity.environment == here.spec().name);
    let space = action_space(here.spec(), of_lake.map(|lake| lake.action_space.name.as_str()))?;
    let cost = request.goal.cost();
    let coreset = known_sequences(there.as_ref(), &space, cost, &uri)?;
    let subject = Subject {
        environment: live(here, config.clone()),
        space: space.name,
        source: catalogue.source(&uri),
        benchmark: catalogue.load(&uri)?,
        goal: request.goal,
        interrupt: config.interrupt,
    };
    // What is wrong with the program shows before a lake is made.
    let figures = subject.figures(&catalogue.load(&named)?)?;
    let run = RunRequest {
        policy: Policy::Coreset,
        objective: Some(cost.to_owned()),
        coreset: Some(Arc::new(coreset)),
        reference: Some(as_f64(figures.oz)),
        episode_length: LENGTH_MAX,
        keyframes: Some(Keyframes(NonZeroU32::new(KEYFRAMES))),
        seed: request.seed,
        ..RunRequest::new([uri.as_str()], Stop::Episodes(request.budget))
    };
    if record_run(lake, &run, progress, interrupt)?.ending == RunEnding::Interrupted {
        let said = "interrupted: what was tried is in the lake, and the next call begins with it";
        return Err(CommandError::new(Code::Interrupted, said));
    }
    let bar = figures.smaller(named == uri);
    subject.result(figures, bar, &progress.best_sequences(&uri))
}

/// Returns the URI of what the user has named.
fn uri_of(program: &str) -> Result<String, CommandError> {
    if program.contains("://") {
        return Ok(program.to_owned());
    }
    let path = std::fs::canonicalize(program)
        .map_err(|error| CommandError::usage(format!("{program} cannot be read: {error}")))?;
    Ok(format!("file://{}", path.display()))
}

/// Returns the file of a program that is one.
fn path_of(uri: &BenchmarkUri) -> Option<PathBuf> {
    (uri.scheme() == "file").then(|| Path::new("/").join(uri.path()))
}

/// Returns the program that is optimised: of a file of C or C++, bitcode in the cache whose
/// functions are marked as `clang -Oz` marks them; any other program as it is.
fn marked_for_size(
    named: &BenchmarkUri,
    catalogue: &Catalogue,
) -> Result<BenchmarkUri, CommandError> {
    let Some(path) = path_of(named) else { return Ok(named.clone()) };
    let cache = Cache::new(Cache::default_root(|name| std::env::var_os(name))?);
    match compiled_for_size(&path, &cache)? {
        Some(bitcode) => catalogue.one(&format!("file://{}", bitcode.display())),
        None => Ok(named.clone()),
    }
}

/// The program that is optimised.
struct Subject {
    environment: Box<dyn Environment>,
    space: String,
    source: Option<String>,
    benchmark: Benchmark,
    goal: Goal,
    interrupt: Interrupt,
}

impl Subject {
    /// Returns what the program costs. `named` is the program that the user has named, whose
    /// functions may have other marks.
    fn figures(&self, named: &Benchmark) -> Result<Figures, CommandError> {
        let (spec, cost) = (self.environment.spec(), self.goal.cost());
        let cost_of = |mut session: Box<dyn Session>| number(session.as_mut(), spec, cost);
        Ok(Figures {
            before: cost_of(self.start(named, &self.space)?)?,
            oz: cost_of(self.after(&self.benchmark, "-Oz")?)?,
            o3: cost_of(self.after(named, "-O3")?)?,
        })
    }

    /// Checks sequences, the best first, and returns the first one that is right.
    fn result(
        &self,
        figures: Figures,
        (pipeline, bar): (&'static str, i64),
        sequences: &[Vec<ActionIndex>],
    ) -> Result<Optimized, CommandError> {
        let spec = self.environment.spec();
        let mut wrong: Vec<(&[ActionIndex], String)> = Vec::new();
        for actions in sequences {
            // What a wrong sequence is continued to is wrong as well.
            let is_wrong = wrong.iter().any(|(prefix, _)| actions.starts_with(prefix));
            if is_wrong || wrong.len() >= CHECKED_MAX {
                continue;
            }
            let mut session = self.start(&self.benchmark, &self.space)?;
            let Some(effective) = effective(session.as_mut(), actions)? else { continue };
            let after = number(session.as_mut(), spec, self.goal.cost())?;
            if after >= bar {
                break;
            }
            let Validation { is_checked, remarks, difference, not_repeated, .. } =
                self.validate(&effective)?;
            let difference = difference.map(|difference| difference.line());
            if let Some(difference) = difference.or(not_repeated) {
                wrong.push((actions, difference));
                continue;
            }
            let space = spec.action_space(&self.space);
            let specs = effective.iter().filter_map(|&action| space?.get(action));
            let specs: Vec<_> = specs.collect();
            let pipelines = specs.iter().map(|spec| spec.pipeline.as_str());
            let command = opt_command(pipelines.filter(|text| !text.is_empty()));
            let actions = specs.iter().map(|spec| spec.name.clone()).collect();
            let found = Some(Found { after, actions, is_checked, remarks });
            let made = (found, pipeline, command);
            return self.optimized(figures, made, session.as_mut(), wrong);
        }
        let mut session = self.after(&self.benchmark, pipeline)?;
        let level = pipeline.trim_start_matches('-');
        let command = opt_command([format!("default<{level}>").as_str()].into_iter());
        self.optimized(figures, (None, pipeline, command), session.as_mut(), wrong)
    }

    /// Returns a result, which is the state of a session.
    fn optimized(
        &self,
        figures: Figures,
        (found, pipeline, command): (Option<Found>, &'static str, String),
        session: &mut dyn Session,
        wrong: Vec<(&[ActionIndex], String)>,
    ) -> Result<Optimized, CommandError> {
        let spec = self.environment.spec();
        let path = path_of(&self.benchmark.uri).map(|path| format!("'{}'", path.display()));
        Ok(Optimized {
            uri: self.benchmark.uri.clone(),
            figures,
            found,
            pipeline,
            command: command.replacen("input.bc", path.as_deref().unwrap_or("input.bc"), 1),
            bitcode: bytes(session, spec, &spec.state_space)?,
            object: bytes(session, spec, OBJECT)?,
            wrong: wrong.into_iter().map(|(_, difference)| difference).collect(),
        })
    }

    /// Returns a session in the state that one of LLVM's own pipelines makes of a program.
    fn after(
        &self,
        benchmark: &Benchmark,
        pipeline: &str,
    ) -> Result<Box<dyn Session>, CommandError> {
        let failed = |said: String| CommandError::new(Code::Failed, said);
        let place = pipeline_index(self.environment.spec(), pipeline);
        let place = place.ok_or_else(|| failed(format!("there is no pipeline {pipeline}")))?;
        let mut session = self.start(benchmark, PIPELINES)?;
        match session.apply(place)?.outcome {
            Outcome::State { .. } => Ok(session),
            Outcome::Crashed(failure) => Err(failed(format!(
                "the compiler failed on {pipeline}: {}: {}",
                failure.kind, failure.detail
            ))),
        }
    }

    fn start(
        &self,
        benchmark: &Benchmark,
        action_space: &str,
    ) -> Result<Box<dyn Session>, CommandError> {
        let mut session = self.environment.session()?;
        // Nobody looks at rewards here, for which the compiler's own pipelines would be run.
        let (zero, watch) = (self.environment.spec().zero_baselines(), &Watch::default());
        session.start(&Start { benchmark, action_space, baselines: Some(&zero), watch })?;
        Ok(session)
    }

    /// Plays actions twice, and runs the program if it is known how.
    fn validate(&self, actions: &[ActionIndex]) -> Result<Validation, CommandError> {
        Ok(validate(
            self.environment.as_ref(),
            &self.space,
            &self.benchmark,
            self.source.clone(),
            inputs_folder(),
            actions,
            self.interrupt.clone(),
        )?)
    }
}

/// Applies actions, and returns those that changed anything; none if the compiler fails on one.
fn effective(
    session: &mut dyn Session,
    actions: &[ActionIndex],
) -> Result<Option<Vec<ActionIndex>>, SessionError> {
    let mut effective = Vec::new();
    for &action in actions {
        match session.apply(action)?.outcome {
            Outcome::State { changed, .. } => effective.extend(changed.then_some(action)),
            Outcome::Crashed(_) => return Ok(None),
        }
    }
    Ok(Some(effective))
}

fn observed(
    session: &mut dyn Session,
    spec: &EnvironmentSpec,
    name: &str,
) -> Result<Value, SessionError> {
    let space = spec.observation_index(name).ok_or_else(|| SessionError::UnknownSpace {
        name: name.to_owned(),
        environment: spec.name.to_string(),
    })?;
    session.observe(space)
}

fn number(
    session: &mut dyn Session,
    spec: &EnvironmentSpec,
    name: &str,
) -> Result<i64, SessionError> {
    match observed(session, spec, name)? {
        Value::Int(number) => Ok(number),
        other => Err(SessionError::Defect(format!("{name} is {other:?}, which is not a number"))),
    }
}

fn bytes(
    session: &mut dyn Session,
    spec: &EnvironmentSpec,
    name: &str,
) -> Result<Vec<u8>, SessionError> {
    match observed(session, spec, name)? {
        Value::Bytes(bytes) => Ok(bytes),
        _ => Err(SessionError::Defect(format!("{name} is not bytes"))),
    }
}
