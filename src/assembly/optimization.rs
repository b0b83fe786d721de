//! A program made smaller within a budget of compilations: what `steplake optimize` does.

use std::io::Write as _;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::catalogue::{Catalogue, inputs_folder};
use super::command_error::{Code, CommandError};
use super::environments::{environment, live, worker_config};
use super::known_sequences::known_sequences;
use super::program_under_test::{PIPELINES, pipeline_index};
use super::recording::{Keyframes, RunEnding, RunRequest, record_run};
use crate::datasets::{Cache, compiled_for_size};
use crate::env::worker::Interrupt;
use crate::env::{Environment, Session, SessionError, Start, Watch};
use crate::generate::{Policy, Programs as _, Progress, Stop};
use crate::lake::{Lake, LakeError};
use crate::model::{
    ActionIndex, Benchmark, BenchmarkUri, EnvironmentSpec, Outcome, Value, opt_command,
};
use crate::semantics::{Validation, validate};

/// The most actions of a sequence: fewer than `-Oz` runs passes on a function.
const LENGTH_MAX: u32 = 256;

/// The distance of the states whose IR is kept. The others are made again when somebody asks.
const KEYFRAMES: u32 = 32;

/// What shall be small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// The instructions of the IR.
    Ir,
    /// The bytes of code and constants in the object file, as LLVM's code generation makes it.
    Size,
}

