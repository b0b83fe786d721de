//! One live module.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sha1::{Digest, Sha1};

use super::engine::{Change, Engine};
use super::environment::NAME;
use super::features::Features;
use super::program::{LocalNames, Program, ProgramError};
use super::spaces::{COUNT_O0, COUNT_O3, COUNT_OZ, OBSERVATIONS, Observation};
use crate::env::{self, Session, SessionError, Start, Started, Visit, step_by_step};
use crate::model::{
    ActionIndex, Baselines, EnvironmentSpec, Failure, FailureKind, ObservationIndex, Outcome,
    RewardTracker, StateId, Step, Value,
};

/// The bytes of initial states that a session keeps, so that the next episode of a program need not find its
/// own out again. Runs go round their programs, so a cache that is too small for them never hits.
const ROOT_BYTES_MAX: usize = 64 << 20;

/// A session of the LLVM environment.
#[derive(Debug)]
pub struct LlvmSession {
    spec: Arc<EnvironmentSpec>,
    engine: Engine,
    /// The most recently used last.
    roots: Vec<Arc<Root>>,
    episode: Option<Episode>,
}

/// What there is to know of a program before the first step.
#[derive(Debug)]
struct Root {
    /// SHA-1 of the program as the benchmark has it.
    program: StateId,
    /// The initial state, canonical.
    bitcode: Vec<u8>,
    state: StateId,
    baselines: Baselines,
}

/// An episode under way.
#[derive(Debug)]
struct Episode {
    /// Index of the action space.
    space: usize,
    program: Program,
    state: StateId,
    baselines: Baselines,
    tracker: RewardTracker,
    /// Those of the present state, once asked for.
    features: Option<Features>,
}

impl LlvmSession {
    /// A session without an episode.
    pub(super) fn new(spec: Arc<EnvironmentSpec>) -> Result<Self, SessionError> {
        let engine = Engine::new()
            .map_err(|detail| SessionError::Unavailable { environment: NAME, detail })?;
        Ok(Self { spec, engine, roots: Vec::new(), episode: None })
    }

    /// The initial state of a program, and the program in it where that had to be found out just now.
    fn root(&mut self, start: &Start<'_>) -> Result<(Arc<Root>, Option<Program>), ProgramError> {
        let program = identify(&start.benchmark.program);
        if let Some(place) = self.roots.iter().position(|root| root.program == program) {
            let root = self.roots.remove(place);
            self.roots.push(Arc::clone(&root));
            return Ok((root, None));
        }
        let module = first_state(&self.engine, &start.benchmark.program)?;
        let bitcode = module.written().to_vec();
        let state = identify(&bitcode);
        let baselines = match start.baselines {
            Some(known) => known.clone(),
            None => measure_baselines(&mut self.engine, &bitcode, module.instructions())?,
        };
        let root = Arc::new(Root { program, bitcode, state, baselines });
        self.roots.push(Arc::clone(&root));
        let mut bytes: usize = self.roots.iter().map(|root| root.bitcode.len()).sum();
        while bytes > ROOT_BYTES_MAX {
            bytes -= self.roots.remove(0).bitcode.len();
        }
        Ok((root, Some(module)))
    }
}

