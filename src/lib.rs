//! steplake: an offline state-transition dataset builder and query engine for compiler
//! environments.
//!
//! The modules are listed in the order in which data passes through them.

#![forbid(unsafe_code)]

#[doc(inline)]
pub use {
    steplake_campaign::{generate, measure, record, replay, semantics},
    steplake_compilers as compilers,
    steplake_lake::{self as lake, dedup, layers, transfer, upkeep},
    steplake_load as load,
    steplake_model::{self as model, Error, ErrorKind},
    steplake_programs::{datasets, execution},
    steplake_query as query, steplake_sandbox as sandbox,
};

/// Live compiler environments and their sessions.
pub mod env {
    pub use steplake_env::*;
    pub use {steplake_gcc as gcc, steplake_llvm as llvm, steplake_loops as loops};
}

// Environments and benchmarks by name, and what workers need.
pub mod environments;

// Requests: what a program asks the library for.
pub mod recording;
pub mod backfill;
pub mod convert;
pub mod measurement;
pub mod verification;
pub mod optimize;
pub mod export;
pub mod info;

// What requests share.
pub mod contexts;
pub mod engine;
pub mod how_run;
pub mod ir;
mod other_tools;
pub mod program_under_test;
pub mod runtime;

// Results of methods on tasks, compared.
pub mod leaderboard;

// Questions on the command line: arguments, answers, the shell.
pub mod console;

// The commands of the binary `steplake`; no other program uses them.
pub mod cli;

/// The examples of the page, which run as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/EXTENDING.md")]
struct Extending;
