//! `replay-v0`: an environment without a compiler, whose steps a lake answers.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use steplake::env::worker::WorkerConfig;
use steplake::env::{Environment, SessionError};
use steplake::environments::catalogue::Catalogue;
use steplake::environments::{environment_of_lake, live};
use steplake::lake::{Identity, Lake, SnapshotId};
use steplake::record::EpisodePlan;
use steplake::recording::{SessionOptions, record_sessions};
use steplake::replay::cached::{
    self, CachedEnvironment, CachedOptions, MissingEdge, recorded_spec,
};

use crate::compilers::run::Run;
use crate::compilers::worker::environments;
use crate::interpreter::errors::PendingException;

/// The environment of a lake, and the compiler that is asked for what the lake does not have.
pub(crate) struct Replay {
    pub(crate) cached: Arc<CachedEnvironment>,
    /// The name of the environment that was recorded.
    pub(crate) recorded_name: String,
    live: Option<LiveCompiler>,
}

/// The compiler of a lake, and the run that records its steps into the lake.
struct LiveCompiler {
    environment: Arc<dyn Environment>,
    run: Arc<Run>,
}

/// Which lake answers, and who else.
pub(crate) struct Request {
    pub(crate) lake: PathBuf,
    /// The context, if the lake may have several.
    pub(crate) context: Option<String>,
    pub(crate) snapshot: Option<i64>,
    pub(crate) missing_edge: String,
    /// The limits of the compiler's workers, in the units of [`WorkerConfig`]'s arguments.
    pub(crate) step_cpu_seconds: u64,
    pub(crate) worker_memory_mib: u64,
}

impl Replay {
    /// Reads the transition graph of a lake. With `missing_edge` "live", takes the right to write
    /// to the lake too.
    pub(crate) fn open(request: &Request, config: WorkerConfig) -> Result<Self, PendingException> {
        let lake = Lake::open_one(&request.lake, request.context.as_deref())?;
        let snapshot = Arc::new(match request.snapshot {
            Some(number) => lake.snapshot_at(SnapshotId(number))?,
            None => lake.snapshot()?,
        });
        let identity = lake.identity();
        let recorded_name = identity.environment.clone();
        // Without a compiler, the environment need not be known here: it may be a Python class.
        let spec = match environments().open(&recorded_name) {
            Ok(here) => here.spec().clone(),
            Err(_unknown) => recorded_spec(identity),
        };
        let (missing_edge, live) = match request.missing_edge.as_str() {
            "error" => (MissingEdge::Error, None),
            "stay" => (MissingEdge::Stay, None),
            "live" => {
                let live = LiveCompiler::begin(request, identity, config)?;
                (MissingEdge::Live(live.sessions()), Some(live))
            }
            other => {
                return Err(PendingException::usage(format!(
                    "at a missing edge there is nothing like {other:?}: write 'error', 'stay' or \
                     'live'"
                )));
            }
        };
        let options = CachedOptions { missing_edge, ..CachedOptions::default() };
        match CachedEnvironment::open(snapshot, &spec, options) {
            Ok(cached) => Ok(Self { cached: Arc::new(cached), recorded_name, live }),
            Err(error) => {
                live.map_or(Ok(()), |live| live.end())?;
                Err(error.into())
            }
        }
    }

    /// The run that records what the compiler does.
    pub(crate) fn run(&self) -> Option<Arc<Run>> {
        self.live.as_ref().map(|live| Arc::clone(&live.run))
    }

    /// Returns the benchmarks to choose from: those of the lake, or with a compiler all programs.
    pub(crate) fn catalogue(&self, config: &WorkerConfig) -> Result<Catalogue, PendingException> {
        if let Some(live) = &self.live {
            return Ok(Catalogue::of(live.environment.as_ref(), config)?);
        }
        Ok(self.recorded())
    }

    /// Returns the benchmarks of the lake.
    pub(crate) fn recorded(&self) -> Catalogue {
        let uris = self.cached.benchmarks().filter_map(|(uri, _)| uri.parse().ok());
        Catalogue::Recorded(uris.collect())
    }

    /// Ends the run, which makes it durable, and closes its sessions.
    pub(crate) fn end(&self) -> Result<(), PendingException> {
        self.live.as_ref().map_or(Ok(()), LiveCompiler::end)
    }
}

