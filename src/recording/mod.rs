//! Recording into a lake: runs that play a plan, and sessions that somebody else plays.

mod identity;
mod kernel_clock;
mod keyframes;
mod objective;
mod request;
pub(super) mod resume;
mod run;
mod run_programs;
mod sessions;
mod stopwatch;
mod timed;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub use keyframes::Keyframes;
pub use request::{AUDIT_EVERY, EPISODE_LENGTH, EPISODE_LENGTH_MAX, PATIENCE, RunRequest};
pub use run::{BegunRun, OpenRun, RunEnding, RunSummary, begin_run, record_run};
pub use sessions::{SessionOptions, SessionRecording, record_sessions};
pub use stopwatch::Stopwatch;

use crate::lake::{Lake, LakeError};

/// Opens a lake to record into; none if it has to be made first.
pub(super) fn existing(lake: &Path) -> Result<Option<Lake>, LakeError> {
    match Lake::open(lake) {
        Ok(lake) => Ok(Some(lake)),
        Err(LakeError::NotFound { .. } | LakeError::NotALake { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the present moment, for rows that say when they were made.
pub(super) fn now_ms() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "a run records when it began")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}
