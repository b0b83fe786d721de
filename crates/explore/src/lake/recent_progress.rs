//! What is remembered of a lake between two requests for its progress.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// What is remembered between two requests.
#[derive(Default)]
pub(super) struct RecentProgress {
    pub(super) recent: Mutex<VecDeque<(Instant, Total)>>,
    pub(super) counted: Mutex<Option<TimedCounts>>,
}

/// The counts of runs, with the time when they were made, and the time that it took.
pub(super) struct TimedCounts {
    pub(super) at: Instant,
    pub(super) took: Duration,
    pub(super) runs: Vec<RunCounts>,
}

/// What the lake holds at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Total {
    /// In seconds since 1970.
    pub(super) at: f64,
    pub(super) steps: u64,
    pub(super) states: u64,
}

/// How much a run has recorded.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct RunCounts {
    pub(super) run_id: i64,
    pub(super) steps: u64,
    pub(super) states: u64,
    pub(super) episodes: u64,
}
