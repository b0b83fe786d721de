//! Serves a lake to Arrow clients: `steplake serve`.
//!
//! The modules are listed in the order in which a request passes through them.

// Parse, run, exit code.
mod arguments;

// Connections and access.
mod server;
mod incoming;
mod drain_on_close;
mod token;
mod health;

// Requests of clients.
mod flight;
mod service;
mod metadata;
mod tickets;
mod handles;

// Answers.
mod queries;
mod response_channel;
mod newest;
mod wire;
mod status;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // The IR of states that are not stored is rebuilt in processes of this program, executed again.
    if let Some(code) = steplake::assembly::worker::serve_if_worker() {
        return code;
    }
    let arguments = arguments::Arguments::parse();
    steplake::assembly::messages::begin(arguments.global.verbose, Some("steplake_serve"));
    steplake::assembly::open_files::raise_limit();
    steplake::assembly::command_error::exit_code(server::run(&arguments))
}
