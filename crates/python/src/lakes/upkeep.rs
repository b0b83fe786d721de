//! Dedup, backfill and verification, with their results.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use steplake::Error;
use steplake::backfill::backfill;
use steplake::dedup::{self, DedupOptions, seal_closed};
use steplake::lake::Lake;
use steplake::verification::{self, VerifyObserver, VerifyOptions, VerifyProgress, verify};

use crate::compilers::worker::environments;
use crate::interpreter::errors::PendingException;
use crate::interpreter::progress::{Progress, ProgressCounter};
use crate::interpreter::runtime::work_for;

/// What a dedup counted.
#[pyclass(frozen, get_all, module = "steplake")]
pub(crate) struct DedupReport {
    /// The steps that are counted.
    steps: u64,
    /// The state transitions that they make.
    transitions: u64,
    /// The pairs of a state and an action that led to several states.
    conflicts: u64,
    /// The pairs of a state and an action over which the compiler failed.
    failures: u64,
    /// The layers that hold the tables.
    layers: usize,
    /// The steps that wait for the end of their episode.
    waiting: u64,
}

#[pymethods]
impl DedupReport {
    fn __repr__(&self) -> String {
        format!(
            "DedupReport(steps={}, transitions={}, conflicts={}, failures={}, layers={}, waiting={})",
            self.steps, self.transitions, self.conflicts, self.failures, self.layers, self.waiting
        )
    }
}

/// How steps are counted.
pub(crate) enum Counting {
    /// Here, all of them if it is full.
    Here {
        /// Whether all steps are counted anew.
        full: bool,
    },
    /// They are counted, and the tables lie in this folder.
    Elsewhere(PathBuf),
}

/// Seals what is closed and counts what is sealed, or takes tables that are counted.
pub(crate) fn run_dedup(
    py: Python<'_>,
    lake: &Lake,
    how: &Counting,
    shown: Option<bool>,
) -> PyResult<DedupReport> {
    let counter = Arc::new(ProgressCounter::default());
    let read = Arc::clone(&counter);
    let progress = Progress::new(shown, move || read.text("dedup:", "steps read"));
    let is_stopped = AtomicBool::new(false);
    let stop = || is_stopped.store(true, Ordering::Relaxed);
    let (report, waiting) = work_for(py, &progress, stop, || {
        let mut maintenance = lake.maintenance()?;
        let mut show = |done, all| {
            counter.set(done, all);
            flow(&is_stopped)
        };
        let (counted, waiting) = match how {
            Counting::Here { full } => {
                let waiting = seal_closed(lake)?;
                let options = DedupOptions { full: *full, ..DedupOptions::default() };
                (dedup::dedup(&mut maintenance, options, &mut show), waiting)
            }
            Counting::Elsewhere(folder) => {
                let options = DedupOptions::default();
                let report = dedup::take_counted(&mut maintenance, folder, options, &mut show)?;
                (Ok(report), lake.snapshot()?.closed_hot_steps())
            }
        };
        counted.map(|report| (report, waiting)).map_err(PendingException::from)
    })?;
    Ok(DedupReport {
        steps: report.steps,
        transitions: report.transitions,
        conflicts: report.conflicts,
        failures: report.failures,
        layers: report.layers,
        waiting,
    })
}

/// Seals what is closed, and merges small files. Returns how many files were merged.
pub(crate) fn run_compact(py: Python<'_>, lake: &Lake, shown: Option<bool>) -> PyResult<u64> {
    let counter = Arc::new(ProgressCounter::default());
    let read = Arc::clone(&counter);
    let progress = Progress::new(shown, move || read.text("compact:", "rows read"));
    let is_stopped = AtomicBool::new(false);
    let stop = || is_stopped.store(true, Ordering::Relaxed);
    let report = work_for(py, &progress, stop, || {
        let compacted = lake.writer()?.compact(&mut |done, all| {
            counter.set(done, all);
            flow(&is_stopped)
        });
        compacted.map_err(PendingException::from)
    })?;
    Ok(report.merged)
}

