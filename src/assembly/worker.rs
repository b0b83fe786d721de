//! Worker processes: a program, executed again to hold sessions.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, FromArgMatches as _};

use super::command_error::{CommandError, exit_code};
use super::environments::environment;
use super::messages;

/// The name of the command.
const COMMAND: &str = "worker";

/// The arguments that a supervisor gives to a worker.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    environment: String,
    flight: PathBuf,
    step_cpu_max_ms: u64,
    memory_bytes_max: u64,
}

/// Serves sessions over standard input, which the supervisor has made a socket.
///
/// # Errors
///
/// If the environment is unknown, or the supervisor cannot be reached.
pub fn serve(args: &WorkerArgs) -> Result<(), CommandError> {
    let WorkerArgs { environment: name, flight, step_cpu_max_ms, memory_bytes_max } = args;
    let environment = environment(name)?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let stream = UnixStream::from(socket);
    let step_cpu_max = Duration::from_millis(*step_cpu_max_ms);
    let environment = environment.as_ref();
    Ok(crate::env::worker::serve(environment, stream, flight, step_cpu_max, *memory_bytes_max)?)
}

/// Serves as a worker if this process was started as one, else returns `None`. Programs other than
/// `steplake` that rebuild states call this before they parse their arguments.
pub fn serve_if_worker() -> Option<ExitCode> {
    let mut line = std::env::args_os().skip(1).peekable();
    line.next_if(|argument| argument == COMMAND)?;
    messages::begin(0, None);
    Some(exit_code(parsed(line).and_then(|args| serve(&args))))
}

fn parsed(line: impl Iterator<Item = OsString>) -> Result<WorkerArgs, CommandError> {
    let command = WorkerArgs::augment_args(clap::Command::new(COMMAND).no_binary_name(true));
    let matches = command.try_get_matches_from(line);
    let args = matches.and_then(|matches| WorkerArgs::from_arg_matches(&matches));
    args.map_err(|error| CommandError::usage(error.to_string()))
}
