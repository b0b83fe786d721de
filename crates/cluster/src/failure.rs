//! How a command fails: one line on standard error and an exit code, as `steplake` itself has them.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use steplake::cli::messages::line;
use steplake::dedup::ReplacementError;
use steplake::query::QueryError;
use steplake::store::StoreError;

/// A command that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    code: u8,
    message: String,
}

impl Failed {
    /// Something did not work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }

    /// The command line or a query is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }

    fn of(code: u8, error: &dyn std::error::Error) -> Self {
        Self { code, message: line(error) }
    }

    /// Says what happened and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        // Nobody may be left to read it; the exit code says it all the same.
        let _ = writeln!(std::io::stderr(), "steplake: {}", self.message);
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        let code = if matches!(error, StoreError::NoSnapshot { .. }) { 2 } else { 3 };
        Self::of(code, &error)
    }
}

impl From<QueryError> for Failed {
    fn from(error: QueryError) -> Self {
        let code = match error {
            QueryError::Store(_) => 3,
            QueryError::Memory(_) | QueryError::Failed(_) | QueryError::Write(_) => 1,
            _ => 2,
        };
        Self::of(code, &error)
    }
}

impl From<ReplacementError> for Failed {
    fn from(error: ReplacementError) -> Self {
        match error {
            ReplacementError::Store(error) => error.into(),
            other => Self::of(1, &other),
        }
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self::of(1, &error)
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Self::failed(format!("{error:#}"))
    }
}
