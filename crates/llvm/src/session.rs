//! A session on one live module.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha1::{Digest, Sha1};

use super::codegen::ObjectFile;
use super::engine::{Engine, PipelineEffect};
use super::features::FeatureVectors;
use super::inst2vec;
use super::module::{LocalNames, Module, ModuleError};
use super::node_link::node_link_json;
use super::spaces::{COUNT_O0, CodeGeneration, OBSERVATIONS, Observation, PIPELINES};
#[cfg(test)]
use super::spaces::{COUNT_O3, COUNT_OZ};
use steplake_env::{Session, SessionError, Start, Started};
use steplake_model::{
    ActionIndex, Baselines, EnvironmentSpec, Failure, FailureKind, ObservationIndex, Outcome,
    RewardTracker, StateId, Step, Value, as_f64,
};

/// How many bytes of initial states a session keeps, to save computing them again in the program's
/// next episode. Runs cycle through their programs, so a cache too small for all of them never
/// hits.
const ROOT_BYTES_MAX: usize = 64 << 20;

/// Pipelines that have broken a program which a later action then mended. The check of several
/// steps at once would not notice that, so what these change is checked at once.
const BREAKS: [&str; 1] = ["function(loop-fusion)"];

/// One in this many states has its id computed a second time.
const AUDIT_PERIOD: i64 = 1000;

/// A session of the LLVM environment.
#[derive(Debug)]
pub struct LlvmSession {
    spec: Arc<EnvironmentSpec>,
    engine: Engine,
    /// The initial states; the most recently used comes last.
    roots: Vec<Arc<InitialModule>>,
    episode: Option<LlvmEpisode>,
}

/// What is known of a program before the first step.
#[derive(Debug)]
struct InitialModule {
    /// The BLAKE3 of the benchmark's program.
    program: blake3::Hash,
    /// The initial state in canonical form.
    bitcode: Vec<u8>,
    state: StateId,
    /// The baselines, if measured here.
    baselines: OnceLock<Baselines>,
    /// The sizes of machine code after these pipelines, as far as they were asked for.
    sizes: Mutex<Vec<(Option<&'static str>, i64)>>,
}

/// An episode under way.
#[derive(Debug)]
struct LlvmEpisode {
    /// The index of the action space.
    space: usize,
    root: Arc<InitialModule>,
    program: Module,
    state: StateId,
    baselines: Baselines,
    tracker: RewardTracker,
    /// The features of the present state, once asked for.
    features: Option<FeatureVectors>,
}

impl LlvmSession {
    /// Creates a session without an episode.
    pub(super) fn new(spec: Arc<EnvironmentSpec>) -> Result<Self, SessionError> {
        let unavailable =
            |detail| SessionError::Unavailable { environment: spec.name.to_string(), detail };
        let engine = Engine::new().map_err(unavailable)?;
        Ok(Self { spec, engine, roots: Vec::new(), episode: None })
    }

    /// Returns a program's initial state, and the program in it.
    fn root(&mut self, program: &[u8]) -> Result<(Arc<InitialModule>, Module), ModuleError> {
        let digest = blake3::hash(program);
        if let Some(place) = self.roots.iter().position(|root| root.program == digest) {
            let root = self.roots.remove(place);
            self.roots.push(Arc::clone(&root));
            let program = Module::revive(&root.bitcode)?;
            return Ok((root, program));
        }
        let mut module = first_state(&self.engine, program)?;
        let root = Arc::new(InitialModule {
            program: digest,
            bitcode: module.write().to_vec(),
            state: module.state_id(),
            baselines: OnceLock::new(),
            sizes: Mutex::default(),
        });
        self.roots.push(Arc::clone(&root));
        let mut bytes: usize = self.roots.iter().map(|root| root.bitcode.len()).sum();
        while bytes > ROOT_BYTES_MAX {
            bytes -= self.roots.remove(0).bitcode.len();
        }
        Ok((root, module))
    }

