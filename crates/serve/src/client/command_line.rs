//! Command lines of `steplake` that play in the environment of a service.

use std::ffi::OsString;

use steplake::assembly::command_error::CommandError;
use steplake::assembly::services;
use steplake::cli;

use super::environment::open;

/// Runs a command line without its first word, the name of the program.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn run(line: impl Iterator<Item = OsString>) -> Result<(), CommandError> {
    services::set_open(open);
    cli::main(std::iter::once("steplake".into()).chain(line))
}
