//! What the graph functions of one engine share.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use futures::future::{Either, select};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, MutexGuard};

use super::asker::Gone;
use super::build;
use super::csr::Graph;
use super::function::Rows;
use crate::lake::{Identity, Snapshot, Table};
use crate::query::QueryError;
use crate::query::counted::Counted;
use crate::query::engine::EngineOptions;
use crate::query::views::reward_column_name;

/// Bytes that an edge takes while the graph is made.
const BUILD_EDGE_BYTES: usize = 30;
/// Bytes that a state takes then.
const BUILD_STATE_BYTES: usize = 80;

/// The graph of a snapshot, made when it is first asked for.
pub(in crate::query) struct GraphSource {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) identity: Arc<Identity>,
    pub(super) counted: Counted,
    threads: NonZeroUsize,
    room: Room,
    /// Who makes something has it for that long.
    kept: Mutex<Kept>,
}

/// What was read so far.
#[derive(Default)]
struct Kept {
    graph: Option<Held<Graph>>,
    /// What the edges the other way round take.
    backward: Option<MemoryReservation>,
    rewards: HashMap<String, Held<Vec<f64>>>,
    observations: HashMap<String, Held<Vec<Option<i64>>>>,
}

/// Something that is kept, and the memory that it takes.
struct Held<T> {
    item: Arc<T>,
    _memory: MemoryReservation,
}

impl<T> Held<T> {
    fn new(item: T, memory: MemoryReservation) -> Self {
        Self { item: Arc::new(item), _memory: memory }
    }

    fn item(&self) -> Arc<T> {
        Arc::clone(&self.item)
    }

    /// Whether some question works with it.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.item) > 1
    }
}

/// The memory for what is kept. No question's own: what one leaves to the next ones is not held
/// against it.
struct Room(Arc<dyn MemoryPool>);

impl Room {
    /// Counts memory for `what`. Where there is not enough, spaces that no question works with are
    /// let go.
    fn reserve(&self, kept: &mut Kept, what: &str, bytes: usize) -> Result<MemoryReservation> {
        let memory = MemoryConsumer::new(what).register(&self.0);
        if memory.try_grow(bytes).is_err() {
            kept.rewards.retain(|_, held| held.is_in_use());
            kept.observations.retain(|_, held| held.is_in_use());
            memory.try_grow(bytes).map_err(|_refused| self.full(what, bytes))?;
        }
        Ok(memory)
    }

    fn full(&self, what: &str, bytes: usize) -> DataFusionError {
        let of_all = match self.0.memory_limit() {
            MemoryLimit::Finite(bytes) => format!(" of {bytes}"),
            MemoryLimit::Infinite | MemoryLimit::Unknown => String::new(),
        };
        let used = self.0.reserved();
        resources_datafusion_err!(
            "{what} takes {bytes} bytes, and {used}{of_all} that transition graphs may have are used"
        )
    }
}

impl GraphSource {
    pub(in crate::query) fn new(counted: Counted, options: &EngineOptions) -> Self {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let threads = options.threads.unwrap_or_else(cores);
        let room = Room(options.graph_memory.clone().unwrap_or_else(unbounded));
        let snapshot = Arc::clone(counted.snapshot());
        let identity = Arc::new(snapshot.identity().clone());
        Self { snapshot, identity, counted, threads, room, kept: Mutex::default() }
    }