    /// Returns a program's baselines: those that the caller knows, or those measured here, once.
    fn baselines(
        &mut self,
        known: Option<&Baselines>,
        root: &InitialModule,
        program: &Module,
    ) -> Result<Baselines, ModuleError> {
        if let Some(known) = known.or(root.baselines.get()) {
            return Ok(known.clone());
        }
        let measured = measure_baselines(&mut self.engine, &root.bitcode, program.instructions())?;
        self.engine.renew();
        Ok(root.baselines.get_or_init(|| measured).clone())
    }
}

impl Session for LlvmSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.episode = None;
        self.engine.renew();
        let space = steplake_env::action_space(&self.spec, start.action_space)?;
        let bad_program = |error: ModuleError| SessionError::BadProgram {
            uri: start.benchmark.uri.to_string(),
            detail: error.to_string(),
        };
        let (root, program) = self.root(&start.benchmark.program).map_err(bad_program)?;
        let baselines = self.baselines(start.baselines, &root, &program).map_err(bad_program)?;
        let tracker = steplake_env::reward_tracker(&self.spec, &baselines, |_| {
            as_f64(program.instructions())
        })?;
        let state = root.state;
        let started = Started { state, baselines: baselines.clone() };
        let features = None;
        self.episode =
            Some(LlvmEpisode { space, root, program, state, baselines, tracker, features });
        Ok(started)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        self.step(action, true)
    }

    fn apply_unchecked(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        let spec = steplake_env::action(&self.spec.action_spaces[episode.space], action)?;
        let is_checked = BREAKS.contains(&spec.pipeline.as_str());
        self.step(action, is_checked)
    }

    fn check(&mut self) -> Result<Option<Failure>, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let Err(detail) = episode.program.verify_changes() else { return Ok(None) };
        self.episode = None;
        Ok(Some(Failure { kind: FailureKind::Verifier, detail }))
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let known = OBSERVATIONS.get(usize::from(space.0));
        let &(_, observation) = known.ok_or_else(|| {
            steplake_env::unknown_space(&self.spec, &format!("observation space {}", space.0))
        })?;
        if let Observation::SizeBaseline(name, pipeline) = observation {
            return Ok(Value::Int(match episode.baselines.get(name) {
                Some(size) => size,
                None => episode.root.size(pipeline),
            }));
        }
        Ok(episode.observe(observation))
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        Ok(Module::revive(state).map_err(|error| unreadable(&error))?.state_id())
    }

    fn text(&mut self, state: &[u8]) -> Result<String, SessionError> {
        super::disassemble(state).map_err(|error| unreadable(&error))
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let mut fork = Self::new(Arc::clone(&self.spec))?;
        fork.roots.clone_from(&self.roots);
        fork.episode = Some(episode.fork());
        Ok(Box::new(fork))
    }
}

impl LlvmSession {
    /// Makes a step, whose result the verifier checks if `is_checked`.
    fn step(&mut self, action: ActionIndex, is_checked: bool) -> Result<Step, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let spec = steplake_env::action(&self.spec.action_spaces[episode.space], action)?;
        if spec.pipeline.is_empty() {
            return episode.rest(Duration::ZERO);
        }
        let begin = Instant::now();
        let change = self
            .engine
            .run(&mut episode.program, &spec.pipeline)
            .unwrap_or_else(|error| panic!("action `{}` has a bad pipeline: {error}", spec.name));
        let wall_time = begin.elapsed();
        if change == PipelineEffect::None {
            return episode.rest(wall_time);
        }
        if is_checked && let Some(failure) = self.check()? {
            return Ok(Step::failed(failure, self.spec.reward_spaces.len(), wall_time));
        }
        self.episode.as_mut().ok_or(SessionError::NoEpisode)?.advance(wall_time)
    }
}

impl LlvmEpisode {
    /// Returns a step that changed nothing.
    fn rest(&mut self, wall_time: Duration) -> Result<Step, SessionError> {
        self.audit(self.state)?;
        Ok(self.step(false, self.tracker.rest(), wall_time))
    }

    /// Returns the step to the last run's result.
    fn advance(&mut self, wall_time: Duration) -> Result<Step, SessionError> {
        self.program.canonicalise_changes();
        let state = self.program.state_id();
        let changed = state != self.state;
        if changed {
            self.features = None;
        }
        self.audit(state)?;
        self.state = state;
        // The cost of every reward that is not on request is the instruction count: a test of
        // `spaces.rs` checks it.
        let count = as_f64(self.program.instructions());
        let rewards = self.tracker.advance(|_| count);
        Ok(self.step(changed, rewards, wall_time))
    }

