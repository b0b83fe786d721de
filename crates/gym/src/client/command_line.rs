//! Command lines of `steplake` that play in the environment of a service.

use std::ffi::OsString;

use steplake::Error;
use steplake::cli;
use steplake::environments::Environments;

use super::environment::open;

/// Runs a command line without its first word, the name of the program.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn run(line: Vec<OsString>) -> Result<(), Error> {
    let environments = Environments::with_services(open);
    cli::main(&environments, std::iter::once("steplake".into()).chain(line))
}
