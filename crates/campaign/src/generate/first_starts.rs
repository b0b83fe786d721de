//! Which programs of a run start.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use steplake_model::{BenchmarkUri, Failure};

/// The result of a program's first start in a run. It holds for the whole run: after `Ok`, the
/// machine is to blame if a later start does not come to its first state; after `Err`, the compiler
/// is not asked again.
pub(super) type FirstStart = Result<(), Failure>;

/// What is known of one program. Whoever starts it for the first time holds the lock meanwhile, so
/// that others wait for the result.
pub(super) type SharedFirstStart = Arc<Mutex<Option<FirstStart>>>;

/// What is known of the programs of a run.
#[derive(Debug, Default)]
pub(super) struct FirstStarts(Mutex<HashMap<BenchmarkUri, SharedFirstStart>>);

impl FirstStarts {
    /// Begins with what the settled episodes of a run say.
    pub(super) fn new(past: HashMap<BenchmarkUri, FirstStart>) -> Self {
        let known = |first| Arc::new(Mutex::new(Some(first)));
        Self(Mutex::new(past.into_iter().map(|(uri, first)| (uri, known(first))).collect()))
    }

    /// Returns what is known of the program called `uri`.
    pub(super) fn of(&self, uri: &BenchmarkUri) -> SharedFirstStart {
        Arc::clone(self.0.lock().entry(uri.clone()).or_default())
    }
}
