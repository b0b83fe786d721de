//! The time of day. People read it, and files that other tools may be reading stay for some minutes
//! by it. What a lake holds never depends on it.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The clock that dates snapshots: that of the machine, or that of a test.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Fn() -> i64 + Send + Sync>>);

impl Clock {
    /// A clock whose time is what `now_ms` returns: Unix time in milliseconds.
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