impl LiveCompiler {
    fn begin(
        request: &Request,
        lake: &Identity,
        config: WorkerConfig,
    ) -> Result<Self, PendingException> {
        let known = environment_of_lake(lake)
            .map_err(|error| PendingException::new("CompilerUnavailable", error.to_string()))?;
        let environment = Arc::<dyn Environment>::from(live(known, config));
        // What is on request is recorded only if it is named, and what the lake has is wanted.
        let spec = environment.spec();
        let observed = lake.observations.iter().map(|space| space.name.clone());
        let observed = observed.filter(|name| spec.observation_index(name).is_some());
        let known = |name: &str| spec.reward_spaces.iter().any(|space| space.name == name);
        let rewarded = lake.rewards.iter().map(|space| space.name.clone());
        let options = SessionOptions {
            action_space: Some(lake.action_space.name.clone()),
            observe: Some(observed.collect()),
            rewards: Some(rewarded.filter(|name| known(name)).collect()),
            step_cpu_seconds: request.step_cpu_seconds,
            worker_memory_mib: request.worker_memory_mib,
            ..SessionOptions::default()
        };
        let run = record_sessions(&request.lake, environment.as_ref(), &options)?;
        Ok(Self { environment, run: Arc::new(Run::new(run)) })
    }

    fn end(&self) -> Result<(), PendingException> {
        self.run.end(self.environment.as_ref())
    }

    /// Returns a function that opens sessions of the compiler, which are recorded.
    fn sessions(&self) -> cached::SessionOpener {
        let (environment, run) = (Arc::clone(&self.environment), Arc::clone(&self.run));
        Arc::new(move || {
            let session = environment.session()?;
            let recorder = run.with(|run| Ok(run.recording().recorder(session)));
            let mut recorder = recorder.map_err(|failure| SessionError::Unavailable {
                environment: environment.spec().name.to_string(),
                detail: failure.to_string(),
            })?;
            let policy = cached::NAME.to_owned();
            recorder.plan(EpisodePlan { policy, ..EpisodePlan::default() });
            Ok(Box::new(recorder))
        })
    }
}

/// What the sessions of a replayed lake were asked for, and what the lake knows.
#[pyclass(frozen, get_all, module = "steplake")]
pub(crate) struct Coverage {
    /// The steps that the lake answered, recorded failures included.
    from_lake: u64,
    /// The missing edges that were errors.
    refused: u64,
    /// The missing edges at which the state stayed.
    stayed: u64,
    /// The missing edges at which the compiler was asked.
    went_live: u64,
    /// The steps that the compiler answered, including those in states that the lake lacks.
    live_steps: u64,
    /// The steps that the compiler took only to reach the present state.
    replayed_steps: u64,
    /// The states of the lake.
    states: u64,
    /// The pairs of a state and an action whose result the lake knows.
    known_pairs: u64,
    /// All pairs of these states with the actions of the action space.
    all_pairs: u64,
    /// The pairs that led to several states, of which the most frequent one is followed.
    conflicts: u64,
    /// The recorded steps that are not known, because they are newer than the last dedup.
    uncounted_steps: u64,
}

impl Coverage {
    pub(crate) fn of(cached: &CachedEnvironment) -> Result<Self, PendingException> {
        let coverage = cached.coverage();
        Ok(Self {
            from_lake: coverage.from_lake,
            refused: coverage.refused,
            stayed: coverage.stayed,
            went_live: coverage.went_live,
            live_steps: coverage.live_steps,
            replayed_steps: coverage.replayed_steps,
            states: coverage.states,
            known_pairs: coverage.known_pairs,
            all_pairs: coverage.all_pairs,
            conflicts: cached.conflicts()?,
            uncounted_steps: coverage.uncounted_steps,
        })
    }
}

#[pymethods]
impl Coverage {
    fn __repr__(&self) -> String {
        format!(
            "Coverage(from_lake={}, refused={}, stayed={}, went_live={}, live_steps={}, \
             replayed_steps={}, states={}, known_pairs={}, all_pairs={}, conflicts={}, \
             uncounted_steps={})",
            self.from_lake,
            self.refused,
            self.stayed,
            self.went_live,
            self.live_steps,
            self.replayed_steps,
            self.states,
            self.known_pairs,
            self.all_pairs,
            self.conflicts,
            self.uncounted_steps,
        )
    }
}
