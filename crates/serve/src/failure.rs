//! Failures of the program: one line on standard error and an exit code, both like those of
//! `steplake`.

use std::io::Write;
use std::process::ExitCode;

use steplake::cli::failure::lake_line;
use steplake::cli::messages::line;
use steplake::lake::LakeError;
use steplake::query::QueryError;

/// Exit codes; each tells the user who can do something about the failure. `steplake --help`
/// documents the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// An operation failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The lake cannot be used.
    Lake = 3,
}

/// A failure of the program.
#[derive(Debug)]
pub(crate) struct Failed {
    code: Code,
    message: String,
}

impl Failed {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// Prints the message and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        // Standard error may be closed; the exit code still tells.
        let _ = writeln!(std::io::stderr(), "steplake: {}", self.message);
        ExitCode::from(self.code as u8)
    }
}

impl From<LakeError> for Failed {
    fn from(error: LakeError) -> Self {
        let usage = matches!(error, LakeError::NoSnapshot { .. });
        Self::new(if usage { Code::Usage } else { Code::Lake }, lake_line(&error))
    }
}

impl From<QueryError> for Failed {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Store(error) => error.into(),
            other => Self::new(Code::Failed, line(&other)),
        }
    }
}
