//! The steplake binary. See [`steplake::cli`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

use steplake::environments::Environments;

fn main() -> ExitCode {
    // Workers are this program, executed again.
    steplake::compilers::serve_if_worker().unwrap_or_else(|| {
        let done = steplake::cli::main(&Environments::default(), std::env::args_os());
        steplake_terminal::exit::exit_code(done)
    })
}
