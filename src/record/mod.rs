//! Recording: sessions that also write.
//!
//! ```text
//!  Recorder (wraps a session) ──┐
//!  Recorder ────────────────────┼─> Buffer ──> writer thread ──> store::Writer (hot log) ──> segments
//!  Recorder (a fork) ───────────┘   bounded     one commit per flush                seal, on its own thread
//! ```
//!
//! A [`Recorder`] returns exactly what its session returns and puts a row aside for each step; the
//! [`Recording`] that it belongs to commits the rows. The rows of one step, its observations and IR
//! included, are committed together.
//!
//! # What is durable when
//!
//! A row is durable once the commit that carries it has returned. A commit is begun when the oldest
//! row has waited for half of [`RecordingOptions::flush_interval`], or when many rows wait; so
//! after a kill or a power cut at any instant all but the last `flush_interval` of steps are there,
//! as long as the disk takes no longer than the other half over a commit. When rows come faster
//! than the disk takes them, the callers wait: nothing is dropped.

mod buffer;
mod claims;
pub mod generate;
mod identity;
pub mod rebuild;
pub mod recompute;
mod recorder;
mod recording;
pub mod replay;

pub use identity::{Choice, ChoiceError, identity};
pub use recorder::{EpisodePlan, Recorder, Settle};
pub use recording::{RecordError, Recording, RecordingOptions};
