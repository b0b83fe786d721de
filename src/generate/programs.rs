//! Where a run gets its programs from.

use crate::model::{Baselines, Benchmark, BenchmarkUri};

/// Why a program is not available, in one line for the user: what it is, why, and what to do. The
/// implementor of [`Programs`] knows the type, and can downcast the content of a
/// [`GenerateError::Program`](super::GenerateError::Program).
pub type ProgramError = Box<dyn std::error::Error + Send + Sync>;

/// A source of programs.
pub trait Programs: Sync {
    /// Returns the program called `uri`.
    ///
    /// # Errors
    ///
    /// Those of the source.
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, ProgramError>;

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
