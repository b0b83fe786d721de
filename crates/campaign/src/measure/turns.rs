//! Versions of one program that are timed in turns.

use std::time::Duration;

use super::compilation::{CodeGeneration, compilation};
use super::times::median;
use steplake_model::Execution;
use steplake_programs::execution::{
    Executable, ExecutionError, Oracle, RunSettings, UNTOUCHED_RUN_MAX, Untimed, tool_version,
};
use steplake_sandbox::Interrupt;

/// A program whose versions are timed: only runs count that do what the program does untouched.
#[derive(Debug)]
pub struct Contest {
    oracle: Oracle,
    compilation: String,
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
    /// `generation` says. `settings` are for all versions; their limits of time are set here.
    ///
    /// # Errors
    ///
    /// Those of [`tool_version`], [`Oracle::of`] and [`Oracle::for_times`].
    pub fn new(
        execution: &Execution,
        settings: RunSettings,
        generation: CodeGeneration,
        untouched: &[u8],
    ) -> Result<Self, ExecutionError> {
        let tool = tool_version(&execution.build, &settings)?;
        let settings = RunSettings { run_limit: UNTOUCHED_RUN_MAX, ..settings };
        let oracle = Oracle::of(execution, untouched, &settings, &Interrupt::default())?;
        let oracle = oracle.for_times()?;
        Ok(Self { oracle, compilation: compilation(execution, generation, &tool) })
    }

    /// What the versions have to do.
    pub fn oracle(&self) -> &Oracle {
        &self.oracle
    }

    /// Returns how the versions are made and run, for the column `compilation`.
    pub fn compilation(&self) -> &str {
        &self.compilation
    }

    /// Runs versions so many times in turns, each round beginning with another one, and returns the
    /// wall times of each in seconds. `interrupt` is asked before each run.
    ///
    /// # Errors
    ///
    /// [`NoTimes`].
    pub fn turns(
        &self,
        versions: &[&Executable],
        rounds: usize,
        interrupt: &Interrupt,
    ) -> Result<Vec<Vec<f64>>, NoTimes> {
        let mut samples = vec![Vec::with_capacity(rounds); versions.len()];
        for round in 0..rounds {
            for turn in 0..versions.len() {
                if interrupt.is_raised() {
                    return Err(NoTimes::Stopped);
                }
                let place = (round + turn) % versions.len();
                let took = self.oracle.time(versions[place]);
                // What was wrong once may be the machine's fault.
                let took = match took {
                    Err(Untimed { is_wrong: false, .. }) => self.oracle.time(versions[place]),
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