    /// [Proves](Self::prove) one state in [`AUDIT_PERIOD`], after every step that leads to it or
    /// stays in it, so that a missed change is found too.
    fn audit(&mut self, state: StateId) -> Result<(), SessionError> {
        if state.key().rem_euclid(AUDIT_PERIOD) == 0 { self.prove(state) } else { Ok(()) }
    }

    /// Compares the id that was updated from step to step with the one that follows from the
    /// bitcode of the program as it is now.
    fn prove(&mut self, state: StateId) -> Result<(), SessionError> {
        let afresh = Module::revive(self.program.write()).map(|mut program| program.state_id());
        if afresh.as_ref() == Ok(&state) {
            return Ok(());
        }
        let afresh = afresh.map_or_else(|error| error.to_string(), |id| id.to_string());
        Err(SessionError::Defect(format!(
            "the id {state} of a state does not follow from its bitcode ({afresh})"
        )))
    }

    fn step(&self, changed: bool, rewards: Box<[f64]>, wall_time: Duration) -> Step {
        let outcome = Outcome::State {
            id: self.state,
            changed,
            end_of_episode: false,
            action_space_changed: false,
        };
        Step { outcome, rewards, wall_time }
    }

    fn observe(&mut self, observation: Observation) -> Value {
        match observation {
            Observation::Ir => Value::Text(self.program.print()),
            Observation::Bitcode => Value::Bytes(self.program.write_with_use_lists().to_vec()),
            Observation::State => Value::Bytes(self.program.write().to_vec()),
            Observation::IrSha1 => Value::Text(StateId(sha1(self.program.write())).to_string()),
            Observation::InstCount => Value::IntVector(self.features().inst_count.into()),
            Observation::InstCountNorm => {
                Value::FloatVector(self.features().inst_count_norm().into())
            }
            Observation::Autophase => Value::IntVector(self.features().autophase.into()),
            Observation::Programl => Value::Lists(Box::new(self.program.program_graph().into())),
            Observation::IrInstructionCount => Value::Int(self.program.instructions()),
            Observation::ObjectTextSize(generation) => {
                Value::Int(ObjectFile::compile(self.program.write(), generation).text_size())
            }
            Observation::Object(generation) => {
                let object = ObjectFile::compile(self.program.write(), generation);
                Value::Bytes(object.bytes().to_vec())
            }
            Observation::InstrumentedObject(sanitizer) => {
                let object = ObjectFile::instrumented(self.program.write(), sanitizer);
                Value::Bytes(object.bytes().to_vec())
            }
            Observation::SizeBaseline(..) => unreachable!("the session measures it"),
            Observation::Ir2Vec => Value::FloatVector(self.program.embedding().into()),
            Observation::LexedIr => Value::Lists(Box::new(self.program.tokens())),
            Observation::Inst2VecText => Value::TextList(self.statements()),
            Observation::Inst2VecIndices => {
                Value::IntVector(inst2vec::numbers(&self.statements()).into())
            }
            Observation::Inst2Vec => {
                let numbers = inst2vec::numbers(&self.statements());
                Value::FloatVector(inst2vec::embeddings(&numbers).into())
            }
            Observation::ProgramlJson => Value::Text(node_link_json(&self.program.program_graph())),
            Observation::Baseline(name) => {
                let baseline = self.baselines.get(name);
                Value::Int(baseline.expect("an episode begins with all baselines"))
            }
        }
    }

    fn statements(&mut self) -> Vec<String> {
        inst2vec::statements(&self.program.typed_text())
    }

    fn features(&mut self) -> &FeatureVectors {
        self.features.get_or_insert_with(|| self.program.features())
    }

    /// Forks the episode by way of the state's bitcode.
    fn fork(&mut self) -> Self {
        let program = Module::revive(self.program.write()).expect("LLVM reads what it has written");
        Self {
            space: self.space,
            root: Arc::clone(&self.root),
            program,
            state: self.state,
            baselines: self.baselines.clone(),
            tracker: self.tracker.clone(),
            features: self.features.clone(),
        }
    }
}

