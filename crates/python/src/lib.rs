//! `steplake._steplake`: the library as a Python module.
//!
//! The classes here hold values of the library and convert what goes in and out. What is about
//! Python alone, such as Gymnasium's spaces, is in `python/steplake`.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments are converted from Python for the call"
)]
#![expect(clippy::doc_markdown, reason = "docstrings of Python are in numpy style, not Markdown")]

mod command_line;
mod compilers;
mod glibc;
mod interpreter;
mod lakes;

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
    const EPISODE_LENGTH: u32 = steplake::recording::EPISODE_LENGTH;
    #[pymodule_export]
    use super::command_line::command_line;
    #[pymodule_export]
    use crate::compilers::benchmark::{Benchmark, unpickled_benchmark};
    #[pymodule_export]
    use crate::compilers::environment::{Environment, environments};
    #[pymodule_export]
    use crate::compilers::generate::{RunSummary, generate};
    #[pymodule_export]
    use crate::compilers::measurement::MeasureReport;
    #[pymodule_export]
    use crate::compilers::recording::Recording;
    #[pymodule_export]
    use crate::compilers::replay::Coverage;
    #[pymodule_export]
    use crate::compilers::session::{Session, Step, step_all};
    #[pymodule_export]
    use crate::compilers::validation::check_semantics;
    #[pymodule_export]
    use crate::compilers::worker::{begin, compiler};
    #[pymodule_export]
    use crate::interpreter::runtime::before_fork;
    #[pymodule_export]
    use crate::lakes::answer::Answer;
    #[pymodule_export]
    use crate::lakes::dataset::{BatchReader, Dataset};
    #[pymodule_export]
    use crate::lakes::lake::Lake;
    #[pymodule_export]
    use crate::lakes::listed::{NamedQuery, Relation};
    #[pymodule_export]
    use crate::lakes::upkeep::{BackfillReport, DedupReport, Verification};
}