impl Goal {
    /// Returns the observation space of its costs, and those after `-Oz` and `-O3`.
    fn spaces(self) -> [&'static str; 3] {
        match self {
            Self::Ir => ["IrInstructionCount", "IrInstructionCountOz", "IrInstructionCountO3"],
            Self::Size => ["ObjectTextSizeBytes", "ObjectTextSizeOz", "ObjectTextSizeO3"],
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
    /// Fixes every choice.
    pub seed: i64,
}

/// What came of it.
#[derive(Debug)]
pub struct Optimized {
    /// The program.
    pub uri: BenchmarkUri,
    /// What it costs untouched, after `-Oz` and after `-O3`.
    pub before: i64,
    /// After `-Oz`.
    pub oz: i64,
    /// After `-O3`.
    pub o3: i64,
    /// After the actions that were found.
    pub after: i64,
    /// The names of these actions. None if nothing is smaller than what `-Oz` makes, which then is
    /// the result.
    pub actions: Option<Vec<String>>,
    /// The command of `opt` that makes it.
    pub command: String,
    /// The result as bitcode.
    pub bitcode: Vec<u8>,
    /// The result as an object file.
    pub object: Vec<u8>,
    /// Whether the program was run, and does what it does untouched.
    pub is_checked: bool,
    /// What limits the check.
    pub remarks: Vec<String>,
    /// Sequences that were smaller, but changed what the program does: how, one line each.
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
    let [cost, oz, _] = request.goal.spaces();
    let there = match Lake::open(lake) {
        Ok(lake) => Some(lake),
        Err(LakeError::NotFound { .. } | LakeError::NotALake { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let action_space = match &there {
        Some(lake) => lake.identity().action_space.clone(),
        None => here.spec().action_spaces[0].clone(),
    };
    let coreset = known_sequences(there, &action_space, cost, oz)?;
    let run = RunRequest {
        policy: Policy::Coreset,
        objective: Some(cost.to_owned()),
        coreset: Some(Arc::new(coreset)),
        episode_length: LENGTH_MAX,
        keyframes: Some(Keyframes(NonZeroU32::new(KEYFRAMES))),
        seed: request.seed,
        ..RunRequest::new([uri.as_str()], Stop::Episodes(request.budget))
    };
    let done = record_run(lake, &run, progress, interrupt)?;
    if done.ending == RunEnding::Interrupted {
        let said = "interrupted: what was tried is in the lake, and the next call begins with it";
        return Err(CommandError::new(Code::Interrupted, said));
    }
    let finish = Finish {
        environment: live(here, config.clone()),
        space: action_space.name,
        source: catalogue.source(&uri),
        benchmark: catalogue.load(&uri)?,
        named: catalogue.load(&named)?,
        goal: request.goal,
        interrupt: config.interrupt,
    };
    finish.run(progress, &uri)
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

/// Returns the program that is optimised: of a file of C or C++ bitcode in the cache, whose functions
/// are marked as `clang -Oz` marks them; any other program as it is.
fn marked_for_size(
    named: &BenchmarkUri,
    catalogue: &Catalogue,
) -> Result<BenchmarkUri, CommandError> {
    if named.scheme() != "file" {
        return Ok(named.clone());
    }
    let path = Path::new("/").join(named.path());
    let Some(bitcode) = compiled_for_size(&path)? else { return Ok(named.clone()) };
    let root = Cache::default_root(|name| std::env::var_os(name))?;
    let digest = blake3::hash(&bitcode).to_hex();
    let folder = Cache::new(root).folder("optimize")?.join(&digest[..32]);
    let kept = folder.join(path.with_extension("bc").file_name().unwrap_or_default());
    if !kept.exists() {
        // A program appears whole, or not at all.
        std::fs::create_dir_all(&folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&folder)?;
        file.write_all(&bitcode)?;
        file.persist(&kept).map_err(|error| error.error)?;
    }
    catalogue.one(&format!("file://{}", kept.display()))
}

/// What is done with what the search has found.
struct Finish {
    environment: Box<dyn Environment>,
    space: String,
    source: Option<String>,
    benchmark: Benchmark,
    /// The program that the user has named. It is another one if its functions were marked.
    named: Benchmark,
    goal: Goal,
    interrupt: Interrupt,
}

impl Finish {
    fn run(self, progress: &Progress, uri: &BenchmarkUri) -> Result<Optimized, CommandError> {
        let spec = self.environment.spec();
        let [cost, oz, o3] = self.goal.spaces();
        let mut untouched = self.start(&self.named, &self.space)?;
        let before = number(untouched.as_mut(), spec, cost)?;
        let o3 = number(untouched.as_mut(), spec, o3)?;
        let oz = number(self.start(&self.benchmark, &self.space)?.as_mut(), spec, oz)?;
        let mut wrong = Vec::new();
        for actions in progress.best_sequences(uri) {
            let mut session = self.start(&self.benchmark, &self.space)?;
            let Some(actions) = effective(session.as_mut(), &actions)? else { continue };
            let after = number(session.as_mut(), spec, cost)?;
            if after >= oz {
                break;
            }
            let validation = self.validate(&actions)?;
            if !validation.is_okay() {
                let difference = validation.difference.map(|difference| difference.line());
                wrong.extend(difference.or(validation.not_repeated));
                continue;
            }
            let space = spec.action_space(&self.space);
            let specs = actions.iter().filter_map(|&action| space?.get(action));
            let specs: Vec<_> = specs.collect();
            let pipelines = specs.iter().map(|spec| spec.pipeline.as_str());
            return Ok(Optimized {
                uri: self.named.uri.clone(),
                before,
                oz,
                o3,
                after,
                actions: Some(specs.iter().map(|spec| spec.name.clone()).collect()),
                command: opt_command(pipelines.filter(|text| !text.is_empty())),
                bitcode: bytes(session.as_mut(), spec, &spec.state_space)?,
                object: bytes(session.as_mut(), spec, "Object")?,
                is_checked: validation.is_checked,
                remarks: validation.remarks,
                wrong,
            });
        }
        self.as_oz(before, oz, o3, wrong)
    }

    /// Returns what `-Oz` makes.
    fn as_oz(
        self,
        before: i64,
        oz: i64,
        o3: i64,
        wrong: Vec<String>,
    ) -> Result<Optimized, CommandError> {
        let spec = self.environment.spec();
        let mut session = self.start(&self.benchmark, PIPELINES)?;
        let place = pipeline_index(spec, "-Oz");
        let place = place.ok_or_else(|| CommandError::new(Code::Failed, "there is no -Oz here"))?;
        if let Outcome::Crashed(failure) = session.apply(place)?.outcome {
            let said = format!("the compiler failed on -Oz: {}: {}", failure.kind, failure.detail);
            return Err(CommandError::new(Code::Failed, said));
        }
        Ok(Optimized {
            uri: self.named.uri.clone(),
            before,
            oz,
            o3,
            after: oz,
            actions: None,
            command: opt_command(["default<Oz>"].into_iter()),
            bitcode: bytes(session.as_mut(), spec, &spec.state_space)?,
            object: bytes(session.as_mut(), spec, "Object")?,
            is_checked: false,
            remarks: vec!["what -Oz makes was not run".to_owned()],
            wrong,
        })
    }

    fn start(
        &self,
        benchmark: &Benchmark,
        action_space: &str,
    ) -> Result<Box<dyn Session>, CommandError> {
        let mut session = self.environment.session()?;
        let watch = &Watch::default();
        session.start(&Start { benchmark, action_space, baselines: None, watch })?;
        Ok(session)
    }

    /// Plays the actions twice, and runs the program if somebody says how.
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
        other => Err(SessionError::Defect(format!("{name} is {other:?} and no number"))),
    }
}

fn bytes(
    session: &mut dyn Session,
    spec: &EnvironmentSpec,
    name: &str,
) -> Result<Vec<u8>, SessionError> {
    match observed(session, spec, name)? {
        Value::Bytes(bytes) => Ok(bytes),
        _ => Err(SessionError::Defect(format!("{name} is no bytes"))),
    }
}
