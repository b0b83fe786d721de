//! Serves a lake to Arrow clients, or sessions to clients of `CompilerGym`: `steplake serve`. Shows
//! a lake and live sessions in the browser: `steplake explore`. Plays in the sessions of other
//! services: `--env grpc://…`.
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

// Sessions for clients of CompilerGym.
mod compiler_gym;

// Sessions that are answered from a lake.
mod cache;

// Environments of other services.
mod client;

// A page about the lake and live sessions.
mod explorer;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::Parser as _;
use steplake::assembly::command_error::exit_code;

fn main() -> ExitCode {
    // The IR of states that are not stored is rebuilt in processes of this program, executed again.
    if let Some(code) = steplake::assembly::worker::serve_if_worker() {
        return code;
    }
    let other = serve_sessions().or_else(play_in_a_service).or_else(run_a_tool).or_else(explore);
    if let Some(code) = other {
        return code;
    }
    let arguments = arguments::Arguments::parse();
    begin(arguments.global.verbose);
    exit_code(server::run(&arguments))
}

/// Serves sessions if the command line says so, else returns `None`.
fn serve_sessions() -> Option<ExitCode> {
    use compiler_gym::arguments::{COMMAND, ManagedArguments, OPTION, ServerArguments};

    let mut line = std::env::args_os();
    if line.any(|argument| argument == OPTION) {
        let arguments = ServerArguments::parse();
        begin(arguments.verbose);
        return Some(exit_code(compiler_gym::server::run(arguments)));
    }
    let (command, line) = handed_on()?;
    let command = Some(command).filter(|command| command == COMMAND)?;
    let added = std::env::var_os("COMPILER_GYM_SERVICE_ARGS");
    let line = std::iter::once(command).chain(line);
    let arguments = ManagedArguments::parse_line(line, added.as_ref());
    begin(arguments.verbose);
    Some(exit_code(compiler_gym::server::run_managed(arguments)))
}

/// Runs a command of `steplake` that was handed on because it plays in the environment of a
/// service, else returns `None`.
fn play_in_a_service() -> Option<ExitCode> {
    let (_command, line) = handed_on().filter(|(command, _)| command == client::COMMAND)?;
    Some(exit_code(client::command_line::run(line)))
}

/// Runs a stand-in for a program of `CompilerGym` if the command line says so, else returns `None`.
fn run_a_tool() -> Option<ExitCode> {
    let (_command, line) =
        handed_on().filter(|(command, _)| command == compiler_gym::tools::COMMAND)?;
    begin(0);
    Some(exit_code(compiler_gym::tools::run(line)))
}

/// Serves the explorer if the command line says so, else returns `None`.
fn explore() -> Option<ExitCode> {
    use explorer::arguments::{COMMAND, ExploreArguments};

    if handed_on().is_none_or(|(command, _)| command != COMMAND) {
        return None;
    }
    let arguments = ExploreArguments::parse_line(std::env::args_os());
    begin(arguments.global.verbose);
    Some(exit_code(explorer::server::run(&arguments)))
}

/// Returns the command that `steplake` handed on, and the arguments after it.
fn handed_on() -> Option<(OsString, impl Iterator<Item = OsString>)> {
    let mut line = std::env::args_os().skip(1).skip_while(|argument| is_option(argument));
    Some((line.next()?, line))
}

/// Whether it is one of the options that `steplake` passes on before a command.
fn is_option(argument: &OsStr) -> bool {
    argument.to_str().is_some_and(|text| text == "--quiet" || text.starts_with("-v"))
}

fn begin(verbose: u8) {
    steplake::assembly::messages::begin(verbose, Some("steplake_serve"));
    steplake::assembly::open_files::raise_limit();
}
