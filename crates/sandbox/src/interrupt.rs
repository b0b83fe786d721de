//! Waiting that can end early.

use std::fmt;
use std::sync::Arc;

/// Whether whoever waits gives up. It is asked on the thread that waits: many times a second while
/// a worker computes, and before each build and each run of a program.
#[derive(Clone, Default)]
pub struct Interrupt(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Interrupt {
    /// Returns an interrupt that comes when `is_raised` says so.
    pub fn new(is_raised: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_raised)))
    }

    /// Returns whether it has come.
    pub fn is_raised(&self) -> bool {
        self.0.as_ref().is_some_and(|is_raised| is_raised())
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Interrupt(..)" } else { "Interrupt(never)" })
    }
}
