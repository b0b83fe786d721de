//! Errors of commands: one line on standard error and an exit code.

use std::io::{Error as IoError, Write};
use std::process::ExitCode;
use std::sync::Arc;

use super::messages::line;
use crate::datasets::DatasetError;
use crate::env::SessionError;
use crate::generate::{GenerateError, ProgramError};
use crate::lake::LakeError;
use crate::leaderboard::LeaderboardError;
use crate::load::LoadError;
use crate::query::QueryError;
use crate::record::{ChoiceError, RecordError};
use crate::replay::ReplayError;
use crate::replay::rebuild::RebuildError;
use crate::semantics::SemanticsError;
use crate::transfer::import::ImportError;
use crate::transfer::merge::MergeError;

/// Exit codes; each tells the user who can do something about the failure. `--help` documents the
/// numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// An operation failed.
    Failed = 1,
    /// The command line, a benchmark or a query is wrong.
    Usage = 2,
    /// The lake cannot be used.
    Lake = 3,
    /// A check found something.
    Found = 4,
    /// The network is needed, and what was wanted cannot be fetched.
    Offline = 5,
    /// No lake is published at an address.
    NothingPublished = 6,
    /// A published version has something that the lake lacks.
    Diverged = 7,
    /// A signal or the caller stopped the command.
    Interrupted = 130,
}

/// The error of a command.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    code: Code,
    message: String,
    lake: Option<Arc<LakeError>>,
}

impl CommandError {
    /// Creates an error with a message of one line.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), lake: None }
    }

    /// Returns the exit code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the error of the lake, if it is one, for a program that has other advice.
    pub fn lake(&self) -> Option<&LakeError> {
        self.lake.as_deref()
    }

    /// Adds what succeeded before the derived tables could not be made.
    #[must_use]
    pub fn after(self, done: &str) -> Self {
        let message = format!("{done} ({}): run `steplake dedup` on it", self.message);
        Self { message, ..self }
    }

    /// Prefixes the message with the place of the failed text.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// Creates an error for a wrong command line, benchmark or query.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    fn of(code: Code, error: &dyn std::error::Error) -> Self {
        Self::new(code, line(error))
    }

    /// Prints the message and returns the exit code.
    pub fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            // Standard error may be closed; the exit code still tells.
            let _ = writeln!(std::io::stderr(), "steplake: {}", self.message);
        }
        ExitCode::from(self.code as u8)
    }
}

/// Reports the error, if any, and returns the exit code.
pub fn exit_code(done: Result<(), CommandError>) -> ExitCode {
    done.map_or_else(|error| error.report(), |()| ExitCode::SUCCESS)
}

impl From<LakeError> for CommandError {
    fn from(error: LakeError) -> Self {
        let code = match error {
            LakeError::NoSnapshot { .. } | LakeError::NothingToRetract { .. } => Code::Usage,
            LakeError::Interrupted => Code::Interrupted,
            _ => Code::Lake,
        };
        Self { code, message: lake_line(&error), lake: Some(Arc::new(error)) }
    }
}

/// How a lake that has lost its identity gets it again.
const IDENTITY_AGAIN: &str = "a lake without a good lake.json gets it from a new lake: \
                              `steplake --lake NEW generate` with the same --env, --action-space, \
                              --observe and --rewards makes one, to be copied here";

/// Formats an error of the store in one line, with the commands and options that help.
fn lake_line(error: &LakeError) -> String {
    let advice = match error {
        LakeError::NotFound { .. } => {
            "record one with `steplake generate`, or name another folder with --lake"
        }
        LakeError::OwnWork { .. } => "`steplake merge` merges two lakes",
        LakeError::NoSnapshot { oldest, newest, .. } if oldest != newest => {
            "`steplake snapshots` lists them"
        }
        LakeError::NotDerived { snapshot, newest, .. } if snapshot == newest => {
            "run `steplake dedup`"
        }
        LakeError::NotDerived { .. } => "`steplake snapshots` lists them",
        LakeError::NothingToRetract { .. } => "`steplake info` lists the runs",
        LakeError::Corrupt { path, .. } if !path.ends_with("lake.json") => {
            "`steplake verify` lists all damage, and with --repair drops it"
        }
        LakeError::Corrupt { .. } => IDENTITY_AGAIN,
        LakeError::NotALake { path, .. } if path.join("hot.sqlite").exists() => IDENTITY_AGAIN,
        _ => return line(error),
    };
    format!("{}; {advice}", line(error))
}

