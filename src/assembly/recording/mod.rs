//! Recording into a lake: runs that play a plan, and sessions that somebody else plays.

mod identity;
mod keyframes;
mod objective;
mod request;
mod run;
mod sessions;
mod timed;

use std::time::{SystemTime, UNIX_EPOCH};

pub use keyframes::Keyframes;
pub use request::{EPISODE_LENGTH, EPISODE_LENGTH_MAX, RunRequest};
pub use run::{BegunRun, OpenRun, RunEnding, RunSummary, begin_run, record_run};
pub use sessions::{SessionOptions, SessionRecording, record_sessions};

/// Returns the moment at which a run begins.
fn now_ms() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "a run records when it began")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}
