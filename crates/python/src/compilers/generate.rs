//! `generate`: a run over benchmarks, as the command records it.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use steplake::generate::{RunProgress as Counted, Stop};
use steplake::recording::{RunEnding, RunRequest, record_run};

use crate::compilers::recording::Stored;
use crate::compilers::worker::environments;
use crate::interpreter::errors::{PendingException, raise};
use crate::interpreter::progress::Progress;
use crate::interpreter::runtime::work_for;

/// What a call has recorded of a run.
#[pyclass(frozen, get_all, module = "steplake")]
pub(crate) struct RunSummary {
    /// The number of the run in its lake.
    run_id: i32,
    /// Whether nothing is left to do: the run reached its stop, or its searches are over.
    is_complete: bool,
    /// The steps that this call recorded.
    steps: u64,
    /// The states among them that are new to the lake.
    states: u64,
    /// The episodes that this call recorded.
    episodes: u64,
    /// The episodes that the compiler's failure ended, at a step or at their start.
    failures: u64,
    /// The same by kind: `crash`, `time-out`, and the like, as in the table `failures`.
    failure_kinds: BTreeMap<&'static str, u64>,
}

#[pymethods]
impl RunSummary {
    fn __repr__(&self) -> String {
        format!(
            "RunSummary(run_id={}, steps={}, states={}, episodes={}, failures={})",
            self.run_id, self.steps, self.states, self.episodes, self.failures
        )
    }
}

/// Reads where a run stops.
fn stop(steps: Option<u64>, states: Option<u64>, episodes: Option<u64>) -> PyResult<Stop> {
    match (steps, states, episodes) {
        (Some(count), None, None) => Ok(Stop::Steps(count)),
        (None, Some(count), None) => Ok(Stop::States(count)),
        (None, None, Some(count)) => Ok(Stop::Episodes(count)),
        _ => Err(raise(PendingException::usage(
            "give one of `steps`, `states` and `episodes` to say when to stop",
        ))),
    }
}

#[expect(clippy::too_many_arguments, reason = "as many as the command has")]
#[pyfunction]
#[pyo3(signature = (
    lake, benchmarks, *, steps=None, states=None, episodes=None, environment=None,
    action_space=None, policy=None, objective=None, episode_length=None, seed=0, jobs=None,
    shard=None, keyframes=Stored::usual(), observe=None, rewards=None, step_cpu_seconds=None,
    worker_memory_mib=None, audit=None, resume=false, seal=true, flags=None,
    progress=None,
))]
pub(crate) fn generate(
    py: Python<'_>,
    lake: PathBuf,
    benchmarks: Vec<String>,
    steps: Option<u64>,
    states: Option<u64>,
    episodes: Option<u64>,
    environment: Option<String>,
    action_space: Option<String>,
    policy: Option<&str>,
    objective: Option<String>,
    episode_length: Option<u32>,
    seed: i64,
    jobs: Option<usize>,
    shard: Option<&str>,
    keyframes: Stored,
    observe: Option<Vec<String>>,
    rewards: Option<Vec<String>>,
    step_cpu_seconds: Option<u64>,
    worker_memory_mib: Option<u64>,
    audit: Option<u32>,
    resume: bool,
    seal: bool,
    flags: Option<Vec<String>>,
    progress: Option<bool>,
) -> PyResult<RunSummary> {
    let usage = |problem: String| raise(PendingException::usage(problem));
    let mut request = RunRequest::new(benchmarks, stop(steps, states, episodes)?);
    if let Some(name) = environment {
        request.environment = name;
    }
    if let Some(name) = policy {
        request.policy = name.parse().map_err(usage)?;
    }
    if let Some(text) = shard {
        request.shard = Some(text.parse().map_err(usage)?);
    }
    request.jobs = jobs.and_then(NonZeroUsize::new);
    request.keyframes = keyframes.keyframes()?;
    request.episode_length = episode_length.unwrap_or(request.episode_length);
    request.step_cpu_seconds = step_cpu_seconds.unwrap_or(request.step_cpu_seconds);
    request.worker_memory_mib = worker_memory_mib.unwrap_or(request.worker_memory_mib);
    request.audit = audit.map_or(request.audit, NonZeroU32::new);
    request.flags = flags.unwrap_or_default();
    let request =
        RunRequest { action_space, objective, seed, observe, rewards, resume, seal, ..request };
    let counted = Arc::new(Counted::default());
    let shown = Arc::clone(&counted);
    let progress = Progress::new(progress, move || {
        let (steps, states) = (&shown.steps, &shown.states);
        let (steps, states) = (steps.load(Ordering::Relaxed), states.load(Ordering::Relaxed));
        format!("recording: {steps} steps, {states} new states")
    });
    let interrupt = Arc::new(AtomicBool::new(false));
    let stop = || interrupt.store(true, Ordering::Relaxed);
    let summary = work_for(py, &progress, stop, || {
        record_run(&environments(), &lake, &request, &counted, &interrupt)
    })?;
    Ok(RunSummary {
        run_id: summary.run.0,
        is_complete: summary.ending != RunEnding::Interrupted,
        steps: summary.steps,
        states: summary.states_new,
        episodes: summary.episodes,
        failures: summary.failures.values().sum(),
        failure_kinds: summary
            .failures
            .iter()
            .map(|(kind, &count)| (kind.as_str(), count))
            .collect(),
    })
}