/// Converts errors into [`CommandError`]s: those of the named variants as the errors in them, and
/// all others with the code.
macro_rules! codes {
    ($($error:ident { $($inner:ident),* } $code:ident;)*) => {$(
        impl From<$error> for CommandError {
            fn from(error: $error) -> Self {
                match error {
                    $($error::$inner(error) => error.into(),)*
                    other => Self::of(Code::$code, &other),
                }
            }
        }
    )*};
}

codes! {
    MergeError { Store } Lake;
    RecordError { Store } Failed;
    ChoiceError {} Usage;
    GenerateError { Session, Program } Failed;
    ReplayError { Store, Session } Lake;
    RebuildError { Store } Lake;
    SemanticsError { Store, Session } Failed;
    IoError {} Failed;
}

impl From<LoadError> for CommandError {
    fn from(error: LoadError) -> Self {
        let code = match error {
            LoadError::Store(error) => return error.into(),
            LoadError::Query(error) => return error.into(),
            LoadError::NotDeduplicated { .. } => Code::Lake,
            LoadError::Cache { .. } | LoadError::Export { .. } => Code::Failed,
            _ => Code::Usage,
        };
        Self::of(code, &error)
    }
}

impl From<ImportError> for CommandError {
    fn from(error: ImportError) -> Self {
        let code = match error {
            ImportError::Store(error) => return error.into(),
            ImportError::OtherProgram { .. } | ImportError::Orphaned { .. } => Code::Lake,
            ImportError::Open { .. }
            | ImportError::NotALog { .. }
            | ImportError::Unfinished { .. } => Code::Usage,
            ImportError::Read { .. } => Code::Failed,
        };
        Self::of(code, &error)
    }
}

impl From<LeaderboardError> for CommandError {
    fn from(error: LeaderboardError) -> Self {
        let code = if error.is_of_machine() { Code::Failed } else { Code::Usage };
        Self::of(code, &error)
    }
}

impl From<SessionError> for CommandError {
    fn from(error: SessionError) -> Self {
        let code = match error {
            SessionError::InvalidAction { .. }
            | SessionError::UnknownSpace { .. }
            | SessionError::BadProgram { .. }
            | SessionError::MissingEdge { .. }
            | SessionError::NotRecorded { .. } => Code::Usage,
            SessionError::Visit(_) | SessionError::Unreadable(_) => Code::Lake,
            SessionError::Interrupted => Code::Interrupted,
            _ => Code::Failed,
        };
        Self::of(code, &error)
    }
}

impl From<DatasetError> for CommandError {
    fn from(error: DatasetError) -> Self {
        let code = match error {
            _ if error.is_offline() => Code::Offline,
            DatasetError::ToolMissing { .. }
            | DatasetError::ToolFailed { .. }
            | DatasetError::ToolNotRun { .. }
            | DatasetError::Killed { .. }
            | DatasetError::TimedOut { .. }
            | DatasetError::Cache { .. }
            | DatasetError::NoCachePlace
            | DatasetError::ForeignCache { .. }
            | DatasetError::NoPackageSources { .. }
            | DatasetError::ChecksumMismatch { .. }
            | DatasetError::WrongContent { .. } => Code::Failed,
            _ => Code::Usage,
        };
        Self::of(code, &error)
    }
}

