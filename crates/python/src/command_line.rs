//! The command `steplake`, run by the module: a program of its own would hold all of it again.

use std::ffi::OsString;

use pyo3::prelude::*;
use steplake::cli;

/// Runs a command line, whose first word is the name of the program, and returns the exit code.
#[pyfunction]
pub(crate) fn command_line(py: Python<'_>, line: Vec<OsString>) -> u8 {
    py.detach(|| match cli::main(line) {
        Ok(()) => 0,
        Err(error) => {
            error.report();
            error.code() as u8
        }
    })
}