    /// What is kept. Who asks while another makes something waits for that, or until nobody waits
    /// for him.
    fn kept(&self, rows: &Rows<'_>) -> Result<MutexGuard<'_, Kept>> {
        if let Ok(kept) = self.kept.try_lock() {
            return Ok(kept);
        }
        let (kept, left) = (pin!(self.kept.lock()), pin!(rows.batches.closed()));
        match Handle::current().block_on(select(kept, left)) {
            Either::Left((kept, _)) => Ok(kept),
            Either::Right(_) => Err(Gone.into()),
        }
    }

    /// The graph.
    ///
    /// # Errors
    ///
    /// Those of [`build::build`], and that of a pool without enough memory.
    pub(super) fn graph(&self, rows: &Rows<'_>) -> Result<Arc<Graph>> {
        let mut kept = self.kept(rows)?;
        if let Some(graph) = &kept.graph {
            return Ok(graph.item());
        }
        // Set aside before it is taken. Nearly every state has an observation.
        let [edges, states] = [Table::StateTransitions, Table::Observations]
            .map(|table| usize::try_from(self.snapshot.rows(table)).unwrap_or(usize::MAX));
        let bytes = edges.saturating_mul(BUILD_EDGE_BYTES);
        let bytes = bytes.saturating_add(states.saturating_mul(BUILD_STATE_BYTES));
        let what = "the transition graph, while it is made,";
        let memory = self.room.reserve(&mut kept, what, bytes)?;
        let graph = build::build(&self.snapshot, self.threads, rows.asker()).map_err(failed)?;
        let bytes = graph.bytes();
        memory
            .try_resize(bytes)
            .map_err(|_refused| self.room.full("the transition graph", bytes))?;
        Ok(kept.graph.insert(Held::new(graph, memory)).item())
    }

    /// The graph, to be walked backwards too.
    pub(super) fn graph_both_ways(&self, rows: &Rows<'_>) -> Result<Arc<Graph>> {
        let graph = self.graph(rows)?;
        let mut kept = self.kept(rows)?;
        if kept.backward.is_none() {
            let what = "the transition graph, backwards,";
            let memory = self.room.reserve(&mut kept, what, graph.backward_bytes())?;
            graph.walk_backward(rows.asker())?;
            kept.backward = Some(memory);
        }
        Ok(graph)
    }

    /// The rewards of one space, edge by edge, NaN where there is none.
    pub(super) fn rewards(&self, rows: &Rows<'_>, space: &str) -> Result<Arc<Vec<f64>>> {
        let graph = self.graph(rows)?;
        let mut kept = self.kept(rows)?;
        if let Some(rewards) = kept.rewards.get(space) {
            return Ok(rewards.item());
        }
        let what = format!("the rewards `{space}`");
        let memory = self.room.reserve(&mut kept, &what, graph.edges() * size_of::<f64>())?;
        let column = reward_column_name(space);
        let rewards = build::rewards(&self.snapshot, &column, self.threads, rows.asker());
        let rewards = rewards.map_err(failed)?;
        assert_eq!(rewards.len(), graph.edges(), "one reward an edge");
        let held = Held::new(rewards, memory);
        Ok(kept.rewards.entry(space.to_owned()).insert_entry(held).get().item())
    }

    /// The numbers of one observation space, node by node.
    pub(super) fn observations(
        &self,
        rows: &Rows<'_>,
        space: &str,
    ) -> Result<Arc<Vec<Option<i64>>>> {
        let graph = self.graph(rows)?;
        let mut kept = self.kept(rows)?;
        if let Some(values) = kept.observations.get(space) {
            return Ok(values.item());
        }
        let what = format!("the observations `{space}`");
        let bytes = graph.nodes() * size_of::<Option<i64>>();
        let memory = self.room.reserve(&mut kept, &what, bytes)?;
        let values = build::observations(&self.snapshot, &graph, space, rows.asker());
        let held = Held::new(values.map_err(failed)?, memory);
        Ok(kept.observations.entry(space.to_owned()).insert_entry(held).get().item())
    }
}

/// Our error on its way through DataFusion.
pub(super) fn failed(error: QueryError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn unbounded() -> Arc<dyn MemoryPool> {
    Arc::new(UnboundedMemoryPool::default())
}

impl fmt::Debug for GraphSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphSource").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn what_nobody_works_with_makes_room() {
        let room = Room(Arc::new(GreedyMemoryPool::new(100)));
        let mut kept = Kept::default();
        let memory = room.reserve(&mut kept, "rewards", 60).unwrap();
        kept.rewards.insert("old".to_owned(), Held::new(vec![0.0], memory));
        let in_use = kept.rewards["old"].item();
        let error = room.reserve(&mut kept, "others", 60).unwrap_err().to_string();
        assert!(error.contains("others takes 60 bytes, and 60 of 100"), "{error}");
        assert_eq!(room.0.reserved(), 60, "what was refused takes nothing");
        drop(in_use);
        let memory = room.reserve(&mut kept, "others", 60).unwrap();
        assert!(kept.rewards.is_empty() && room.0.reserved() == 60);
        drop(memory);
        assert_eq!(room.0.reserved(), 0);
    }
}
