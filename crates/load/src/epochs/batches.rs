//! The batches of an epoch, read ahead by threads.
//!
//! The locks are those of std. The threads wait here for as long as a loader is open, and
//! `parking_lot`'s waiting threads stand in a table of the process: a forked process would inherit
//! their places, without the threads, and hang.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::permutation::Permutation;
use super::plan::BatchPlan;
use super::stream::StreamedEpoch;
use crate::dataset::{GatheredItems, TrainingDataset};
use crate::error::LoadError;

/// The batches that each thread may be ahead of their reader.
const AHEAD_A_THREAD: u64 = 2;

/// Which batches of an epoch are wanted, and by how many threads.
#[derive(Debug, Clone)]
pub struct BatchRequest {
    /// How the rows are cut into batches.
    pub plan: BatchPlan,
    /// The process whose batches are wanted, below `plan.world_size`.
    pub rank: u32,
    /// The place in the order at which the first round begins.
    pub from: u32,
    /// Every so many rounds a batch is wanted, from the first round on: 1 for all batches. A worker
    /// process of several takes its turn.
    pub stride: u32,
    /// The threads that read ahead. 0: a batch is read when it is wanted.
    pub threads: usize,
}

impl BatchRequest {
    /// The places of the `number`-th wanted batch, and where the next round begins.
    fn batch(&self, number: u64) -> Option<(Range<u32>, u32)> {
        let from = self.plan.later(self.from, number * u64::from(self.stride));
        self.plan.batch(from, self.rank)
    }
}

/// The rows of a dataset in the order of an epoch.
#[derive(Debug, Clone)]
pub enum Epoch {
    /// They are gathered from mapped files.
    Mapped {
        /// The rows.
        dataset: TrainingDataset,
        /// Their order. `None`: that of the dataset.
        order: Option<Permutation>,
    },
    /// They are read from Parquet.
    Streamed(StreamedEpoch),
}

impl Epoch {
    /// Reads the items at these places of the order.
    fn read(&self, places: Range<u32>) -> Result<GatheredItems, LoadError> {
        match self {
            Self::Mapped { dataset, order: None } => dataset.gather(&places.collect::<Vec<_>>()),
            Self::Mapped { dataset, order: Some(order) } => {
                dataset.gather(&places.map(|place| order.row(place)).collect::<Vec<_>>())
            }
            Self::Streamed(epoch) => epoch.read(places),
        }
    }
}

/// A batch of items.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The number of items.
    pub items: usize,
    /// What was read.
    pub read: GatheredItems,
    /// The place in the order at which the next round begins.
    pub next: u32,
}

/// The wanted batches of an epoch, in their order. Threads read ahead, a bounded number of batches.
/// Which batches there are, and what is in them, does not depend on the number of threads.
#[derive(Debug)]
pub struct Batches {
    epoch: Epoch,
    request: BatchRequest,
    /// The number of the next batch.
    number: u64,
    is_over: bool,
    ahead: Option<Ahead>,
}

impl Batches {
    /// Begins to read.
    pub fn new(epoch: Epoch, request: BatchRequest) -> Self {
        Self { epoch, request, number: 0, is_over: false, ahead: None }
    }

    /// Reads the batch of a number.
    fn read(
        epoch: &Epoch,
        request: &BatchRequest,
        number: u64,
    ) -> Option<Result<Batch, LoadError>> {
        let (places, next) = request.batch(number)?;
        let items = places.len();
        Some(epoch.read(places).map(|read| Batch { items, read, next }))
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, LoadError>;

    /// # Panics
    ///
    /// If the system refuses a thread.
    fn next(&mut self) -> Option<Result<Batch, LoadError>> {
        if self.is_over {
            return None;
        }
        // Until it is known that there is another one: a panic ends it too.
        self.is_over = true;
        let number = self.number;
        let batch = if self.request.threads == 0 {
            Self::read(&self.epoch, &self.request, number)
        } else {
            let start = || Ahead::start(&self.epoch, &self.request);
            self.ahead.get_or_insert_with(start).take(number)
        };
        self.number += 1;
        self.is_over = !matches!(batch, Some(Ok(_)));
        batch
    }
}

/// Threads that read ahead. They end when it is dropped.
#[derive(Debug)]
struct Ahead {
    shared: Arc<BatchQueue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct BatchQueue {
    state: Mutex<QueueState>,
    /// A batch was read, or taken.
    changed: Condvar,
}

#[derive(Debug)]
struct QueueState {
    /// The next number that no thread has begun to read.
    begun: u64,
    /// The number that the reader wants next.
    wanted: u64,
    /// What has been read and not been taken; `None` after the last batch.
    read: BTreeMap<u64, std::thread::Result<Option<Result<Batch, LoadError>>>>,
    is_over: bool,
}

impl BatchQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changes.
    fn wait<'a>(&self, state: MutexGuard<'a, QueueState>) -> MutexGuard<'a, QueueState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ahead {
    fn start(epoch: &Epoch, request: &BatchRequest) -> Self {
        let state = QueueState { begun: 0, wanted: 0, read: BTreeMap::new(), is_over: false };
        let shared = Arc::new(BatchQueue { state: Mutex::new(state), changed: Condvar::new() });
        let thread = |_| {
            let (shared, epoch, request) = (Arc::clone(&shared), epoch.clone(), request.clone());
            std::thread::spawn(move || read_ahead(&shared, &epoch, &request))
        };
        let threads = (0..request.threads).map(thread).collect();
        Self { shared, threads }
    }

    fn take(&self, number: u64) -> Option<Result<Batch, LoadError>> {
        let mut state = self.shared.lock();
        state.wanted = number;
        loop {
            if let Some(read) = state.read.remove(&number) {
                state.wanted = number + 1;
                drop(state);
                self.shared.changed.notify_all();
                return read.unwrap_or_else(|panic| resume_unwind(panic));
            }
            state = self.shared.wait(state);
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was handed to the reader.
            drop(thread.join());
        }
    }
}

fn read_ahead(shared: &BatchQueue, epoch: &Epoch, request: &BatchRequest) {
    let ahead = AHEAD_A_THREAD * request.threads as u64;
    loop {
        let mut state = shared.lock();
        while !state.is_over && state.begun >= state.wanted + ahead {
            state = shared.wait(state);
        }
        if state.is_over {
            return;
        }
        let number = state.begun;
        state.begun += 1;
        drop(state);
        let read = catch_unwind(AssertUnwindSafe(|| Batches::read(epoch, request, number)));
        let is_last = !matches!(read, Ok(Some(Ok(_))));
        shared.lock().read.insert(number, read);
        shared.changed.notify_all();
        if is_last {
            return;
        }
    }
}
