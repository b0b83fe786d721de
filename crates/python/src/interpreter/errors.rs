//! Errors of the library as exceptions of Python; `python/steplake/errors.py` defines the classes.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyType;
use steplake::env::SessionError;
use steplake::model::{Remedy, line};
use steplake::program_under_test::MachineSpaceError;
use steplake::sandbox::Interrupt;
use steplake::{Error, ErrorKind};

/// An exception that is not raised yet: its class and its message.
#[derive(Debug)]
pub(crate) struct PendingException {
    class: &'static str,
    message: String,
    /// The exception itself, if somebody else's code has raised it.
    raised: Option<PyErr>,
    /// Whether it is no error of what was done, but the exception of a signal's handler, as that
    /// of Ctrl-C.
    pub(crate) is_interrupt: bool,
}

thread_local! {
    /// The exception behind the last [`SessionError::Broken`] or [`SessionError::Interrupted`] of
    /// this thread: sessions return no exceptions.
    static RAISED: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Returns the error of a session whose compiler has raised an exception.
pub(crate) fn raised(py: Python<'_>, error: PyErr) -> SessionError {
    let text = error.value(py).to_string();
    RAISED.set(Some(error));
    SessionError::Broken(text)
}

/// Whether an exception is no error, such as that of Ctrl-C inside a compiler's class.
fn ends_the_program(raised: &PyErr) -> bool {
    Python::attach(|py| !raised.is_instance_of::<PyException>(py))
}

/// Returns the interrupt of Python: an exception that a signal's handler raises, as that of Ctrl-C
/// does.
pub(crate) fn interrupt() -> Interrupt {
    let looked = |py: Python<'_>| py.check_signals().map_err(|error| RAISED.set(Some(error)));
    Interrupt::new(move || Python::try_attach(looked).is_some_and(|looked| looked.is_err()))
}

/// Returns the error of a session whose compiler did what it must not.
pub(crate) fn broken(message: String) -> SessionError {
    RAISED.set(Some(raise(PendingException::usage(message.clone()))));
    SessionError::Broken(message)
}

impl PendingException {
    pub(crate) fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), raised: None, is_interrupt: false }
    }

    /// A mistake of the caller.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new("UsageError", message)
    }

    /// What must not happen.
    pub(crate) fn defect(error: &dyn std::error::Error) -> Self {
        let message = format!("{}: this is a defect of steplake, please report it", line(error));
        Self::new("SteplakeError", message)
    }
}

impl fmt::Display for PendingException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Makes the exception.
pub(crate) fn raise(failure: PendingException) -> PyErr {
    if let Some(error) = failure.raised {
        return error;
    }
    Python::attach(|py| {
        let class = py.import("steplake.errors").and_then(|module| module.getattr(failure.class));
        match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
            Ok(class) => PyErr::from_type(class, failure.message),
            Err(error) => error,
        }
    })
}

/// The class of an exception.
fn class_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Usage | ErrorKind::NoEpisode => "UsageError",
        ErrorKind::Query => "QueryError",
        ErrorKind::Benchmark => "BadBenchmark",
        ErrorKind::NotInLake => "NotInLake",
        ErrorKind::MissingEdge => "MissingEdge",
        ErrorKind::NoSnapshot | ErrorKind::LostSnapshot => "NoSuchSnapshot",
        ErrorKind::NoLake => "NoSuchLake",
        ErrorKind::NotDerived => "NotDeduplicated",
        ErrorKind::Busy => "LakeBusy",
        ErrorKind::Damaged => "LakeDamaged",
        ErrorKind::Lake | ErrorKind::Unreadable => "LakeError",
        ErrorKind::CompilerFailed => "CompilerFailed",
        ErrorKind::CompilerUnavailable => "CompilerUnavailable",
        ErrorKind::ProgramFailed => "ProgramFailed",
        ErrorKind::Diverged | ErrorKind::Found => "CheckFailed",
        ErrorKind::Offline => "Offline",
        _ => "SteplakeError",
    }
}

/// What helps, in words of Python.
fn advice(remedy: &Remedy) -> Cow<'static, str> {
    let said = match remedy {
        Remedy::Record => {
            "record one with `steplake.record` or `steplake.generate`, or name another folder"
        }
        Remedy::OwnLake => {
            "give each writer a lake of its own, and merge the lakes with `steplake merge`"
        }
        Remedy::OtherScheme => {
            "the command `steplake convert --lake OLD --into NEW` makes a new lake of it by playing \
             what it recorded again; as it is, it can be read, queried, and merged with lakes of its \
             scheme"
        }
        Remedy::Merge => "`steplake merge` merges two lakes",
        Remedy::Snapshots => "`lake.snapshots()` lists them",
        Remedy::Runs => "`lake.info()` lists the runs",
        Remedy::Measure => "`lake.measure` records samples of Runtime and Buildtime",
        Remedy::Dedup | Remedy::DedupWritten => "call `lake.dedup()`",
        Remedy::Verify => "`lake.verify()` lists all damage",
        Remedy::Backfill(None) => "`lake.backfill` adds an observation space",
        Remedy::Field("keyframes") => {
            "`keyframes=1` stores the IR of all states, `keyframes=None` that of none"
        }
        Remedy::Field("context") => "`lake.context(NAME)` reads one of them",
        // More memory makes up for temporary files.
        Remedy::Field("spill") => "the argument is `memory`",
        Remedy::Backfill(Some(space)) => {
            let call = format!("`lake.backfill(\"{space}\")`");
            return format!("{call} computes it where no run recorded it").into();
        }
        Remedy::Benchmarks(dataset) => {
            return format!("`env.datasets[\"{dataset}\"].benchmark_uris()` lists what there is")
                .into();
        }
        Remedy::Spaces(environment) => {
            return format!("`steplake env describe {environment}` lists them").into();
        }
        Remedy::Field(name) => return format!("the argument is `{name}`").into(),
        // Commands alone need them.
        Remedy::Identity | Remedy::HowRun => "",
    };
    said.into()
}

impl<E: Into<Error>> From<E> for PendingException {
    fn from(error: E) -> Self {
        let error = error.into();
        match error.find::<SessionError>() {
            Some(SessionError::NoEpisode) => {
                return Self::usage("no episode is under way: call `reset` first");
            }
            Some(found @ (SessionError::Broken(_) | SessionError::Interrupted)) => {
                let raised = RAISED.take();
                let is_interrupt = matches!(found, SessionError::Interrupted)
                    || raised.as_ref().is_some_and(ends_the_program);
                return Self { raised, is_interrupt, ..Self::usage(error.to_string()) };
            }
            _ => {}
        }
        let advice = match error.find::<MachineSpaceError>() {
            Some(MachineSpaceError::NotBuildable(_)) => {
                "`env.observation[\"IsBuildable\"]` tells".into()
            }
            Some(MachineSpaceError::NotRunnable(_)) => {
                "`env.observation[\"IsRunnable\"]` tells".into()
            }
            _ => error.remedy().map_or_else(Cow::default, advice),
        };
        let and = if advice.is_empty() { "" } else { "; " };
        Self::new(class_of(error.kind()), format!("{error}{and}{advice}"))
    }
}
