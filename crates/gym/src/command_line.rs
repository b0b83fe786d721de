//! The command line, which `steplake` writes for its user, or for a client of `CompilerGym`.

use std::ffi::OsString;

use clap::{ArgAction, Args, Parser, Subcommand};
use steplake::Error;

use crate::client;
use crate::compiler_gym::arguments::{ManagedArguments, ServerArguments};
use crate::compiler_gym::{server, tools};

/// Serve compiler sessions, or play in those of another service.
#[derive(Debug, Parser)]
#[command(name = "steplake-gym", bin_name = "steplake", version)]
struct CommandLine {
    /// Log more to standard error: -v what is done, -vv every detail.
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,

    /// Show no progress; there is none.
    #[arg(short, long, hide = true)]
    quiet: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<ServerArguments>),
    /// Serve sessions to the `CompilerGym` client that starts this process.
    #[command(disable_help_flag = true)]
    CompilerGymService(HandedOn),
    /// Stand in for a program that comes with `CompilerGym`.
    #[command(disable_help_flag = true)]
    CompilerGymTool(HandedOn),
    /// Run a command of `steplake` that plays in the environment of a service.
    #[command(disable_help_flag = true)]
    Client(HandedOn),
}

/// A command line that `steplake` hands on as it is.
#[derive(Debug, Args)]
struct HandedOn {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    line: Vec<OsString>,
}

/// Runs the command line of this process.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn run() -> Result<(), Error> {
    let CommandLine { verbose, command, .. } = CommandLine::parse();
    match command {
        Command::Serve(arguments) => {
            begin(verbose.saturating_add(arguments.verbose));
            server::run(*arguments)
        }
        Command::CompilerGymService(HandedOn { line }) => {
            let added = std::env::var_os("COMPILER_GYM_SERVICE_ARGS");
            let arguments = ManagedArguments::parse_line(line, added.as_ref());
            begin(arguments.verbose);
            server::run_managed(arguments)
        }
        Command::CompilerGymTool(HandedOn { line }) => {
            begin(0);
            tools::run(&line)
        }
        // It begins its log itself.
        Command::Client(HandedOn { line }) => client::run(line),
    }
}

fn begin(verbose: u8) {
    steplake_server::begin(verbose, "steplake_gym");
}
