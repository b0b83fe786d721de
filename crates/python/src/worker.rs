//! The program of worker processes, which the package brings along.

use std::path::PathBuf;

use pyo3::prelude::*;
use steplake::assembly::worker_program::set_program;
use steplake::env::Environment as _;
use steplake::env::llvm::LlvmEnvironment;

use crate::errors::{Failure, raise};

/// Has worker processes execute the program at `path`.
#[pyfunction]
pub(crate) fn set_worker(path: PathBuf) -> PyResult<()> {
    set_program(&path).map_err(|error| {
        let message = format!(
            "the worker program {} cannot be opened ({error}): install the package steplake anew",
            path.display()
        );
        raise(Failure::new("CompilerUnavailable", message))
    })
}

/// The compiler of `llvm-v0`, with its exact build.
#[pyfunction]
pub(crate) fn compiler() -> String {
    LlvmEnvironment::new().spec().compiler.clone()
}
