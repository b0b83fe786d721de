//! Queries on a Ballista cluster.
//!
//! ```text
//! steplake cluster sql ──plan, tables──> scheduler <──asks for work── executor ──reads──> Parquet of the lake
//!          ^                                                             │
//!          └──────────────────────────── rows ───────────────────────────┘
//! ```
//!
//! The engine of `steplake sql` parses and plans the SQL, over the same views and functions. A plan
//! contains everything needed to run it: the paths of the files that the manifest lists, the
//! unsealed rows, small tables, and the lake's identity for functions that need it. Scheduler and
//! executors therefore know no lake, and serve many.
//!
//! Architecture invariant: nothing here writes to a lake. Ballista itself runs any plan that it is
//! sent, and a plan may write: docs/CLUSTER.md says how to guard a cluster.

#![forbid(unsafe_code)]

mod address;
mod cli;
mod cluster;
mod codec;
mod layers;
mod logging;
mod processes;
mod spool;
mod tables;

use std::process::ExitCode;

fn main() -> ExitCode {
    steplake_terminal::exit::exit_code(cli::run())
}
