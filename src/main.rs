//! The steplake binary. See [`steplake::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    steplake::assembly::command_error::exit_code(steplake::cli::main(std::env::args_os()))
}
