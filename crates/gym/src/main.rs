//! Serves live sessions to clients of `CompilerGym`: `steplake serve --compiler-gym`. Plays in the
//! sessions of other services: `--env grpc://…`.

#![forbid(unsafe_code)]

// Parse, run, exit code.
mod command_line;

// Sessions for clients of CompilerGym.
mod compiler_gym;

// Sessions that are answered from a lake.
mod cache;

// Environments of other services.
mod client;

/// The messages and the service, made from `proto/compiler_gym_service.proto`.
#[expect(
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::pedantic,
    reason = "generated code knows neither the lints nor where it is included"
)]
pub(crate) mod proto {
    tonic::include_proto!("compiler_gym");
}

use std::process::ExitCode;

use steplake_terminal::exit::exit_code;

fn main() -> ExitCode {
    // Compilers live in processes of this program, executed again.
    steplake::compilers::serve_if_worker().unwrap_or_else(|| exit_code(command_line::run()))
}
