//! What the library needs to know of the package: the program of worker processes.

use std::path::PathBuf;

use pyo3::prelude::*;
use steplake::assembly::messages;
use steplake::assembly::worker_program::set_program;
use steplake::env::Environment as _;
use steplake::env::llvm::LlvmEnvironment;

use crate::errors::{Failure, raise};
use crate::wording::in_python;

/// Has worker processes execute the program at `worker`, and the library write its warnings to
/// standard error, or what the variable `STEPLAKE_LOG` selects. A process calls it once.
#[pyfunction]
pub(crate) fn begin(worker: PathBuf, is_command: bool) -> PyResult<()> {
    // A command line chooses its messages itself.
    if !is_command {
        messages::begin_as(0, None, Some(in_python));
    }
    set_program(&worker).map_err(|error| {
        let message = format!(
            "the worker program {} cannot be opened ({error}): install the package steplake anew",
            worker.display()
        );
        raise(Failure::new("CompilerUnavailable", message))
    })
}

/// The compiler of `llvm-v0`, with its exact build.
#[pyfunction]
pub(crate) fn compiler() -> String {
    LlvmEnvironment::new().spec().compiler.clone()
}
