//! Why a program could not be built or run.

use std::io;
use std::time::Duration;

use super::behaviour::ProgramRun;
use steplake_model::{BadExecution, Classified, ErrorKind, Remedy};
use steplake_sandbox::{Missing, ProcessError};

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
    /// A command before or after runs, the build, or a run of the program untouched took too long.
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
    /// It names files that are not in the scratch folder.
    #[error("it may not be built or run: {0}")]
    Refused(#[from] BadExecution),
    /// An input is not at hand, or another file lies in its place.
    #[error("the program needs the input `{name}` ({blake3}), which is not in the cache: {why}")]
    MissingInput {
        /// Its name.
        name: String,
        /// The digest of its content.
        blake3: String,
        /// What is wrong.
        why: String,
    },
    /// What an earlier run left lies where an input belongs.
    #[error("the input `{name}` cannot be put into the scratch folder: {why}")]
    NotPlaced {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// What starts the program, and sets its limits, failed.
    #[error("the program could not be set up: {detail}")]
    NotSetUp {
        /// The first line of the error output.
        detail: String,
    },
    /// A command before or after runs failed.
    #[error("{what} failed: {detail}")]
    CommandFailed {
        /// The command's task.
        what: String,
        /// The first error line, or the way it ended.
        detail: String,
    },
    /// The program untouched did not end by itself, or a kernel not as it has to: that says nothing
    /// of right and wrong.
    #[error("a run of the program failed: {detail}")]
    RunFailed {
        /// The way it ended, the first line of its error output, and which files it could not open.
        detail: String,
    },
    /// Two runs of the program untouched differ.
    #[error("it does not do the same whenever it runs: {what}")]
    Unsteady {
        /// How they differ, one line.
        what: String,
    },
    /// A run differs from what the program does untouched.
    #[error("the program does something else than untouched: {what}")]
    Differs {
        /// How it differs, one line.
        what: String,
    },
    /// Whoever waited for runs gave up.
    #[error("the runs were stopped")]
    Stopped,
    /// This machine does not let programs run.
    #[error("a program cannot be built or run on this machine")]
    Machine(#[from] io::Error),
}

impl ExecutionError {
    /// Whether this machine cannot build or run programs, whatever the program is.
    pub fn is_of_machine(&self) -> bool {
        matches!(self, Self::ToolMissing { .. } | Self::NotSetUp { .. } | Self::Machine(_))
    }

    /// The error for a run that did not end as it has to. `unopened` says which files the program
    /// could not open.
    pub fn run_failed(run: &ProgramRun, unopened: Option<String>) -> Self {
        let stderr = String::from_utf8_lossy(&run.stderr);
        let said = first_line(&stderr).map(|line| format!(", and said: {line}"));
        let unopened = unopened.map(|unopened| format!("; {unopened}"));
        let (said, unopened) = (said.unwrap_or_default(), unopened.unwrap_or_default());
        Self::RunFailed { detail: format!("{}{said}{unopened}", run.behaviour.end) }
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
            ProcessError::NotSetUp(stderr) => {
                let line = first_line(&stderr);
                let detail = line.unwrap_or_else(|| "it ended before its program began".to_owned());
                Self::NotSetUp { detail }
            }
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

impl Classified for ExecutionError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        let of_machine = self.is_of_machine();
        (if of_machine { ErrorKind::Failed } else { ErrorKind::ProgramFailed }, None)
    }
}
