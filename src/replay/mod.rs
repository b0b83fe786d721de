//! Recorded actions played again, on a live environment.
//!
//! [`rebuild`] makes the IR of states that are not stored. [`replay`] draws recorded transitions
//! and compares what they lead to, and [`recompute`] computes stored ids and baselines again.

mod paths;
pub mod rebuild;
pub mod recompute;
mod sample;

pub use paths::{TRAIL_STEPS_MAX, Trail};
pub use sample::*;
