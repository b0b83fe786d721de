//! Recording into a lake: runs that play a plan, and sessions that somebody else plays.

mod identity;
mod request;
mod run;
mod sessions;

use std::num::NonZeroU32;
use std::time::{SystemTime, UNIX_EPOCH};

pub use request::{
    EPISODE_LENGTH, EPISODE_LENGTH_MAX, RunRequest, STEP_CPU_SECONDS, WORKER_MEMORY_MIB,
};
pub use run::{BegunRun, OpenRun, RunEnding, RunSummary, begin_run, record_run};
pub use sessions::{SessionOptions, SessionRecording, record_sessions};

/// Names a distance of keyframes as arguments do: `all`, `none` or `keyframes=K`.
pub fn keyframes_name(every: Option<NonZeroU32>) -> String {
    match every {
        None => "none".to_owned(),
        Some(NonZeroU32::MIN) => "all".to_owned(),
        Some(every) => format!("keyframes={every}"),
    }
}

/// Returns the moment at which a run begins.
fn now_ms() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "a run records when it began")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}
