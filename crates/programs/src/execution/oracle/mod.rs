//! What a program has to do when it runs: for validation, measuring and tuning alike.
//!
//! The program's own runs untouched, before any action, say it: how it ends, what it prints, and
//! which files it writes. It is built twice and run in two folders and in different seconds, and
//! has to do the same in both: what depends on the folder or the time tells nothing.
//!
//! # The rule for ends
//!
//! | untouched, the program | then |
//! |---|---|
//! | ends by itself, with any exit code | every later run has to end with the same one |
//! | is ended by a signal or a limit | there is no oracle: where it is cut off is not its doing |
//! | is not run by its shell, or crashes in it | there is none: every state would show the same |
//!
//! A program that ends with another exit code than 0 after it failed to open files has an oracle,
//! with a [remark](Oracle::remark) that names them. It may have looked for a file that it can do
//! without, and its exit code alone does not tell. It has no times ([`Oracle::for_times`]): those
//! of a program that did not get what it reads say nothing.

mod difference;

use std::time::Duration;

pub use self::difference::Difference;
use super::behaviour::{Behaviour, ProgramEnd, ProgramRun};
use super::error::ExecutionError;
use super::executable::{Executable, ExecutableCode};
use super::settings::RunSettings;
use steplake_model::Execution;
use steplake_sandbox::Interrupt;

/// The most time of a run untouched where somebody waits for what comes after it.
pub const UNTOUCHED_RUN_MAX: Duration = Duration::from_mins(1);

/// The least time that a program gets after actions.
const RUN_MIN: Duration = Duration::from_secs(10);

/// How much longer than untouched a program may take after actions. Passes slow a program down by
/// less, and a busy machine too.
const RUN_FACTOR: u32 = 20;

/// What a program has to do, as it does untouched.
#[derive(Debug)]
pub struct Oracle {
    execution: Execution,
    /// With the limit of time for later runs.
    settings: RunSettings,
    expected: Behaviour,
    remark: Option<String>,
}

/// Why a run has no time that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untimed {
    /// What was wrong, one line.
    pub what: String,
    /// Whether the program does something else than it should, also when it runs again.
    pub is_wrong: bool,
}

impl From<ExecutionError> for Untimed {
    fn from(error: ExecutionError) -> Self {
        Self { what: error.to_string(), is_wrong: false }
    }
}

impl Oracle {
    /// Finds out what a program has to do, whose code untouched is `code`. The runs for that have
    /// the limit of time of `settings`; those after them get 20 times as long as these took, and
    /// ten seconds at least. `interrupt` is asked before each build and each run.
    ///
    /// # Errors
    ///
    /// Those of [`Executable::build`] and [`Executable::run`]; [`ExecutionError::Stopped`];
    /// [`ExecutionError::TimedOut`] and [`ExecutionError::RunFailed`] if the program does not end
    /// by itself, and [`ExecutionError::Unsteady`] if it does not do the same in both runs.
    pub fn of(
        execution: &Execution,
        code: &[u8],
        settings: &RunSettings,
        interrupt: &Interrupt,
    ) -> Result<Self, ExecutionError> {
        let go_on = || if interrupt.is_raised() { Err(ExecutionError::Stopped) } else { Ok(()) };
        let built_and_run = || {
            go_on()?;
            let executable =
                Executable::build(execution, ExecutableCode::of(&execution.build, code), settings)?;
            go_on()?;
            let run = executable.run(&[])?;
            Ok::<_, ExecutionError>((executable, run))
        };
        let (executable, first) = built_and_run()?;
        let end = first.behaviour.end;
        if end == ProgramEnd::TimedOut {
            let limit = executable.run_command()?.timeout(settings.run_limit);
            return Err(ExecutionError::TimedOut { what: "a run".to_owned(), limit });
        }
        let mut unopened = None;
        if end.is_error() {
            go_on()?;
            unopened = executable.unopened();
        }
        if !end.tells_right_from_wrong() {
            return Err(ExecutionError::run_failed(&first, unopened));
        }
        first.let_a_second_pass();
        let (_, second) = built_and_run()?;
        if let Some(difference) = Difference::between(&first.behaviour, &second.behaviour) {
            return Err(ExecutionError::Unsteady { what: difference.line() });
        }
        let run_limit = RUN_MIN.max(first.wall_time.max(second.wall_time) * RUN_FACTOR);
        Ok(Self {
            execution: execution.clone(),
            settings: RunSettings { run_limit, ..settings.clone() },
            expected: first.behaviour,
            remark: unopened.map(|unopened| format!("untouched, {end}; {unopened}")),
        })
    }

    /// What limits what it tells, in one line: that the program ends with an error untouched,
    /// having failed to open files.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// For those who want times: refuses a program with a [remark](Oracle::remark).
    ///
    /// # Errors
    ///
    /// [`ExecutionError::RunFailed`].
    pub fn for_times(self) -> Result<Self, ExecutionError> {
        match self.remark {
            Some(detail) => Err(ExecutionError::RunFailed { detail }),
            None => Ok(self),
        }
    }

    /// Gives later runs so much time.
    #[must_use]
    pub fn with_run_limit(mut self, run_limit: Duration) -> Self {
        self.settings.run_limit = run_limit;
        self
    }

    /// The settings of builds and runs after actions.
    pub fn settings(&self) -> &RunSettings {
        &self.settings
    }

    /// Builds the program of its code after some actions.
    ///
    /// # Errors
    ///
    /// Those of [`Executable::build`].
    pub fn build(&self, code: &[u8]) -> Result<Executable, ExecutionError> {
        Executable::build(
            &self.execution,
            ExecutableCode::of(&self.execution.build, code),
            &self.settings,
        )
    }

    /// Says how a run differs from what the program has to do.
    pub fn difference(&self, run: &ProgramRun) -> Option<Difference> {
        Difference::between(&self.expected, &run.behaviour)
    }

    /// Runs a program once and returns the wall time, if it does what it has to do.
    ///
    /// # Errors
    ///
    /// [`ExecutionError::Differs`], and those of [`Executable::run`].
    pub fn run(&self, executable: &Executable) -> Result<Duration, ExecutionError> {
        self.time_of(&executable.run(&[])?)
    }

    /// Returns the wall time of a run, if it did what it has to do.
    ///
    /// # Errors
    ///
    /// [`ExecutionError::Differs`].
    pub fn time_of(&self, run: &ProgramRun) -> Result<Duration, ExecutionError> {
        let differs = |difference: Difference| ExecutionError::Differs { what: difference.line() };
        self.difference(run).map_or(Ok(run.wall_time), |difference| Err(differs(difference)))
    }

    /// Runs a program once and returns the wall time, if it does what it has to do.
    ///
    /// # Errors
    ///
    /// Why there is none. A wrong result is confirmed by a second run.
    pub fn time(&self, executable: &Executable) -> Result<Duration, Untimed> {
        let what = match self.run(executable) {
            Err(ExecutionError::Differs { what }) => what,
            other => return Ok(other?),
        };
        match self.run(executable) {
            Err(ExecutionError::Differs { .. }) => Err(Untimed { what, is_wrong: true }),
            again => {
                again?;
                let what = format!("seen once, and not when it ran again: {what}");
                Err(Untimed { what, is_wrong: false })
            }
        }
    }
}
