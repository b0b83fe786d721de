//! `replay-v0`: an environment without a compiler, whose steps a lake answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use steplake::assembly::catalogue::Catalogue;
use steplake::assembly::environments::{environment, live};
use steplake::assembly::recording::{SessionOptions, record_sessions};
use steplake::env::worker::WorkerConfig;
use steplake::env::{Environment, SessionError};
use steplake::lake::{Lake, SnapshotId};
use steplake::record::EpisodePlan;
use steplake::replay::cached::{self, CachedEnvironment, CachedOptions, MissingEdge};

use crate::errors::Failure;
use crate::run::Run;

/// The environment of a lake, and the compiler that is asked for what the lake does not have.
pub(crate) struct Replay {
    pub(crate) cached: Arc<CachedEnvironment>,
    /// The environment that was recorded.
    pub(crate) recorded: Arc<dyn Environment>,
    /// With a compiler, the run that records its steps into the lake.
    pub(crate) run: Option<Arc<Run>>,
}

/// Which lake answers, and who else.
pub(crate) struct Request {
    pub(crate) lake: PathBuf,
    pub(crate) snapshot: Option<i64>,
    pub(crate) missing_edge: String,
    /// The limits of the compiler's workers, in the units of [`WorkerConfig`]'s arguments.
    pub(crate) step_cpu_seconds: u64,
    pub(crate) worker_memory_mib: u64,
}

impl Replay {
    /// Reads the transition graph of a lake. With `missing_edge` "live", takes the right to write
    /// to the lake too.
    pub(crate) fn open(request: &Request, config: WorkerConfig) -> Result<Self, Failure> {
        let lake = Lake::open(&request.lake)?;
        let snapshot = Arc::new(match request.snapshot {
            Some(number) => lake.snapshot_at(SnapshotId(number))?,
            None => lake.snapshot()?,
        });
        let recorded = live(environment(&lake.identity().environment)?, config);
        let recorded: Arc<dyn Environment> = Arc::from(recorded);
        let (missing_edge, run) = match request.missing_edge.as_str() {
            "error" => (MissingEdge::Error, None),
            "stay" => (MissingEdge::Stay, None),
            "live" => {
                let run = Arc::new(begin_run(&request.lake, recorded.as_ref(), request)?);
                (MissingEdge::Live(sessions(&recorded, &run)), Some(run))
            }
            other => {
                return Err(Failure::usage(format!(
                    "at a missing edge there is nothing like {other:?}: write 'error', 'stay' or \
                     'live'"
                )));
            }
        };
        let options = CachedOptions { missing_edge, ..CachedOptions::default() };
        let cached = CachedEnvironment::open(snapshot, recorded.spec(), options);
        let cached = match cached {
            Ok(cached) => Arc::new(cached),
            Err(error) => {
                end(run.as_deref(), recorded.as_ref())?;
                return Err(error.into());
            }
        };
        Ok(Self { cached, recorded, run })
    }

    /// Returns the benchmarks to choose from: those of the lake, or with a compiler all programs.
    pub(crate) fn catalogue(&self, config: &WorkerConfig) -> Result<Catalogue, Failure> {
        if self.run.is_some() {
            return Ok(Catalogue::new(self.recorded.spec(), config)?);
        }
        let uris = self.cached.benchmarks().filter_map(|(uri, _)| uri.parse().ok());
        Ok(Catalogue::Recorded(uris.collect()))
    }

    /// Ends the run, which makes it durable, and closes its sessions.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        end(self.run.as_deref(), self.recorded.as_ref())
    }
}

fn end(run: Option<&Run>, environment: &dyn Environment) -> Result<(), Failure> {
    if let Some(run) = run.and_then(Run::take) {
        run.finish(environment)?;
    }
    Ok(())
}

fn begin_run(
    lake: &Path,
    environment: &dyn Environment,
    request: &Request,
) -> Result<Run, Failure> {
    let options = SessionOptions {
        step_cpu_seconds: request.step_cpu_seconds,
        worker_memory_mib: request.worker_memory_mib,
        ..SessionOptions::default()
    };
    Ok(Run::new(record_sessions(lake, environment, &options)?))
}

/// Returns a function that opens sessions of the compiler, which are recorded.
fn sessions(environment: &Arc<dyn Environment>, run: &Arc<Run>) -> cached::OpenSession {
    let (environment, run) = (Arc::clone(environment), Arc::clone(run));
    Arc::new(move || {
        let session = environment.session()?;
        let mut recorder =
            run.with(|run| Ok(run.recording().recorder(session))).map_err(|failure| {
                SessionError::Unavailable {
                    environment: environment.spec().name.to_string(),
                    detail: failure.to_string(),
                }
            })?;
        recorder.plan(EpisodePlan { policy: cached::NAME.to_owned(), ..EpisodePlan::default() });
        Ok(Box::new(recorder))
    })
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
    pub(crate) fn of(cached: &CachedEnvironment) -> Result<Self, Failure> {
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
