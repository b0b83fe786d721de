//! Why a program could not be built or run.

use std::io;
use std::time::Duration;

use super::behaviour::Run;
use crate::sandbox::{Missing, ProcessError};

/// Why a program could not be built or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutionError {
    /// A required program is not installed.
    #[error("{tool} is not installed: apt-get install {package}")]
    ToolMissing {
        /// The program.
        tool: String,
        /// The Debian packages that provide it.
        package: &'static str,
    },
    /// The caller gave an object where a program is wanted, or the reverse.
    #[error(
        "a command builds a program, and a linker links an object: give the one that is wanted"
    )]
    WrongCode,
    /// The linker or the build command failed, or made no executable.
    #[error("the program cannot be built: {detail}")]
    BuildFailed {
        /// The first error line, or the way it ended.
        detail: String,
    },
    /// A command before or after runs, or the build, took too long.
    #[error("{what} was stopped after {} s", limit.as_secs_f64())]
    TimedOut {
        /// The command's task.
        what: String,
        /// The limit of wall time.
        limit: Duration,
    },
    /// The benchmark says how it is built, but not how it is run.
    #[error("the benchmark has no command that runs it, so it has no run time and no output")]
    NotRunnable,
    /// A command needs a file that is not there.
    #[error("a command needs the file `{file}`, which is not there")]
    MissingFile {
        /// Its name, as the command declares it.
        file: String,
    },
    /// A command before or after runs failed.
    #[error("{what} failed: {detail}")]
    CommandFailed {
        /// The command's task.
        what: String,
        /// The first error line, or the way it ended.
        detail: String,
    },
    /// A run that is measured did not end by itself with exit code 0, so its time says nothing.
    #[error("the program did not run to its end: {detail}")]
    RunFailed {
        /// The way it ended, and the first line of its error output.
        detail: String,
    },
    /// This machine does not let programs run.
    #[error("a program cannot be built or run on this machine")]
    Machine(#[from] io::Error),
}

impl ExecutionError {
    pub(super) fn run_failed(run: &Run) -> Self {
        let stderr = String::from_utf8_lossy(&run.stderr);
        let detail = match first_line(&stderr) {
            Some(line) => format!("{}, and said: {line}", run.behaviour.end),
            None => run.behaviour.end.to_string(),
        };
        Self::RunFailed { detail }
    }
}

impl From<Missing> for ExecutionError {
    fn from(Missing { name, package }: Missing) -> Self {
        Self::ToolMissing { tool: name.to_owned(), package }
    }
}

impl From<ProcessError> for ExecutionError {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::Missing(missing) => missing.into(),
            ProcessError::Io(error) => Self::Machine(error),
        }
    }
}

/// The most of an error line that goes into a message.
const LINE_MAX_CHARS: usize = 300;

/// Returns the first line of an error output that reports an error, else the first line.
pub(super) fn first_line(stderr: &str) -> Option<String> {
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let speaks =
        |line: &&str| ["error: ", "undefined reference"].iter().any(|word| line.contains(word));
    let line = lines().find(speaks).or_else(|| lines().next())?;
    Some(line.chars().filter(|c| !c.is_control()).take(LINE_MAX_CHARS).collect())
}
