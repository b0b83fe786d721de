//! Recorded actions played again, on a live environment.
//!
//! [`rebuild`] makes the IR of states that are not stored. [`replay`] draws recorded transitions
//! and compares what they lead to, and [`recompute`] computes stored ids and baselines again.
//! [`backfill`] computes observations that stored states lack. [`convert`] makes a lake with ids of
//! this version's scheme out of an older one.
//! [`cached`] is an environment that needs no compiler: the lake answers.

pub mod backfill;
pub mod cached;
pub mod convert;
pub mod rebuild;
pub mod recompute;
mod sample;
mod stored_state;
mod walk;

pub use sample::{Disagreement, ReplayReport, Transition, draw, replay, replay_elsewhere};
pub use stored_state::{ReplayError, demand_same, observe_state};
