//! Measurements, with their result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use steplake::lake::Lake;
use steplake::measure::{MeasureProblem, MeasuredSpace};
use steplake::measurement::{MeasureRequest, WantedStates, measure_lake};

use crate::compilers::worker::environments;
use crate::interpreter::errors::{PendingException, raise};
use crate::interpreter::progress::{Progress, ProgressCounter};
use crate::interpreter::runtime::work_for;
use crate::lakes::upkeep::flow;

/// What a measurement of a lake has measured.
#[pyclass(frozen, get_all, module = "steplake")]
pub(crate) struct MeasureReport {
    /// What was measured: ``Runtime`` or ``Buildtime``.
    space: &'static str,
    /// The machine, as the column ``machine`` says it.
    machine: String,
    /// The programs that can be run.
    programs: u64,
    /// The programs that were chosen and cannot be run: nobody says how.
    not_runnable: u64,
    /// The rows that were appended to the table ``measurements``.
    measurements: u64,
    /// The samples in them.
    samples: u64,
    /// The states that were to be measured and have no row.
    left_out: u64,
    /// Why some have none, and which files a program could not open: the URI of the program, the id
    /// of the state, and a sentence.
    problems: Vec<(String, String, String)>,
    /// How many states have none because the program does something else there than in its
    /// first state.
    wrong_results: usize,
    /// The report.
    text: String,
}

#[pymethods]
impl MeasureReport {
    fn __repr__(&self) -> String {
        self.text.clone()
    }
}

/// Reads what is to be measured.
pub(crate) fn measured_space(name: &str) -> PyResult<MeasuredSpace> {
    let known = MeasuredSpace::ALL.into_iter().find(|space| space.as_str() == name);
    known.ok_or_else(|| {
        let known = MeasuredSpace::ALL.map(MeasuredSpace::as_str).join(" or ");
        raise(PendingException::usage(format!("`{name}` cannot be measured: write {known}")))
    })
}

/// Reads which states are to be measured.
pub(crate) fn measured_states(name: &str) -> PyResult<WantedStates> {
    name.parse().map_err(|what| raise(PendingException::usage(what)))
}

/// Measures states of a lake.
pub(crate) fn run_measure(
    py: Python<'_>,
    lake: &Lake,
    request: &MeasureRequest,
    shown: Option<bool>,
) -> PyResult<MeasureReport> {
    let counter = Arc::new(ProgressCounter::default());
    let read = Arc::clone(&counter);
    let progress = Progress::new(shown, move || read.text("measure:", "times taken"));
    let is_stopped = AtomicBool::new(false);
    let stop = || is_stopped.store(true, Ordering::Relaxed);
    let report = work_for(py, &progress, stop, || {
        measure_lake(&environments(), lake, request, &mut |done, all| {
            counter.set(done, all);
            flow(&is_stopped)
        })
    })?;
    let text = report.text();
    let wrong_results = report.problems.iter().filter(|one| one.is_wrong_result).count();
    let problem = |MeasureProblem { benchmark, state, what, .. }: MeasureProblem| {
        (benchmark.to_string(), state.to_string(), what)
    };
    Ok(MeasureReport {
        space: report.space.as_str(),
        machine: report.machine,
        programs: report.programs,
        not_runnable: report.not_runnable,
        measurements: report.measurements,
        samples: report.samples,
        left_out: report.left_out,
        problems: report.problems.into_iter().map(problem).collect(),
        wrong_results,
        text,
    })
}