impl Session for LlvmSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.episode = None;
        let space = env::action_space(&self.spec, start.action_space)?;
        let bad_program = |error: ProgramError| SessionError::BadProgram {
            uri: start.benchmark.uri.to_string(),
            detail: error.to_string(),
        };
        let (root, program) = self.root(start).map_err(bad_program)?;
        let program = match program {
            Some(program) => program,
            None => Program::revive(&root.bitcode).map_err(bad_program)?,
        };
        let baselines = root.baselines.clone();
        let tracker = env::reward_tracker(&self.spec, &baselines, program.instructions())?;
        let state = root.state;
        let started = Started { state, baselines: baselines.clone() };
        self.episode = Some(Episode { space, program, state, baselines, tracker, features: None });
        Ok(started)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let spec = env::action(&self.spec.action_spaces[episode.space], action)?;
        if spec.pipeline.is_empty() {
            return Ok(episode.rest(Duration::ZERO));
        }
        let begin = Instant::now();
        let change = self
            .engine
            .run(&mut episode.program, &spec.pipeline)
            .unwrap_or_else(|error| panic!("action `{}` has a bad pipeline: {error}", spec.name));
        let wall_time = begin.elapsed();
        if change == Change::None {
            return Ok(episode.rest(wall_time));
        }
        if let Err(detail) = episode.program.verify_changes() {
            self.episode = None;
            let failure = Failure { kind: FailureKind::Verifier, detail };
            return Ok(Step::failed(failure, self.spec.reward_spaces.len(), wall_time));
        }
        Ok(episode.advance(wall_time))
    }

    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut Visit<'_>,
    ) -> Result<(), SessionError> {
        step_by_step(self, actions, visit)
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let known = OBSERVATIONS.get(usize::from(space.0));
        let &(_, observation) = known.ok_or_else(|| {
            env::unknown_space(&self.spec, &format!("observation space {}", space.0))
        })?;
        Ok(episode.observe(observation))
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let mut fork = Self::new(Arc::clone(&self.spec))?;
        fork.roots.clone_from(&self.roots);
        fork.episode = Some(episode.fork());
        Ok(Box::new(fork))
    }
}

impl Episode {
    /// A step that changed nothing.
    fn rest(&self, wall_time: Duration) -> Step {
        self.step(false, self.tracker.rest(), wall_time)
    }

    /// A step to what the last run has made of the program.
    fn advance(&mut self, wall_time: Duration) -> Step {
        self.program.settle();
        let state = identify(self.program.write());
        let changed = state != self.state;
        if changed {
            self.features = None;
        }
        self.state = state;
        let rewards = self.tracker.advance(self.program.instructions());
        self.step(changed, rewards, wall_time)
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
            Observation::Bitcode => Value::Bytes(self.program.written().to_vec()),
            Observation::IrSha1 => Value::Text(self.state.to_string()),
            Observation::InstCount => Value::Vector(self.features().inst_count.into()),
            Observation::Autophase => Value::Vector(self.features().autophase.into()),
            Observation::IrInstructionCount => Value::Scalar(self.program.instructions()),
            Observation::Baseline(name) => {
                let baseline = self.baselines.get(name);
                Value::Scalar(baseline.expect("an episode begins with all baselines"))
            }
        }
    }

    fn features(&mut self) -> &Features {
        self.features.get_or_insert_with(|| self.program.features())
    }

    /// A second one in the same state, by way of the state's bitcode.
    fn fork(&self) -> Self {
        let program =
            Program::revive(self.program.written()).expect("LLVM reads what it has written");
        Self {
            space: self.space,
            program,
            state: self.state,
            baselines: self.baselines.clone(),
            tracker: self.tracker.clone(),
            features: self.features.clone(),
        }
    }
}

/// The name of a state, or of any bytes.
pub(super) fn identify(bytes: &[u8]) -> StateId {
    StateId(Sha1::digest(bytes).into())
}

/// The state that episodes of a program begin in.
///
/// What a program from outside holds beyond what bitcode can is lost by writing and reading it once, so
/// that the initial state is, like all others, one that comes back the same from its bitcode.
pub(super) fn first_state(engine: &Engine, program: &[u8]) -> Result<Program, ProgramError> {
    let mut outside = Program::parse(program, LocalNames::Drop)?;
    outside.adopt(engine)?;
    outside.canonicalise();
    let bitcode = outside.write().to_vec();
    let mut first = Program::parse(&bitcode, LocalNames::Drop)?;
    first.canonicalise();
    first.write();
    Ok(first)
}

/// What the compiler's own pipelines make of a program.
fn measure_baselines(
    engine: &mut Engine,
    bitcode: &[u8],
    untouched: i64,
) -> Result<Baselines, ProgramError> {
    let mut baselines = vec![(COUNT_O0.to_owned(), untouched)];
    for (name, pipeline) in [(COUNT_O3, "default<O3>"), (COUNT_OZ, "default<Oz>")] {
        let mut program = Program::revive(bitcode)?;
        let change = engine.run(&mut program, pipeline).expect("LLVM knows its default pipelines");
        if change == Change::Some {
            program.settle();
        }
        baselines.push((name.to_owned(), program.instructions()));
    }
    Ok(Baselines(baselines))
}
