//! Errors of the library as exceptions of Python; `python/steplake/errors.py` defines the classes.

use std::cell::Cell;
use std::error::Error;
use std::fmt;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyType;
use steplake::assembly::command_error::{Code, CommandError};
use steplake::assembly::messages::line;
use steplake::assembly::program_under_test::MachineSpaceError;
use steplake::datasets::DatasetError;
use steplake::env::SessionError;
use steplake::env::worker::Interrupt;
use steplake::execution::ExecutionError;
use steplake::lake::LakeError;
use steplake::query::QueryError;
use steplake::record::RecordError;
use steplake::replay::ReplayError;

use crate::wording::in_python;

/// An exception that is not raised yet: its class and its message.
#[derive(Debug)]
pub(crate) struct Failure {
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
    RAISED.set(Some(raise(Failure::usage(message.clone()))));
    SessionError::Broken(message)
}

impl Failure {
    pub(crate) fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), raised: None, is_interrupt: false }
    }

    /// A mistake of the caller.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new("UsageError", message)
    }

    /// The operating system refused.
    pub(crate) fn system(error: &std::io::Error) -> Self {
        Self::new("SteplakeError", line(error))
    }

    /// What must not happen.
    pub(crate) fn defect(error: &dyn Error) -> Self {
        let message = format!("{}: this is a defect of steplake, please report it", line(error));
        Self::new("SteplakeError", message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Makes the exception.
pub(crate) fn raise(failure: Failure) -> PyErr {
    if let Some(error) = failure.raised {
        return error;
    }
    Python::attach(|py| {
        let class = py.import("steplake.errors").and_then(|module| module.getattr(failure.class));
        match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
            Ok(class) => PyErr::from_type(class, in_python(&failure.message)),
            Err(error) => error,
        }
    })
}

/// The class of an error that has none of its own.
fn class_of(code: Code) -> &'static str {
    match code {
        Code::Usage => "UsageError",
        Code::Lake => "LakeError",
        Code::Found => "CheckFailed",
        Code::Offline => "Offline",
        _ => "SteplakeError",
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        if let Some(error) = error.lake() {
            return Self::of_lake(error);
        }
        Self::new(class_of(error.code()), error.to_string())
    }
}

impl Failure {
    fn of_lake(error: &LakeError) -> Self {
        let (class, advice) = match error {
            LakeError::NotFound { .. } => (
                "NoSuchLake",
                "record one with `steplake.record` or `steplake.generate`, or name another folder",
            ),
            LakeError::NotALake { .. } => ("NoSuchLake", ""),
            LakeError::Busy { .. } => (
                "LakeBusy",
                "give each writer a lake of its own, and merge the lakes with `steplake merge`",
            ),
            LakeError::BeingMaintained { .. } | LakeError::BeingRead { .. } => ("LakeBusy", ""),
            LakeError::NoSnapshot { .. } => ("NoSuchSnapshot", "`lake.snapshots()` lists them"),
            LakeError::LostSnapshot { .. } => ("NoSuchSnapshot", ""),
            LakeError::NotDerived { .. } => ("NotDeduplicated", "call `lake.dedup()`"),
            LakeError::Corrupt { .. } => ("LakeDamaged", "`lake.verify()` lists all damage"),
            _ => ("LakeError", ""),
        };
        let mut message = line(error);
        if !advice.is_empty() {
            message = format!("{message}; {advice}");
        }
        Self::new(class, message)
    }
}

impl From<LakeError> for Failure {
    fn from(error: LakeError) -> Self {
        Self::of_lake(&error)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        let class = match error {
            QueryError::Store(error) => return error.into(),
            QueryError::NotRebuilt(_) => "LakeError",
            QueryError::UnknownQuery { .. } | QueryError::Parameter { .. } => "UsageError",
            QueryError::NotInLake { .. } => "NotInLake",
            QueryError::Sql { .. } | QueryError::ReadOnly(_) | QueryError::SameName { .. } => {
                "QueryError"
            }
            _ => "SteplakeError",
        };
        Self::new(class, line(&error))
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let class = match &error {
            SessionError::InvalidAction { .. } | SessionError::UnknownSpace { .. } => "UsageError",
            SessionError::NoEpisode => {
                return Self::usage("no episode is under way: call `reset` first");
            }
            SessionError::BadProgram { .. } => "BadBenchmark",
            SessionError::StartFailed { .. } | SessionError::Unobservable(_) => "CompilerFailed",
            SessionError::Unavailable { .. } => "CompilerUnavailable",
            SessionError::Visit(_) | SessionError::Unreadable(_) => "LakeError",
            SessionError::MissingEdge { .. } => "MissingEdge",
            SessionError::NotRecorded { .. } => "NotInLake",
            SessionError::Diverged { .. } => "CheckFailed",
            SessionError::Broken(_) | SessionError::Interrupted => {
                let raised = RAISED.take();
                let is_interrupt = matches!(error, SessionError::Interrupted)
                    || raised.as_ref().is_some_and(ends_the_program);
                return Self { raised, is_interrupt, ..Self::usage(line(&error)) };
            }
            _ => "SteplakeError",
        };
        Self::new(class, line(&error))
    }
}

impl From<MachineSpaceError> for Failure {
    fn from(error: MachineSpaceError) -> Self {
        let message = line(&error);
        match error {
            MachineSpaceError::Session(error) => error.into(),
            MachineSpaceError::CompilerFailed { .. } => Self::new("CompilerFailed", message),
            MachineSpaceError::NotBuildable(_) => {
                Self::usage(format!("{message}; `env.observation[\"IsBuildable\"]` tells"))
            }
            MachineSpaceError::NotRunnable(_) => {
                Self::usage(format!("{message}; `env.observation[\"IsRunnable\"]` tells"))
            }
            MachineSpaceError::NoCode(_) | MachineSpaceError::NoPipeline { .. } => {
                Self::usage(message)
            }
            MachineSpaceError::Execution(error) if !is_of_machine(&error) => {
                Self::new("ProgramFailed", message)
            }
            _ => Self::new("SteplakeError", message),
        }
    }
}

/// Whether this machine cannot build or run programs.
fn is_of_machine(error: &ExecutionError) -> bool {
    use ExecutionError::{Machine, NotSetUp, ToolMissing};
    matches!(error, Machine(_) | NotSetUp { .. } | ToolMissing { .. })
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Store(error) => error.into(),
            ReplayError::Session(error) => error.into(),
            _ => Self::new("LakeError", line(&error)),
        }
    }
}

impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Self {
        let message = line(&error);
        let error = CommandError::from(error);
        let class = match error.code() {
            Code::Usage => "BadBenchmark",
            other => class_of(other),
        };
        Self::new(class, message)
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Store(error) => error.into(),
            other => CommandError::from(other).into(),
        }
    }
}
