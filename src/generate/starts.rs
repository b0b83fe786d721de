//! Which programs of a run start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{BenchmarkUri, Failure};

/// The result of a program's first start in a run. It holds for the whole run: after `Ok`, the
/// machine is to blame if a later start does not come to its first state; after `Err`, the compiler
/// is not asked again.
pub(super) type First = Result<(), Failure>;

/// What is known of one program. Whoever starts it for the first time holds the lock meanwhile, so
/// that others wait for the result.
pub(super) type Known = Arc<Mutex<Option<First>>>;

/// What is known of the programs of a run.
#[derive(Debug, Default)]
pub(super) struct Starts(Mutex<HashMap<BenchmarkUri, Known>>);

impl Starts {
    /// Begins with what the settled episodes of a run say.
    pub(super) fn new(past: HashMap<BenchmarkUri, First>) -> Self {
        let known = |first| Arc::new(Mutex::new(Some(first)));
        Self(Mutex::new(past.into_iter().map(|(uri, first)| (uri, known(first))).collect()))
    }

    /// Returns what is known of the program called `uri`.
    pub(super) fn of(&self, uri: &BenchmarkUri) -> Known {
        Arc::clone(lock(&self.0).entry(uri.clone()).or_default())
    }
}

/// Ignores poisoning: a panic leaves whole values behind, since nothing here changes in two steps.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
