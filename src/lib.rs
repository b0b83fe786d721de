//! steplake: an offline state-transition dataset builder and query engine for compiler
//! environments.
//!
//! The modules are listed in the order in which data passes through them.

// The words of the project as types: benchmarks, actions, states, steps. No I/O.
pub mod model;

// Confinement of compilers and their tools.
mod sandbox;

// Programs linked and run.
pub mod execution;

// Sources of programs.
pub mod datasets;

// Live compiler environments and their sessions.
pub mod env;

// Sessions that also write.
pub mod record;

// The generation of runs: plan, schedule, policies, shards, resumption.
pub mod generate;

// The lake on disk: hot log, segments, manifest, snapshots.
pub mod lake;

// Changes of what is sealed: expiry, collection, retraction, verification, repair.
pub mod upkeep;

// The derived tables in layers.
pub mod layers;

// Turns steps into state transitions, conflicts and failures.
pub mod dedup;

// Lakes from other lakes: merging, and copies of published ones; imports of logs.
pub mod transfer;

// Recorded actions played again: states that are not stored, and proofs of those that are.
pub mod replay;

// Programs of recorded states, built and run: how long they take.
pub mod measure;

// Programs of recorded states, run and compared with their first state.
pub mod semantics;

// SQL over a lake: tables, views, functions of the field, named queries and their output.
pub mod query;

// Rows of a lake for training: shuffled, in batches, as numbers.
pub mod load;

// Results of methods on tasks, compared.
pub mod leaderboard;

// What the programs open together: environments, benchmarks, workers, messages, errors.
pub mod assembly;

// Questions on the command line: arguments, answers, the shell.
pub mod console;

// The commands of the binary `steplake`; no other program uses them.
pub mod cli;

/// The examples of the page, which run as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/EXTENDING.md")]
struct Extending;
