//! Changes and checks of the sealed part of a lake.
//!
//! [`Maintenance`] is the right to change the sealed part: to expire snapshots, to delete files
//! that no snapshot has, to retract. [`Lake::verify`](crate::kernel::Lake::verify) checks a whole
//! lake, and [`Lake::repair`](crate::kernel::Lake::repair) drops what is damaged.

pub(crate) mod backfill;
mod check;
mod findings;
pub(crate) mod maintenance;
mod mend_log;
mod repair;
mod retract;
mod rewrite;
mod verify;

pub use backfill::{Backfill, BackfillProgress, Backfilled};
pub use findings::{Finding, StoredState};
pub use maintenance::{Expired, GcReport, Keep, Maintenance};
pub use repair::{Repaired, Restored};
pub use retract::{Retracted, RetractionTarget};
pub(crate) use verify::DERIVE;
pub use verify::VerifyReport;
#[doc(hidden)]
pub use verify::fuzz_segment;
