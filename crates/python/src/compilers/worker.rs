//! What the library needs to know of the package: the program of worker processes.

use std::path::PathBuf;
use std::sync::OnceLock;

use pyo3::prelude::*;
use steplake::env::Environment as _;
use steplake::env::llvm::LlvmEnvironment;
use steplake::environments::Environments;
use steplake_terminal::messages;

use crate::interpreter::errors::{PendingException, raise};

/// The environments of this process, whose workers execute what [`begin`] was told. Calls from
/// Python cannot hand it on.
static ENVIRONMENTS: OnceLock<Environments> = OnceLock::new();

/// Has worker processes execute the program at `worker`, and the library write its warnings to
/// standard error, or what the variable `STEPLAKE_LOG` selects. A process calls it once.
#[pyfunction]
pub(crate) fn begin(worker: PathBuf, is_command: bool) -> PyResult<()> {
    // A command line chooses its messages itself.
    if !is_command {
        messages::begin(0, None);
    }
    let environments = Environments::with_worker_program(&worker).map_err(|error| {
        let message = format!(
            "the worker program {} cannot be opened ({error}): install the package steplake anew",
            worker.display()
        );
        raise(PendingException::new("CompilerUnavailable", message))
    })?;
    let _ = ENVIRONMENTS.set(environments);
    Ok(())
}

/// Returns the environments of this process.
pub(crate) fn environments() -> Environments {
    ENVIRONMENTS.get().cloned().unwrap_or_default()
}

/// The compiler of `llvm-v0`, with its exact build.
#[pyfunction]
pub(crate) fn compiler() -> String {
    LlvmEnvironment::new().spec().compiler.clone()
}
