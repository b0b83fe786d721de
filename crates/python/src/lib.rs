//! `steplake._steplake`: the library as a Python module.
//!
//! The classes here hold values of the library and convert what goes in and out. What is about
//! Python alone, such as Gymnasium's spaces, is in `python/steplake`.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments are converted from Python for the call"
)]
#![expect(clippy::doc_markdown, reason = "docstrings of Python are in numpy style, not Markdown")]

// Values of one process, and its runtime.
mod of_process;
mod runtime;

// What passes the border.
mod wording;
mod errors;
mod parameters;
mod batches;
mod states;
mod values;

// Lakes.
mod progress;
mod engines;
mod stream;
mod rows;
mod answer;
mod upkeep;
mod measurement;
mod listed;
mod lake;

// Rows for training.
mod dataset;

// Environments.
mod benchmark;
mod machine;
mod open_session;
mod run;
mod session;
mod replay;
mod declaration;
mod compiler;
mod environment;
mod validation;
mod recording;
mod generate;
mod worker;

// The program.
mod command_line;
mod glibc;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule]
mod _steplake {
    /// The version of the package.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "it is Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    /// The steps of an episode, where nobody says how many.
    #[pymodule_export]
    const EPISODE_LENGTH: u32 = steplake::assembly::recording::EPISODE_LENGTH;
    #[pymodule_export]
    use super::answer::Answer;
    #[pymodule_export]
    use super::benchmark::{Benchmark, unpickled_benchmark};
    #[pymodule_export]
    use super::command_line::command_line;
    #[pymodule_export]
    use super::dataset::{BatchReader, Dataset};
    #[pymodule_export]
    use super::environment::{Environment, environments};
    #[pymodule_export]
    use super::generate::{RunSummary, generate};
    #[pymodule_export]
    use super::lake::Lake;
    #[pymodule_export]
    use super::listed::{NamedQuery, Relation};
    #[pymodule_export]
    use super::measurement::MeasureReport;
    #[pymodule_export]
    use super::recording::Recording;
    #[pymodule_export]
    use super::replay::Coverage;
    #[pymodule_export]
    use super::runtime::before_fork;
    #[pymodule_export]
    use super::session::{Session, step_all};
    #[pymodule_export]
    use super::upkeep::{BackfillReport, DedupReport, Verification};
    #[pymodule_export]
    use super::validation::check_semantics;
    #[pymodule_export]
    use super::wording::in_python;
    #[pymodule_export]
    use super::worker::{begin, compiler};
}
