//! A worker process and nothing else: the compiler, without lake and queries.

use std::process::ExitCode;

use steplake::assembly::command_error::CommandError;
use steplake::assembly::worker::serve_if_worker;

fn main() -> ExitCode {
    serve_if_worker().unwrap_or_else(|| {
        let message = "steplake-worker is started by the Python package steplake, as a worker \
                       process; the command-line program is `steplake`";
        CommandError::usage(message).report()
    })
}
