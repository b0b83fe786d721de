//! Live compiler sessions for clients of `CompilerGym`: the wire, and what its clients expect.
//!
//! ```text
//!  client ── service (status, events, spaces) ── sessions ── Recorder ── parking ── worker
//! ```
//!
//! The modules are listed in the order in which a request passes through them. Nothing here depends
//! on LLVM but the profile in `spaces`: any environment can be served.
//!
//! # How many sessions
//!
//! A session that nobody uses keeps its program, which sessions share, and its actions. The number
//! of those that keep a compiler's process as well is bounded (`ParkingEnvironment`), and so is the
//! number of requests that compute at a time (`server`) and the number of sessions (`sessions`).

pub(crate) mod arguments;
pub(crate) mod server;
mod managed;
mod service;

// What a request names.
mod benchmarks;
mod execution;
mod spaces;
mod parameters;

// Sessions, from their clients to their compilers.
mod sessions;
mod session;
mod recording;

// Answers.
mod events;
mod status;
mod made_files;

// Programs beside the service.
pub(crate) mod tools;
mod text_format;
