//! The cache of transition graphs, with its memory.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::{DataFusionError, Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
    UnboundedMemoryPool,
};
use tokio::sync::Mutex;

use super::csr::QueryGraph;
use steplake_lake::{Snapshot, Table};

/// The tables that a graph is made of.
const TABLES: [Table; 5] = [
    Table::StateTransitions,
    Table::Conflicts,
    Table::Failures,
    Table::Benchmarks,
    Table::Observations,
];

/// The transition graphs that engines keep in memory, with the rewards and observations that were
/// asked for. Engines with clones of one `GraphCache` share a graph if their sealed rows are the
/// same, even if their hot rows differ. The graph lives as long as one of these engines.
#[derive(Clone)]
pub struct GraphCache {
    memory: Arc<dyn MemoryPool>,
    entries: Arc<parking_lot::Mutex<Vec<CacheEntry>>>,
}

/// A cached graph by its contents; weak, since engines own it.
type CacheEntry = (GraphDigest, Weak<Mutex<CachedGraph>>);

/// What a graph was made of: a digest of the digests of the files, and of the retracted actions.
type GraphDigest = blake3::Hash;

fn contents(snapshot: &Snapshot) -> GraphDigest {
    let mut hasher = blake3::Hasher::new();
    for table in TABLES {
        hasher.update(table.name().as_bytes());
        for segment in snapshot.segments(table) {
            hasher.update(segment.rows_name().as_bytes());
        }
    }
    for action in snapshot.retracted_actions() {
        hasher.update(&action.0.to_le_bytes());
    }
    hasher.finalize()
}

impl GraphCache {
    /// A cache within `memory`. A question that does not fit fails.
    pub fn within(memory: Arc<dyn MemoryPool>) -> Self {
        Self { memory, entries: Arc::default() }
    }

    /// A cache within so many bytes. A question that does not fit fails.
    pub fn within_bytes(bytes: usize) -> Self {
        Self::within(Arc::new(GreedyMemoryPool::new(bytes)))
    }

    /// The cached graph of the sealed rows of `snapshot`.
    pub(super) fn of(&self, snapshot: &Snapshot) -> Arc<Mutex<CachedGraph>> {
        let contents = contents(snapshot);
        let mut entries = self.entries.lock();
        entries.retain(|(_, cached)| cached.strong_count() > 0);
        let same = entries.iter().find(|(other, _)| *other == contents);
        if let Some(cached) = same.and_then(|(_, cached)| cached.upgrade()) {
            return cached;
        }
        let cached = Arc::default();
        entries.push((contents, Arc::downgrade(&cached)));
        cached
    }

    /// Counts memory for `what`. Where there is not enough, spaces that no question works
    /// with are dropped from `cached`.
    pub(super) fn reserve(
        &self,
        cached: &mut CachedGraph,
        what: &str,
        bytes: usize,
    ) -> Result<MemoryReservation> {
        let memory = MemoryConsumer::new(what).register(&self.memory);
        if memory.try_grow(bytes).is_err() {
            cached.rewards.retain(|_, held| held.is_in_use());
            cached.observations.retain(|_, held| held.is_in_use());
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

impl Default for GraphCache {
    fn default() -> Self {
        Self::within(Arc::new(UnboundedMemoryPool::default()))
    }
}

impl fmt::Debug for GraphCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphCache").field("memory", &self.memory).finish_non_exhaustive()
    }
}

/// The parts of one graph that were read so far.
#[derive(Default)]
pub(super) struct CachedGraph {
    pub(super) graph: Option<Cached<QueryGraph>>,
    /// The memory of the backward edges.
    pub(super) backward: Option<MemoryReservation>,
    pub(super) rewards: HashMap<String, Cached<Vec<f64>>>,
    pub(super) observations: HashMap<String, Cached<Vec<Option<i64>>>>,
}

/// Something that is cached, and the memory that it takes.
pub(super) struct Cached<T> {
    item: Arc<T>,
    _memory: MemoryReservation,
}

impl<T> Cached<T> {
    pub(super) fn new(item: T, memory: MemoryReservation) -> Self {
        Self { item: Arc::new(item), _memory: memory }
    }

    pub(super) fn item(&self) -> Arc<T> {
        Arc::clone(&self.item)
    }

    /// Whether a question uses it.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.item) > 1
    }
}