/// Whether a long call goes on.
pub(crate) fn flow(is_stopped: &AtomicBool) -> ControlFlow<()> {
    if is_stopped.load(Ordering::Relaxed) {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// What a backfill filled in.
#[pyclass(frozen, get_all, module = "steplake")]
pub(crate) struct BackfillReport {
    /// The sealed states.
    states: u64,
    /// Those that had an observation in each of the spaces before.
    had: u64,
    /// Those that lacked one and have it now.
    filled: u64,
    /// How many of these an interrupted backfill had computed.
    resumed: u64,
    /// Those that no recorded path leads to from stored IR: their observations stay None.
    without_path: u64,
    /// Those to which the recorded paths did not lead this time: likewise.
    elsewhere: u64,
    /// Those on which the compiler failed: likewise.
    failed: u64,
    /// The snapshot with the observations; None if nothing was filled in.
    snapshot: Option<i64>,
    /// The time that it took.
    seconds: f64,
    /// The report.
    text: String,
}

#[pymethods]
impl BackfillReport {
    fn __repr__(&self) -> String {
        self.text.clone()
    }
}

/// Fills in observations that states lack.
pub(crate) fn run_backfill(
    py: Python<'_>,
    lake: &Lake,
    spaces: &[String],
    jobs: Option<NonZeroUsize>,
    shown: Option<bool>,
) -> PyResult<BackfillReport> {
    let counter = Arc::new(ProgressCounter::default());
    let read = Arc::clone(&counter);
    let progress = Progress::new(shown, move || read.text("backfill:", "states"));
    let is_stopped = AtomicBool::new(false);
    let stop = || is_stopped.store(true, Ordering::Relaxed);
    let report = work_for(py, &progress, stop, || {
        backfill(&environments(), lake, spaces, jobs, &mut |done, all| {
            counter.set(done, all);
            flow(&is_stopped)
        })
    })?;
    let left = report.left_out;
    Ok(BackfillReport {
        states: report.states,
        had: report.had,
        filled: report.filled,
        resumed: report.resumed,
        without_path: left.without_path,
        elsewhere: left.elsewhere,
        failed: left.failed,
        snapshot: report.snapshot.map(|snapshot| snapshot.0),
        seconds: report.elapsed.as_secs_f64(),
        text: report.text(),
    })
}

/// What a verification found.
#[pyclass(frozen, get_all, module = "steplake")]
pub(crate) struct Verification {
    /// Whether nothing is wrong.
    is_sound: bool,
    /// What is wrong: the path of the file, and a sentence.
    findings: Vec<(PathBuf, String)>,
    /// The transitions that were played again; None if none was to be.
    replayed: Option<usize>,
    /// Those that led elsewhere.
    disagreeing: Option<usize>,
    /// The report.
    text: String,
}

impl Verification {
    fn of(done: &verification::Verification) -> Self {
        let derived = done.derived.iter().flat_map(|compared| &compared.findings);
        let findings = done.bytes.findings.iter().chain(&done.ids.findings).chain(derived);
        Self {
            is_sound: done.is_sound(),
            findings: findings.map(|one| (one.path.clone(), one.what.clone())).collect(),
            replayed: done.replayed.as_ref().map(|report| report.replayed),
            disagreeing: done.replayed.as_ref().map(|report| report.disagreements.len()),
            text: done.text.clone(),
        }
    }
}

#[pymethods]
impl Verification {
    fn __bool__(&self) -> bool {
        self.is_sound
    }

    fn __repr__(&self) -> String {
        self.text.clone()
    }
}

/// Follows a verification.
struct Observer<'a> {
    counter: &'a ProgressCounter,
    is_stopped: &'a AtomicBool,
}

impl VerifyObserver for Observer<'_> {
    fn progress(&self, progress: VerifyProgress) -> ControlFlow<()> {
        let (done, all) = match progress {
            VerifyProgress::Derived { done, all }
            | VerifyProgress::Checked { done, all, .. }
            | VerifyProgress::Measured { done, all }
            | VerifyProgress::Run { done, all }
            | VerifyProgress::Replayed { done, all } => (done, all),
        };
        let what = match progress {
            VerifyProgress::Derived { .. } => "steps counted",
            VerifyProgress::Checked { .. } => "bytes checked",
            VerifyProgress::Measured { .. } => "programs measured",
            VerifyProgress::Run { .. } => "programs and states run",
            VerifyProgress::Replayed { .. } => "transitions replayed",
        };
        self.counter.set_of(done, all, what);
        flow(self.is_stopped)
    }

    fn said(&self, _text: &str) -> Result<(), Error> {
        Ok(())
    }

    fn worded(&self, error: &Error) -> String {
        PendingException::from(error.clone()).to_string()
    }
}

/// Verifies a lake.
pub(crate) fn run_verify(
    py: Python<'_>,
    lake: &Lake,
    options: &VerifyOptions,
    shown: Option<bool>,
) -> PyResult<Verification> {
    let counter = Arc::new(ProgressCounter::default());
    let read = Arc::clone(&counter);
    let progress = Progress::new(shown, move || read.text("verify:", "bytes checked"));
    let is_stopped = AtomicBool::new(false);
    let stop = || is_stopped.store(true, Ordering::Relaxed);
    let observer = Observer { counter: &counter, is_stopped: &is_stopped };
    let done = work_for(py, &progress, stop, || verify(&environments(), lake, options, &observer))?;
    Ok(Verification::of(&done))
}
