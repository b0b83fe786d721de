//! Runs, from their request to the lake.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::identity::identity;
use super::kernel_clock::{KernelClock, KnownTimes};
use super::request::RunRequest;
use super::resume::{ResumedRun, ToPlay, begin_or_resume};
use super::run_programs::RunPrograms;
use super::sessions::audited;
use super::stopwatch::ProgramClock;
use super::timed::{StateClock, Timed, time_space};
use super::{Keyframes, Stopwatch};
use crate::contexts::recorded_by;
use crate::env::Environment;
use crate::env::worker::WorkerConfig;
use crate::environments::catalogue::Catalogue;
use crate::environments::services::demand_recordable;
use crate::environments::{Environments, live};
use crate::generate::{CampaignEnd, ProgramProvider, RunPlan, RunProgress, Stop, generate};
use crate::lake::{CONTEXTS, Discarded, Lake, LakeError, Writer};
use crate::measure::nothing_to_run;
use crate::model::line;
use crate::model::{BenchmarkUri, Execution, FailureKind, RunId};
use crate::record::{MeasurementSink, Recording, RecordingOptions, SpaceChoice};
use crate::sandbox::Interrupt;
use crate::{Error, ErrorKind};

/// How a run stands when its call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnding {
    /// The run reached its stop.
    Complete,
    /// The search of every program was over before the run reached its stop.
    Exhausted,
    /// The run was interrupted. All settled episodes are kept, and the same request with `resume`
    /// continues it.
    Interrupted,
    /// The run was to be resumed and is complete: nothing was left to do.
    NothingLeft,
}

/// What a call has recorded of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// How it stands.
    pub ending: RunEnding,
    /// Steps made by this call.
    pub steps: u64,
    /// States that this call was the first to observe.
    pub states_new: u64,
    /// Episodes that settled in this call.
    pub episodes: u64,
    /// Episodes of this call that the compiler's failure ended, at a step or at their start.
    pub failures: BTreeMap<FailureKind, u64>,
    /// States that this call was the first to observe, and that have null where the compiler failed
    /// on an observation without a fault of the step before.
    pub states_unobserved: u64,
}

/// Records a run into the lake at `lake`, into the context of its compiler and action space. Both
/// are made if there are none. `progress` counts what this call records, and `interrupt` ends it
/// early.
///
/// # Errors
///
/// If the request is wrong, a benchmark is not available, the lake cannot be recorded into, or the
/// run cannot go on. What was recorded of settled episodes stays.
pub fn record_run(
    environments: &Environments,
    lake: &Path,
    request: &RunRequest,
    progress: &RunProgress,
    interrupt: &Arc<AtomicBool>,
) -> Result<RunSummary, Error> {
    match begin_run(environments, lake, request)? {
        BegunRun::Open(run) => run.record(progress, interrupt),
        BegunRun::Complete(run) => {
            let ending = RunEnding::NothingLeft;
            let (steps, states_new, episodes, states_unobserved) = (0, 0, 0, 0);
            let failures = BTreeMap::new();
            Ok(RunSummary { run, ending, steps, states_new, episodes, failures, states_unobserved })
        }
    }
}

/// A run that has begun, now or in an earlier call.
#[derive(Debug)]
pub enum BegunRun {
    /// There is something to record.
    Open(Box<OpenRun>),
    /// The run was to be resumed and is complete.
    Complete(RunId),
}

/// A run that is about to be recorded. If it is dropped, it stays begun and can be resumed.
#[derive(Debug)]
pub struct OpenRun {
    environment: Box<dyn Environment>,
    config: WorkerConfig,
    catalogue: Catalogue,
    execution: Option<Execution>,
    stopwatch: Option<Arc<Stopwatch>>,
    plan: RunPlan,
    to_play: ToPlay,
    options: RecordingOptions,
    audit: Option<NonZeroU32>,
    ends: EndOfRun,
    writer: Writer,
}

