//! Where a run gets its programs from.

use steplake_model::{Baselines, Benchmark, BenchmarkUri, Error};

/// A source of programs.
pub trait ProgramProvider: Sync {
    /// Returns the program called `uri`.
    ///
    /// # Errors
    ///
    /// Those of the source. A run ends with them as
    /// [`GenerateError::Program`](super::GenerateError::Program).
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, Error>;

    /// Returns the program's baselines, if an earlier run has stored them.
    fn baselines(&self, benchmark: &Benchmark) -> Option<Baselines> {
        let _ = benchmark;
        None
    }

    /// Stores the baselines of a program that has just started for later runs, if possible.
    fn keep_baselines(&self, benchmark: &Benchmark, baselines: &Baselines) {
        let _ = (benchmark, baselines);
    }
}
