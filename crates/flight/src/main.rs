//! Serves a lake to Arrow clients over Flight SQL: `steplake serve`.
//!
//! The modules are listed in the order in which a request passes through them.

#![forbid(unsafe_code)]

// Parse, run, exit code.
mod arguments;

// From start to stop, and access.
mod server;
mod health;

// Requests of clients.
mod flight;
mod service;
mod metadata;
mod tickets;
mod handles;

// Answers.
mod wire;
mod in_order;

#[cfg(test)]
#[path = "../../../tests/it/fixtures/programs.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod programs;
#[cfg(test)]
#[path = "../../server/tests/fixtures/served.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod served;

use std::process::ExitCode;

use clap::Parser as _;
use steplake_terminal::exit::exit_code;

fn main() -> ExitCode {
    // The IR of states that are not stored is rebuilt in processes of this program, executed again.
    if let Some(code) = steplake::compilers::serve_if_worker() {
        return code;
    }
    let arguments = arguments::Arguments::parse();
    steplake_server::begin(arguments.global.verbose, "steplake_flight");
    exit_code(server::run(&arguments))
}