/// Begins a run, or finds the one to resume, and takes the right to write to the lake.
///
/// # Errors
///
/// Those of [`record_run`].
pub fn begin_run(
    environments: &Environments,
    lake: &Path,
    request: &RunRequest,
) -> Result<BegunRun, Error> {
    let here = environments.open(&request.environment)?;
    request.demand()?;
    let keyframes = request.keyframes.unwrap_or_else(|| Keyframes::usual(here.as_ref()));
    request.demand_search(here.as_ref(), keyframes)?;
    let spaces = [request.observe.as_deref(), request.rewards.as_deref()];
    demand_recordable(here.as_ref(), keyframes.0, &spaces)?;
    let spec = here.spec().clone();
    let context = &recorded_by(lake, &spec, request.action_space.as_deref())?;
    let existing = Lake::open(context);
    if request.resume && existing.is_err() && Lake::open(lake).is_ok() {
        let (path, compiler) = (lake.display(), &spec.compiler);
        let said = format!(
            "the lake at {path} has no run of {} ({compiler}) to resume: its runs are of other \
             compilers or action spaces, and a run that is not resumed begins a new context",
            spec.name
        );
        return Err(Error::new(ErrorKind::Lake, said));
    }
    let lake = context;
    // The choices of an existing context are the defaults.
    let there = existing.as_ref().ok().map(Lake::identity);
    let objective = request.objective(&spec)?;
    let observed = request.observed(&spec, there, &objective)?;
    let choice =
        SpaceChoice { observations: observed.as_deref(), rewards: request.rewards.as_deref() };
    let identity = identity(&spec, there, request.action_space.as_deref(), &choice)?;
    let (seconds, mib) = (request.step_cpu_seconds, request.worker_memory_mib);
    let config = environments.limited_worker_config(seconds, mib)?;
    let catalogue = Catalogue::of(here.as_ref(), &config)?;
    let plan = request.plan(&identity.action_space, &objective, &catalogue)?;
    let new = existing.is_err().then(|| NewLake::at(lake));
    match existing {
        Ok(_) => {}
        Err(LakeError::NotFound { .. } | LakeError::NotALake { .. }) => {
            load_first_programs(&catalogue, &request.benchmarks, &plan)?;
        }
        Err(error) => return Err(error.into()),
    }
    let mut writer = Lake::open_or_create(lake, &identity)?.writer()?;
    let to_play = match begin_or_resume(&mut writer, request, &plan, keyframes)? {
        ResumedRun::Complete(run) => {
            // The call that completed it may have left it in the hot log.
            if request.seal {
                writer.seal()?;
            }
            return Ok(BegunRun::Complete(run));
        }
        ResumedRun::Open(to_play) => *to_play,
    };
    let options = RecordingOptions {
        keyframes: keyframes.0,
        observations: observed,
        rewards: request.rewards.clone(),
        ..RecordingOptions::default()
    };
    Ok(BegunRun::Open(Box::new(OpenRun {
        environment: here,
        config,
        catalogue,
        execution: request.execution.clone(),
        stopwatch: request.stopwatch.clone(),
        plan,
        to_play,
        options,
        audit: request.audit,
        ends: EndOfRun { seals: request.seal, new },
        writer,
    })))
}

impl OpenRun {
    /// Returns where the run stops. Of a number of episodes, only those of its shard count.
    pub fn stop(&self) -> Stop {
        match self.plan.stop {
            Stop::Episodes(episodes) => Stop::Episodes(self.plan.own_episodes(episodes)),
            other => other,
        }
    }

    /// Returns how much of what the run stops at earlier calls have recorded: steps, states or
    /// episodes.
    pub fn recorded_before(&self) -> u64 {
        self.to_play.past.towards(self.plan.stop)
    }

    /// Records the run until its stop or until `interrupt`, and closes the recording. An interrupt
    /// does not wait for a step under way: its episode is dropped, as a resumed run plays it anew.
    /// `progress` counts what this call records.
    ///
    /// # Errors
    ///
    /// Those of [`record_run`].
    pub fn record(
        self,
        progress: &RunProgress,
        interrupt: &Arc<AtomicBool>,
    ) -> Result<RunSummary, Error> {
        let Self { environment, mut config, plan, to_play, options, audit, ends, writer, .. } =
            self;
        let ToPlay { run, past, finishes } = to_play;
        let programs =
            RunPrograms { catalogue: &self.catalogue, execution: self.execution.as_ref() };
        let interrupted = Arc::clone(interrupt);
        let interrupted = Interrupt::new(move || interrupted.load(Ordering::Relaxed));
        config.interrupt = interrupted.clone();
        let mut environment = live(environment, config);
        let episodes_before = past.episodes();
        let is_timed = plan.objective == time_space();
        let has_kernels = is_timed && self.stopwatch.is_none();
        let times = has_kernels.then(|| KnownTimes::of(&writer.lake().snapshot()?)).transpose()?;
        let recording = Recording::begin(writer, environment.spec(), run, &options)?;
        let recording = audited(recording, environment.as_ref(), audit, interrupted)?;
        if is_timed {
            let sink = recording.measurements();
            let clock = clock(environment.as_ref(), self.stopwatch, times, sink)?;
            environment = Box::new(Timed::new(environment, clock));
        }
        let environment = environment.as_ref();
        let result = generate(environment, &recording, &plan, &programs, past, progress, interrupt);
        let states_unobserved = recording.states_unobserved();
        // First commit what was recorded, whatever the result.
        let closed = recording.close();
        if let (Err(error), Ok(_)) = (&result, &closed) {
            tracing::debug!(%error, "the run stopped");
        }
        let mut writer = closed?;
        let repeated_windows = environment.repeated_windows();
        writer.add_repeated_windows(run, u32::try_from(repeated_windows).unwrap_or(u32::MAX))?;
        let result = match result {
            Ok(ended) => ended,
            Err(error) => return Err(ends.after_failure(writer, error.into())),
        };
        let (ending, discarded) = ends.after(writer, run, finishes, result)?;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let kept = |counter, discarded| read(counter).saturating_sub(discarded);
        Ok(RunSummary {
            run,
            ending,
            steps: kept(&progress.steps, discarded.steps),
            states_new: kept(&progress.states, discarded.states),
            episodes: read(&progress.episodes) - u64::from(episodes_before),
            failures: progress.failures.lock().clone(),
            states_unobserved,
        })
    }
}

