//! The command `steplake`, run by the module: a program of its own would hold all of it again.

use std::ffi::OsString;

use pyo3::prelude::*;
use steplake::cli;
use steplake_terminal::exit;

use crate::compilers::worker::environments;

/// Runs a command line, whose first word is the name of the program, and returns the exit code.
#[pyfunction]
pub(crate) fn command_line(py: Python<'_>, line: Vec<OsString>) -> u8 {
    py.detach(|| match cli::main(&environments(), line) {
        Ok(()) => 0,
        Err(error) => {
            exit::report(&error);
            exit::code(error.kind())
        }
    })
}
