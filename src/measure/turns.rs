//! Versions of one program that are timed in turns.

use std::time::Duration;

use super::runs::{CodeGeneration, Untimed, build, compilation, expected, time};
use super::times::median;
use crate::execution::{Behaviour, Executable, ExecutionError, Settings, tool_version};
use crate::model::Execution;

/// The most time of a run of the program untouched.
const UNTOUCHED_RUN_MAX: Duration = Duration::from_mins(1);

/// The least time that any version gets, and how much longer than the program untouched it may
/// take: passes slow a program down by less, and a busy machine too.
const RUN_MIN: Duration = Duration::from_secs(10);
const RUN_FACTOR: u32 = 20;

/// A program whose versions are timed: only runs count that do what the program does untouched.
#[derive(Debug)]
pub struct Contest {
    execution: Execution,
    settings: Settings,
    compilation: String,
    expected: Behaviour,
}

/// Why versions of a program cannot be timed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContestError {
    /// This machine cannot build or run programs.
    #[error(transparent)]
    Machine(ExecutionError),
    /// The program itself cannot be built or run, or does not do the same whenever it runs.
    #[error("{0}")]
    Program(String),
}

/// Why there are no times of versions in turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoTimes {
    /// The caller stopped the work.
    Stopped,
    /// The version at this place has no time, so that the others cannot be compared with it.
    Of(usize, Untimed),
}

impl Contest {
    /// Finds out what a program does untouched, whose code is `untouched`, made in the way that
    /// `generation` says. `settings` are for all versions; their limit of time is set here.
    ///
    /// # Errors
    ///
    /// [`ContestError`].
    pub fn new(
        execution: &Execution,
        settings: Settings,
        generation: CodeGeneration,
        untouched: &[u8],
    ) -> Result<Self, ContestError> {
        let of_the_program = |error: ExecutionError| match error {
            ExecutionError::ToolMissing { .. }
            | ExecutionError::NotSetUp { .. }
            | ExecutionError::MissingInput { .. }
            | ExecutionError::Machine(_) => ContestError::Machine(error),
            other => ContestError::Program(other.to_string()),
        };
        let tool = tool_version(&execution.build, &settings).map_err(of_the_program)?;
        let first = Settings { run_limit: UNTOUCHED_RUN_MAX, ..settings.clone() };
        let executable = build(execution, untouched, &first).map_err(of_the_program)?;
        let expected = expected(execution, untouched, &first, &executable);
        let expected = expected.map_err(ContestError::Program)?;
        let took = time(&executable, &expected);
        let took = took.map_err(|untimed| ContestError::Program(untimed.what))?;
        let run_limit = RUN_MIN.max(took * RUN_FACTOR);
        Ok(Self {
            execution: execution.clone(),
            settings: Settings { run_limit, ..settings },
            compilation: compilation(execution, generation, &tool),
            expected,
        })
    }

    /// Returns how the versions are made and run, for the column `compilation`.
    pub fn compilation(&self) -> &str {
        &self.compilation
    }

    /// Builds a version of its code.
    ///
    /// # Errors
    ///
    /// Those of [`build`].
    pub fn build(&self, code: &[u8]) -> Result<Executable, ExecutionError> {
        build(&self.execution, code, &self.settings)
    }

    /// Runs versions so many times in turns, each round beginning with another one, and returns the
    /// wall times of each in seconds. `is_stopped` is asked before each run.
    ///
    /// # Errors
    ///
    /// [`NoTimes`].
    pub fn turns(
        &self,
        versions: &[&Executable],
        rounds: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<f64>>, NoTimes> {
        let mut samples = vec![Vec::with_capacity(rounds); versions.len()];
        for round in 0..rounds {
            for turn in 0..versions.len() {
                if is_stopped() {
                    return Err(NoTimes::Stopped);
                }
                let place = (round + turn) % versions.len();
                let took = time(versions[place], &self.expected);
                // What was wrong once may be the machine's fault.
                let took = match took {
                    Err(Untimed { is_wrong: false, .. }) => time(versions[place], &self.expected),
                    took => took,
                };
                let took = took.map_err(|untimed| NoTimes::Of(place, untimed))?;
                samples[place].push(took.as_secs_f64());
            }
        }
        Ok(samples)
    }
}

/// Returns how many rounds of turns take about so much time, within bounds, as samples of the
/// versions say how long a run takes.
pub fn rounds_within(
    time: Duration,
    samples: &[impl AsRef<[f64]>],
    (least, most): (usize, usize),
) -> usize {
    let round: f64 =
        samples.iter().map(AsRef::as_ref).filter(|one| !one.is_empty()).map(median).sum();
    let fits = |rounds: &usize| f64::from(u32::try_from(*rounds).unwrap_or(u32::MAX)) * round;
    (least..=most).rev().find(|rounds| fits(rounds) <= time.as_secs_f64()).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_fit_the_time_within_their_bounds() {
        let rounds = |seconds: u64, of: f64| {
            rounds_within(Duration::from_secs(seconds), &[vec![of], vec![of, of]], (15, 51))
        };
        assert_eq!((rounds(20, 0.25), rounds(20, 9.0), rounds(20, 0.001)), (40, 15, 51));
    }
}