/// What happens to the lake at the end of a run.
#[derive(Debug)]
struct EndOfRun {
    /// Whether what was recorded is sealed.
    seals: bool,
    /// The lake, if it was made for this run.
    new: Option<NewLake>,
}

/// A lake that was made for a run.
#[derive(Debug)]
struct NewLake {
    folder: PathBuf,
    /// Whether its folder was there before.
    had_folder: bool,
}

impl EndOfRun {
    /// Ends a run that came to its end, or was interrupted; with it, the runs that it `finishes`.
    /// Returns what was taken back.
    fn after(
        self,
        mut writer: Writer,
        run: RunId,
        finishes: Vec<RunId>,
        ended: CampaignEnd,
    ) -> Result<(RunEnding, Discarded), Error> {
        let done = match ended {
            CampaignEnd::Complete | CampaignEnd::Exhausted => {
                // Episodes that were played beyond the stop.
                let discarded = writer.discard_open(run)?;
                for run in finishes.into_iter().chain([run]) {
                    writer.finish_run(run)?;
                }
                let is_exhausted = ended == CampaignEnd::Exhausted;
                (if is_exhausted { RunEnding::Exhausted } else { RunEnding::Complete }, discarded)
            }
            CampaignEnd::Interrupted => (RunEnding::Interrupted, Discarded::default()),
        };
        if self.seals {
            writer.seal().map_err(|error| {
                Error::from(error).at("everything is recorded, and not sealed yet")
            })?;
        }
        Ok(done)
    }

    /// Ends a run that cannot go on, and returns its error. Nothing is left of a lake that was made
    /// for it and has nothing of it.
    fn after_failure(self, mut writer: Writer, error: Error) -> Error {
        let ended = match self.new {
            Some(new) if writer.is_unused().is_ok_and(|is_unused| is_unused) => new.remove(writer),
            _ if self.seals => writer.seal().map(drop),
            _ => Ok(()),
        };
        if let Err(problem) = ended {
            tracing::warn!("the run ends with an error, and before it: {}", line(&problem));
        }
        error
    }
}

impl NewLake {
    /// Looks at the folder in which a lake is about to be made.
    fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), had_folder: folder.is_dir() }
    }

    fn remove(self, writer: Writer) -> Result<(), LakeError> {
        writer.remove_lake()?;
        if !self.had_folder {
            // Somebody may have put something there.
            fs::remove_dir(&self.folder).ok();
            // So may have others, with their contexts.
            let contexts = self.folder.parent().filter(|parent| parent.ends_with(CONTEXTS));
            contexts.map(fs::remove_dir).transpose().ok();
        }
        Ok(())
    }
}

/// Returns what times the states of a run: `stopwatch`, if there is one, or else a clock of kernels
/// that knows `times`.
fn clock(
    environment: &dyn Environment,
    stopwatch: Option<Arc<Stopwatch>>,
    times: Option<KnownTimes>,
    sink: MeasurementSink,
) -> Result<Arc<dyn StateClock>, Error> {
    let spec = environment.spec();
    match (stopwatch, times) {
        (Some(stopwatch), _) => {
            let object = spec.observation_index(ProgramClock::OBJECT.object_space());
            let object = object.ok_or_else(|| Error::usage(nothing_to_run(spec)))?;
            Ok(Arc::new(ProgramClock::new(stopwatch, object, sink)))
        }
        (None, Some(times)) => Ok(Arc::new(KernelClock::new(spec.state_index(), times, sink))),
        (None, None) => unreachable!("the times of kernels are read where there is no stopwatch"),
    }
}

/// Loads the first program of each pattern, so that a missing program does not leave an empty lake.
fn load_first_programs(
    catalogue: &Catalogue,
    patterns: &[String],
    plan: &RunPlan,
) -> Result<(), Error> {
    for pattern in patterns {
        if let Some(first) = catalogue.expand(std::slice::from_ref(pattern))?.first() {
            // In the plan it may have flags.
            let is_it = |uri: &&BenchmarkUri| {
                *uri == first || uri.file().is_some_and(|file| first.file() == Some(file))
            };
            catalogue.load(plan.benchmarks.iter().find(is_it).unwrap_or(first))?;
        }
    }
    Ok(())
}
