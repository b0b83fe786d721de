//! What is kept of transition graphs from one question to the next, and the memory for it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, Weak};

use datafusion::common::{DataFusionError, Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use tokio::sync::Mutex;

use super::csr::Graph;
use crate::lake::{Snapshot, Table};

/// The tables that a graph is made of.
const TABLES: [Table; 5] = [
    Table::StateTransitions,
    Table::Conflicts,
    Table::Failures,
    Table::Benchmarks,
    Table::Observations,
];

/// The transition graphs that engines keep in memory, with the rewards and observations that were
/// asked for. Engines with clones of one `Graphs` share a graph if their sealed rows are the same,
/// even if their hot rows differ. The graph lives as long as one of these engines.
#[derive(Clone)]
pub struct Graphs {
    memory: Arc<dyn MemoryPool>,
    known: Arc<std::sync::Mutex<Vec<Known>>>,
}

/// A graph that some engine keeps.
type Known = (Contents, Weak<Mutex<Kept>>);

/// What a graph was made of: a digest of the digests of the files, and of the retracted actions.
type Contents = blake3::Hash;

fn contents(snapshot: &Snapshot) -> Contents {
    let mut hasher = blake3::Hasher::new();
    for table in TABLES {
        hasher.update(table.name().as_bytes());
        for segment in snapshot.segments(table) {
            hasher.update(segment.digest.as_bytes());
        }
    }
    for action in snapshot.retracted_actions() {
        hasher.update(&action.to_le_bytes());
    }
    hasher.finalize()
}

impl Graphs {
    /// Graphs that take no more than `memory` has. A question for which there is no room fails.
    pub fn within(memory: Arc<dyn MemoryPool>) -> Self {
        Self { memory, known: Arc::default() }
    }

    /// What is kept of the sealed rows of `snapshot`.
    pub(super) fn of(&self, snapshot: &Snapshot) -> Arc<Mutex<Kept>> {
        let contents = contents(snapshot);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, kept)| kept.strong_count() > 0);
        let same = known.iter().find(|(other, _)| *other == contents);
        if let Some(kept) = same.and_then(|(_, kept)| kept.upgrade()) {
            return kept;
        }
        let kept = Arc::default();
        known.push((contents, Arc::downgrade(&kept)));
        kept
    }

    /// Counts memory for `what`. Where there is not enough, `kept` lets spaces go that no question
    /// works with.
    pub(super) fn reserve(
        &self,
        kept: &mut Kept,
        what: &str,
        bytes: usize,
    ) -> Result<MemoryReservation> {
        let memory = MemoryConsumer::new(what).register(&self.memory);
        if memory.try_grow(bytes).is_err() {
            kept.rewards.retain(|_, held| held.is_in_use());
            kept.observations.retain(|_, held| held.is_in_use());
            memory.try_grow(bytes).map_err(|_refused| self.full(what, bytes))?;
        }
        Ok(memory)
    }

    pub(super) fn full(&self, what: &str, bytes: usize) -> DataFusionError {
        let of_all = match self.memory.memory_limit() {
            MemoryLimit::Finite(bytes) => format!(" of {bytes}"),
            MemoryLimit::Infinite | MemoryLimit::Unknown => String::new(),
        };
        let used = self.memory.reserved();
        resources_datafusion_err!(
            "{what} takes {bytes} bytes, and {used}{of_all} that transition graphs may have are used"
        )
    }
}

impl Default for Graphs {
    fn default() -> Self {
        Self::within(Arc::new(UnboundedMemoryPool::default()))
    }
}

impl fmt::Debug for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graphs").field("memory", &self.memory).finish_non_exhaustive()
    }
}

/// What was read so far of one graph.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) graph: Option<Held<Graph>>,
    /// What the edges the other way round take.
    pub(super) backward: Option<MemoryReservation>,
    pub(super) rewards: HashMap<String, Held<Vec<f64>>>,
    pub(super) observations: HashMap<String, Held<Vec<Option<i64>>>>,
}

/// Something that is kept, and the memory that it takes.
pub(super) struct Held<T> {
    item: Arc<T>,
    _memory: MemoryReservation,
}

impl<T> Held<T> {
    pub(super) fn new(item: T, memory: MemoryReservation) -> Self {
        Self { item: Arc::new(item), _memory: memory }
    }

    pub(super) fn item(&self) -> Arc<T> {
        Arc::clone(&self.item)
    }

    /// Whether some question works with it.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.item) > 1
    }
}
