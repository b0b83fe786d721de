//! Runs that record, and recorded actions that are played, measured and validated again.

#![forbid(unsafe_code)]

// Sessions that also write.
pub mod record;

// The generation of runs: plan, schedule, policies, shards, resumption.
pub mod generate;

// Recorded actions played again: states that are not stored, and proofs of those that are.
pub mod replay;

// Programs of recorded states, built and run: how long they take.
pub mod measure;

// Programs of recorded states, run and compared with their first state.
pub mod semantics;