impl From<QueryError> for CommandError {
    fn from(error: QueryError) -> Self {
        let code = match error {
            QueryError::Store(error) => return error.into(),
            QueryError::NotRebuilt(_) => Code::Lake,
            QueryError::Memory(_)
            | QueryError::Spill(_)
            | QueryError::TooLarge(_)
            | QueryError::Failed(_)
            | QueryError::Write(_) => Code::Failed,
            _ => Code::Usage,
        };
        Self::of(code, &error)
    }
}

impl From<ProgramError> for CommandError {
    fn from(error: ProgramError) -> Self {
        match error.downcast::<DatasetError>() {
            Ok(error) => (*error).into(),
            Err(other) => Self::of(Code::Usage, other.as_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::{SnapshotId, Table};

    #[test]
    fn what_cannot_be_fetched_is_told_from_what_does_not_exist() {
        let (what, uri) = ("zlib".to_owned(), "benchmark://debian-v0/zlob".to_owned());
        let offline = DatasetError::Offline { what, detail: "no answer".into() };
        assert_eq!(CommandError::from(offline).code, Code::Offline);
        let unknown = DatasetError::UnknownBenchmark { uri, hint: "there is zlib".into() };
        assert_eq!(CommandError::from(unknown).code, Code::Usage);
    }

    #[test]
    fn a_shared_file_system_is_a_place_where_no_lake_can_be_used() {
        let shared = || LakeError::SharedFileSystem { path: "/nfs/lake".into(), kind: "NFS" };
        let causes = [
            CommandError::from(shared()),
            CommandError::from(RecordError::Store(shared())),
            CommandError::from(MergeError::Store(shared())),
            CommandError::from(QueryError::Store(shared())),
            CommandError::from(ReplayError::Store(shared())),
        ];
        for error in causes {
            assert_eq!(error.code, Code::Lake);
            let told = "/nfs/lake lies on NFS, a file system that several machines share: ";
            assert!(error.message.starts_with(told) && !error.message.contains('\n'), "{error}");
        }
    }

    #[test]
    fn an_error_of_the_store_is_told_with_the_commands_that_help() {
        let (path, newest) = (std::path::PathBuf::from("lake"), SnapshotId(3));
        let said = |error| CommandError::from(error).message;
        let missing = said(LakeError::NotFound { path: path.clone() });
        assert!(
            missing.starts_with("there is no lake at lake; record one with `steplake generate`")
        );
        let table = Table::StateTransitions;
        let not_derived = LakeError::NotDerived { path, table, snapshot: newest, newest };
        let not_derived = CommandError::from(QueryError::Store(not_derived));
        assert!(not_derived.message.ends_with("not counted yet; run `steplake dedup`"));
        assert_eq!(not_derived.code, Code::Lake);
    }

    #[test]
    fn a_program_that_a_run_cannot_have_keeps_its_cause() {
        let (what, uri) = ("zlib".to_owned(), "benchmark://debian-v0/zlob".to_owned());
        let (tool, detail) = ("clang-22".to_owned(), "no answer".to_owned());
        let offline = DatasetError::Offline { what: what.clone(), detail };
        let limit = std::time::Duration::from_mins(2);
        let slow = DatasetError::TimedOut { tool: tool.clone(), what: what.clone(), limit };
        let killed = DatasetError::Killed { tool, what, signal: 9 };
        let unknown = DatasetError::UnknownBenchmark { uri, hint: "there is zlib".into() };
        let causes: [(ProgramError, Code); 5] = [
            (offline.into(), Code::Offline),
            (slow.into(), Code::Failed),
            (killed.into(), Code::Failed),
            (unknown.into(), Code::Usage),
            ("this is no seed".into(), Code::Usage),
        ];
        for (cause, code) in causes {
            let said = cause.to_string();
            let failed = CommandError::from(GenerateError::Program(cause));
            assert_eq!((failed.code, failed.message), (code, said));
        }
    }
}
