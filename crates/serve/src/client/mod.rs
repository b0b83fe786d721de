//! Environments that services hold, over the wire of `CompilerGym`: `--env grpc://HOST:PORT`.
//!
//! ```text
//!  generate ── Recorder ── session ── connection ── a service, in any language
//! ```
//!
//! The commands of `steplake` run here unchanged (`services::set_open`), with an environment whose
//! sessions are calls of a service. The modules are listed in the order in which it comes about.

pub(crate) mod command_line;
mod address;
mod connection;
mod spaces;
mod service;
mod environment;
mod session;
mod calls;
mod program;
mod status;
mod values;

#[cfg(test)]
mod scripted;

pub(crate) use self::connection::COMPILED;
pub(crate) use self::status::START_FAILURE;

/// The word before the command line that `steplake` hands on.
pub(crate) const COMMAND: &str = "client";
