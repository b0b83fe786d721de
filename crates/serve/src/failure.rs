//! How the program fails: one line on standard error and an exit code, both as those of `steplake`.

use std::io::Write;
use std::process::ExitCode;

use steplake::cli::messages::line;
use steplake::query::QueryError;
use steplake::store::StoreError;

/// Whose turn it is to do something about a failure. The numbers are documented in
/// `steplake --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Something did not work.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The lake cannot be used.
    Lake = 3,
}

/// A program that failed.
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

    /// Says what happened and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        // Nobody may be left to read it; the exit code says it all the same.
        let _ = writeln!(std::io::stderr(), "steplake: {}", self.message);
        ExitCode::from(self.code as u8)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        let usage = matches!(error, StoreError::NoSnapshot { .. });
        Self::new(if usage { Code::Usage } else { Code::Lake }, line(&error))
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
