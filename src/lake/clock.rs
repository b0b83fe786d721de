//! The time of day, for the dates that people are shown. Nothing is decided by it.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The clock by which snapshots are dated: the machine's, or a test's.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Fn() -> i64 + Send + Sync>>);

impl Clock {
    /// A clock that gives what `now_ms` returns: Unix time in milliseconds.
    pub fn new(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(now_ms)))
    }

    /// Unix time in milliseconds.
    #[expect(clippy::disallowed_methods, reason = "the lake's one look at the clock")]
    pub(crate) fn now_ms(&self) -> i64 {
        if let Some(now_ms) = &self.0 {
            return now_ms();
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
