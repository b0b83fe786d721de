//! The integration tests, in one binary: a crate is linked once.
#![expect(clippy::disallowed_methods, reason = "tests start the binary as its users do")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod baselines;
mod bounds;
mod cli;
mod crash;
mod datasets;
mod deal;
mod dedup;
mod demo;
mod derived;
mod disk;
mod failed_start;
mod keyframes;
mod faults;
mod formats;
mod fuzz;
mod graph;
mod kill;
mod layers;
mod llvm;
mod llvm_identity;
mod merge;
mod outside;
mod power;
mod query;
mod query_readers;
mod recompute;
mod record;
mod restore;
mod repair;
mod resume;
mod retract;
mod shards;
mod shell;
mod small_lake;
mod snapshots;
mod sql;
mod store;
mod store_faults;
mod support;
mod toy_lake;
mod windows;
mod worker;
mod worker_limits;
