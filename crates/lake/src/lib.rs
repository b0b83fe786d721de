//! The lake on disk.
//!
//! The modules are listed in the order in which data passes through them. What other crates see of
//! the first, whose files, database and locks are its own, stands at the root: a [`Lake`] is
//! opened, read as a [`Snapshot`], and changed by a [`Writer`], a [`Sealer`] and
//! [`Maintenance`](upkeep::Maintenance).

#![forbid(unsafe_code)]

// Hot log, segments, manifest, version edits, snapshots, the transition graph.
mod kernel;

// Changes of what is sealed: expiry, collection, retraction, verification, repair.
pub mod upkeep;

// The derived tables in layers.
pub mod layers;

// Turns steps into state transitions, conflicts and failures.
pub mod dedup;

// Lakes from other lakes: merging, and copies of published ones; imports of logs.
pub mod transfer;

pub use kernel::*;
