//! Environments that services hold, over the wire of `CompilerGym`: `--env grpc://HOST:PORT`.
//!
//! ```text
//!  generate ── Recorder ── session ── connection ── a service, in any language
//! ```
//!
//! The commands of `steplake` run here unchanged (`Environments::with_services`), with an
//! environment whose sessions are calls of a service. The modules are listed in the order in which
//! it comes about.

mod command_line;
mod address;
mod connection;
mod spaces;
mod service;
mod environment;
mod session;
mod calls;
mod program;
mod trouble;
mod values;

#[cfg(test)]
mod scripted;

pub(crate) use self::command_line::run;
pub(crate) use self::connection::COMPILED;
pub(crate) use self::trouble::START_FAILURE;