pub(super) fn sha1(bytes: &[u8]) -> [u8; 20] {
    Sha1::digest(bytes).into()
}

/// Returns the state in which a program's episodes begin.
///
/// A program from outside may hold more than bitcode can. Writing and reading it once drops that,
/// so that the initial state comes back unchanged from its bitcode, as all others do.
pub(super) fn first_state(engine: &Engine, program: &[u8]) -> Result<Module, ModuleError> {
    let mut outside = Module::parse(program, LocalNames::Drop)?;
    outside.adopt(engine.machine())?;
    outside.canonicalise();
    let bitcode = outside.write().to_vec();
    let mut first = Module::parse(&bitcode, LocalNames::Drop)?;
    first.canonicalise();
    Ok(first)
}

/// The error for a stored state that is not one.
fn unreadable(error: &ModuleError) -> SessionError {
    SessionError::BadProgram { uri: "a stored state".to_owned(), detail: error.to_string() }
}

/// Measures what the compiler's own pipelines make of a program.
fn measure_baselines(
    engine: &mut Engine,
    bitcode: &[u8],
    untouched: i64,
) -> Result<Baselines, ModuleError> {
    let mut baselines = vec![(COUNT_O0.to_owned(), untouched)];
    for (name, pipeline) in PIPELINES {
        baselines.push((name.to_owned(), after(engine, bitcode, pipeline)?.instructions()));
    }
    Ok(Baselines(baselines))
}

/// What one of the compiler's own pipelines makes of a program.
fn after(engine: &mut Engine, bitcode: &[u8], pipeline: &str) -> Result<Module, ModuleError> {
    let mut program = Module::revive(bitcode)?;
    let change = engine.run(&mut program, pipeline).expect("LLVM knows its default pipelines");
    if change == PipelineEffect::Some {
        program.canonicalise_changes();
    }
    Ok(program)
}

impl InitialModule {
    /// The size of machine code after a pipeline. LLVM ends the process if it fails on either.
    fn size(&self, pipeline: Option<&'static str>) -> i64 {
        let mut sizes = self.sizes.lock();
        if let Some(&(_, size)) = sizes.iter().find(|(known, _)| *known == pipeline) {
            return size;
        }
        let generation = CodeGeneration::O0;
        let object = match pipeline {
            None => ObjectFile::compile(&self.bitcode, generation),
            Some(pipeline) => {
                // The engine of the session keeps what it knows of the present state.
                let mut engine = Engine::new().expect("what could be set up once can be again");
                let program = after(&mut engine, &self.bitcode, pipeline);
                let mut program = program.expect("LLVM reads what it has written");
                ObjectFile::compile(program.write(), generation)
            }
        };
        sizes.push((pipeline, object.text_size()));
        object.text_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LlvmEnvironment, assemble};
    use steplake_env::{Environment, Watch};
    use steplake_model::{Benchmark, Provenance};

    #[test]
    fn a_state_whose_program_changed_unnoticed_is_a_defect() {
        let program = assemble(include_bytes!("tests/everything.ll")).unwrap().into();
        let uri = "file:///everything.ll".parse().unwrap();
        let benchmark =
            Benchmark { uri, program, provenance: Provenance::default(), execution: None };
        let environment = LlvmEnvironment::new();
        let mut session = LlvmSession::new(Arc::new(environment.spec().clone())).unwrap();
        let names = [COUNT_O0, COUNT_O3, COUNT_OZ];
        let baselines = Baselines(names.map(|name| (name.to_owned(), 1)).into());
        let (baselines, watch) = (Some(&baselines), Watch::default());
        let action_space = "llvm22-v1";
        let start = Start { benchmark: &benchmark, action_space, baselines, watch: &watch };
        let state = session.start(&start).unwrap().state;
        let episode = session.episode.as_mut().unwrap();
        episode.prove(state).unwrap();
        episode.program.mutate(0).unwrap();
        let error = episode.prove(state).unwrap_err();
        assert!(matches!(&error, SessionError::Defect(_)), "{error}");
    }
}
