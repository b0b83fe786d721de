//! Which programs of a run start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::lock;
use crate::model::{BenchmarkUri, Failure};

/// What the first start of a program in a run came to. It stands for the whole run.
#[derive(Debug, Clone)]
pub(super) enum First {
    /// The program starts. Where a later start fails, that says something about this machine.
    Started,
    /// The compiler failed over the program, and is not asked again.
    Failed(Failure),
}

/// What is known of one program. Whoever starts it for the first time holds the lock meanwhile, so
/// that others wait for what comes of it.
pub(super) type Known = Arc<Mutex<Option<First>>>;

/// What is known of the programs of a run.
#[derive(Debug, Default)]
pub(super) struct Starts(Mutex<HashMap<BenchmarkUri, Known>>);

impl Starts {
    /// What the settled episodes of a run say.
    pub(super) fn new(past: HashMap<BenchmarkUri, First>) -> Self {
        let known = |first| Arc::new(Mutex::new(Some(first)));
        Self(Mutex::new(past.into_iter().map(|(uri, first)| (uri, known(first))).collect()))
    }

    /// What is known of the program called `uri`.
    pub(super) fn of(&self, uri: &BenchmarkUri) -> Known {
        Arc::clone(lock(&self.0).entry(uri.clone()).or_default())
    }
}
