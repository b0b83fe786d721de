//! steplake: an offline state-transition dataset builder and query engine for compiler
//! environments.
//!
//! The modules are listed in the order in which data passes through them.

// The words of the project as types: benchmarks, actions, states, steps. No I/O.
pub mod model;

// Confinement of compilers and their tools.
mod sandbox;

// Live compiler environments and their sessions.
pub mod env;

// Sources of programs.
pub mod datasets;

// Sessions that also write, and the generation of runs.
pub mod record;

// The lake on disk: hot log, segments, manifest, verification.
pub mod store;

// Turns steps into state transitions, conflicts and failures.
pub mod dedup;

// SQL over a lake: tables, views, functions of the field, named queries and their output.
pub mod query;

// The binary's commands.
pub mod cli;
