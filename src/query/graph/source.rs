//! What the graph functions of one engine share.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use super::build;
use super::csr::Graph;
use crate::query::QueryError;
use crate::query::views::reward_column_name;
use crate::store::{Identity, Snapshot, Table};

/// Bytes that an edge takes while the graph is made.
const BUILD_EDGE_BYTES: usize = 30;

/// The graph of a snapshot, made when it is first asked for.
pub(in crate::query) struct GraphSource {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) identity: Arc<Identity>,
    threads: NonZeroUsize,
    kept: Mutex<Kept>,
}

/// What was read so far.
#[derive(Default)]
struct Kept {
    graph: Option<Arc<Graph>>,
    walks_backward: bool,
    rewards: HashMap<String, Arc<Vec<f64>>>,
    observations: HashMap<String, Arc<Vec<Option<i64>>>>,
    memory: Option<MemoryReservation>,
}

impl Kept {
    /// Counts memory that will be held as long as the engine.
    fn reserve(&mut self, pool: &Arc<dyn MemoryPool>, bytes: usize) -> Result<()> {
        let consumer = || MemoryConsumer::new("the transition graph").register(pool);
        self.memory.get_or_insert_with(consumer).try_grow(bytes)
    }
}

impl GraphSource {
    pub(in crate::query) fn new(
        snapshot: Arc<Snapshot>,
        identity: Arc<Identity>,
        threads: Option<NonZeroUsize>,
    ) -> Self {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let threads = threads.unwrap_or_else(cores);
        Self { snapshot, identity, threads, kept: Mutex::default() }
    }

    /// The graph. Who asks while another makes it waits for that.
    ///
    /// # Errors
    ///
    /// Those of [`build::build`], and that of a pool without enough memory.
    pub(super) fn graph(&self, pool: &Arc<dyn MemoryPool>) -> Result<Arc<Graph>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(graph) = &kept.graph {
            return Ok(Arc::clone(graph));
        }
        // Set aside before it is taken.
        let edges = usize::try_from(self.snapshot.rows(Table::StateTransitions));
        kept.reserve(pool, edges.unwrap_or(usize::MAX).saturating_mul(BUILD_EDGE_BYTES))?;
        let built = build::build(&self.snapshot, self.threads);
        let bytes = built.as_ref().map_or(0, Graph::bytes);
        let memory = kept.memory.as_mut().expect("it was reserved above");
        memory.try_resize(bytes)?;
        let graph = Arc::new(built.map_err(failed)?);
        kept.graph = Some(Arc::clone(&graph));
        Ok(graph)
    }

    /// The graph, to be walked backwards too.
    pub(super) fn graph_both_ways(&self, pool: &Arc<dyn MemoryPool>) -> Result<Arc<Graph>> {
        let graph = self.graph(pool)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.walks_backward {
            kept.reserve(pool, graph.backward_bytes())?;
            kept.walks_backward = true;
        }
        drop(kept);
        graph.backward();
        Ok(graph)
    }

    /// The rewards of one space, edge by edge, NaN where there is none.
    pub(super) fn rewards(&self, pool: &Arc<dyn MemoryPool>, space: &str) -> Result<Arc<Vec<f64>>> {
        let graph = self.graph(pool)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rewards) = kept.rewards.get(space) {
            return Ok(Arc::clone(rewards));
        }
        kept.reserve(pool, graph.edges() * size_of::<f64>())?;
        let column = reward_column_name(space);
        let rewards = build::rewards(&self.snapshot, &column, self.threads).map_err(failed)?;
        assert_eq!(rewards.len(), graph.edges(), "one reward an edge");
        let rewards = Arc::new(rewards);
        kept.rewards.insert(space.to_owned(), Arc::clone(&rewards));
        Ok(rewards)
    }

    /// The numbers of one observation space, node by node.
    pub(super) fn observations(
        &self,
        pool: &Arc<dyn MemoryPool>,
        space: &str,
    ) -> Result<Arc<Vec<Option<i64>>>> {
        let graph = self.graph(pool)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(values) = kept.observations.get(space) {
            return Ok(Arc::clone(values));
        }
        kept.reserve(pool, graph.nodes() * size_of::<Option<i64>>())?;
        let values = build::observations(&self.snapshot, &graph, space).map_err(failed)?;
        let values = Arc::new(values);
        kept.observations.insert(space.to_owned(), Arc::clone(&values));
        Ok(values)
    }
}

/// Our error on its way through DataFusion.
pub(super) fn failed(error: QueryError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl fmt::Debug for GraphSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphSource").finish_non_exhaustive()
    }
}
