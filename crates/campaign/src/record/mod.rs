//! Recording: sessions that also write.
//!
//! ```text
//!  Recorder (wraps a session) ──┐
//!  Recorder ────────────────────┼─> Buffer ──> writer thread ──> lake::Writer (hot log) ──> segments
//!  Recorder (a fork) ───────────┘   bounded     one commit per flush                seal, on its own thread
//! ```
//!
//! A [`Recorder`] returns exactly what its session returns and buffers a row for each step; the
//! [`Recording`] to which it belongs commits the rows. The rows of one step, including its
//! observations and IR, are committed together. A [`TransitionRecorder`] records single steps that
//! its caller chooses, and waits until they are durable.
//!
//! # What is durable when
//!
//! A row is durable once the commit that contains it has returned. A commit starts when the oldest
//! row has waited for half of [`RecordingOptions::flush_interval`], or when many rows wait. So
//! after a kill or a power cut at any moment, all but the last `flush_interval` of steps are there,
//! as long as a commit takes no longer than the other half. If rows come faster than the disk takes
//! them, the callers wait: nothing is dropped.

mod audit;
mod background;
mod buffer;
mod declaration;
mod first_programs;
mod recorded_spaces;
mod recorder;
mod recording;
mod reservations;
mod row_writer;
mod shared;
mod transitions;

pub(crate) use audit::is_of_audit;
pub use recorded_spaces::{SpaceChoice, SpaceChoiceError, baselines, identity};
pub use recorder::{EpisodePlan, Recorder, Settle};
pub use recording::{MeasurementSink, RecordError, Recording, RecordingOptions};
pub(crate) use row_writer::{ir_compressor, packed};
pub use transitions::{NewValues, TransitionRecorder};
