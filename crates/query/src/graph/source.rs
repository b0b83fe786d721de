//! The source of the data for questions to one engine's graph.

use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::Result;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::build;
use super::cache::{Cached, CachedGraph, GraphCache};
use super::csr::QueryGraph;
use super::observations::Observations;
use super::question::{AnswerRequest, Given, RequiredData, make_room};
use crate::errors::error::stored;
use crate::options::EngineOptions;
use crate::sources::blocking_stream::blocking;
use crate::sources::dedup_coverage::DedupCoverage;
use steplake_lake::graph::{GraphReader, Node};
use steplake_lake::{Identity, Snapshot, Table};
use steplake_model::StateId;

/// The bytes of an edge while the graph is built.
const BUILD_EDGE_BYTES: usize = 30;
/// The bytes of a state while the graph is built.
const BUILD_STATE_BYTES: usize = 80;
/// The bytes of a benchmark that is not sealed, in addition to its name.
const START_BYTES: usize = size_of::<(String, Node)>() + size_of::<StateId>();

/// The graph of a snapshot, built when it is first needed.
pub(crate) struct GraphSource {
    snapshot: Arc<Snapshot>,
    pub(super) identity: Arc<Identity>,
    pub(super) counted: DedupCoverage,
    threads: NonZeroUsize,
    graphs: GraphCache,
    /// The cached data of the sealed part, locked while a question adds to it.
    cached: Arc<Mutex<CachedGraph>>,
    /// The spaces of which a warning has said that values are missing.
    told: parking_lot::Mutex<HashSet<String>>,
}

impl GraphSource {
    pub(crate) fn new(counted: DedupCoverage, options: &EngineOptions) -> Self {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let threads = options.threads.unwrap_or_else(cores);
        let snapshot = Arc::clone(&counted.snapshot);
        let identity = Arc::new(snapshot.identity().clone());
        let graphs = options.graphs.clone();
        let cached = graphs.of(&snapshot);
        let told = parking_lot::Mutex::default();
        Self { snapshot, identity, counted, threads, graphs, cached, told }
    }

    /// The data of a question. While another question builds something, this waits and holds no
    /// thread.
    ///
    /// # Errors
    ///
    /// Those of [`build`], a pool without enough memory, and
    /// [`Cancelled`](super::cancellation::Cancelled).
    pub(super) async fn prepare(
        self: &Arc<Self>,
        needs: RequiredData,
        asked: &Arc<AnswerRequest>,
    ) -> Result<Given> {
        if !needs.graph {
            return Ok(self.nothing());
        }
        let cached = Arc::clone(&self.cached).lock_owned().await;
        let (source, asked) = (Arc::clone(self), Arc::clone(asked));
        blocking(move || source.make(cached, &needs, &asked)).await
    }

    fn nothing(&self) -> Given {
        Given {
            snapshot: Arc::clone(&self.snapshot),
            identity: Arc::clone(&self.identity),
            graph: Arc::default(),
            rewards: Arc::default(),
            observations: Observations::default(),
        }
    }

    /// Builds what is not cached yet.
    fn make(
        &self,
        mut cached: OwnedMutexGuard<CachedGraph>,
        needs: &RequiredData,
        asked: &AnswerRequest,
    ) -> Result<Given> {
        asked.token.check()?;
        let sealed = self.graph(&mut cached, asked)?;
        if needs.backward {
            self.walk_backward(&mut cached, &sealed, asked)?;
        }
        let rewards = needs.rewards.as_deref();
        let rewards = rewards.map(|space| self.rewards(&mut cached, &sealed, space, asked));
        let observations = needs.observations.as_deref();
        let values =
            observations.map(|space| self.observations(&mut cached, &sealed, space, asked));
        let (rewards, values) = (rewards.transpose()?, values.transpose()?.unwrap_or_default());
        // Other questions need not wait for the rest.
        drop(cached);
        let graph = self.with_hot_starts(sealed, asked)?;
        if let (Some(space), Some(rewards)) = (needs.rewards.as_deref(), &rewards) {
            let missing = rewards.iter().filter(|reward| reward.is_nan()).count();
            let advice = "a question about it passes over them";
            self.warn_of_missing(space, "reward", missing, rewards.len(), "transitions", advice);
        }
        let observations = match observations {
            Some(space) => {
                let values = self.with_hot_observations(&graph, values, space, asked)?;
                let missing = graph.all_nodes().filter(|&node| values.of(node).is_none()).count();
                let advice = format!(
                    "the lowest cost may be theirs; a backfill of {space} computes what no run recorded"
                );
                self.warn_of_missing(space, "cost", missing, graph.nodes(), "states", &advice);
                values
            }
            None => Observations::default(),
        };
        Ok(Given { graph, rewards: rewards.unwrap_or_default(), observations, ..self.nothing() })
    }

    /// Warns once of values of a space that the lake does not have.
    fn warn_of_missing(
        &self,
        space: &str,
        role: &str,
        missing: usize,
        all: usize,
        what: &str,
        advice: &str,
    ) {
        let mut told = self.told.lock();
        if missing > 0 && told.insert(format!("{role} {space}")) {
            tracing::warn!("{missing} of {all} {what} have no {role} `{space}`: {advice}");
        }
    }

    /// The graph of the sealed part.
    fn graph(&self, cached: &mut CachedGraph, asked: &AnswerRequest) -> Result<Arc<QueryGraph>> {
        if let Some(graph) = &cached.graph {
            return Ok(graph.item());
        }
        // The memory is reserved before it is used. Nearly every state has an observation.
        let [edges, states] = [Table::StateTransitions, Table::Observations]
            .map(|table| usize::try_from(self.snapshot.rows(table)).unwrap_or(usize::MAX));
        let bytes = edges.saturating_mul(BUILD_EDGE_BYTES);
        let bytes = bytes.saturating_add(states.saturating_mul(BUILD_STATE_BYTES));
        let what = "the transition graph, while it is made,";
        let memory = self.graphs.reserve(cached, what, bytes)?;
        let go_on = || asked.token.go_on();
        let reader = GraphReader::new(&self.snapshot, self.threads, &go_on);
        let graph = build::build(&reader, &self.snapshot, &asked.token)?;
        let bytes = graph.bytes();
        memory
            .try_resize(bytes)
            .map_err(|_refused| self.graphs.full("the transition graph", bytes))?;
        Ok(cached.graph.insert(Cached::new(graph, memory)).item())
    }

    fn walk_backward(
        &self,
        cached: &mut CachedGraph,
        graph: &QueryGraph,
        asked: &AnswerRequest,
    ) -> Result<()> {
        if cached.backward.is_none() {
            let what = "the transition graph, backwards,";
            let memory = self.graphs.reserve(cached, what, graph.backward_bytes())?;
            graph.walk_backward(&asked.token)?;
            cached.backward = Some(memory);
        }
        Ok(())
    }

    /// The rewards of one space for each edge; NaN if there is none.
    fn rewards(
        &self,
        cached: &mut CachedGraph,
        graph: &QueryGraph,
        space: &str,
        asked: &AnswerRequest,
    ) -> Result<Arc<Vec<f64>>> {
        if let Some(rewards) = cached.rewards.get(space) {
            return Ok(rewards.item());
        }
        let what = format!("the rewards `{space}`");
        let memory = self.graphs.reserve(cached, &what, graph.edges() * size_of::<f64>())?;
        let go_on = || asked.token.go_on();
        let rewards = GraphReader::new(&self.snapshot, self.threads, &go_on)
            .rewards(space)
            .map_err(stored)?;
        assert_eq!(rewards.len(), graph.edges(), "one reward an edge");
        let entry = Cached::new(rewards, memory);
        Ok(cached.rewards.entry(space.to_owned()).insert_entry(entry).get().item())
    }

    /// The numbers of one observation space for each node.
    fn observations(
        &self,
        cached: &mut CachedGraph,
        graph: &QueryGraph,
        space: &str,
        asked: &AnswerRequest,
    ) -> Result<Arc<Vec<Option<i64>>>> {
        if let Some(values) = cached.observations.get(space) {
            return Ok(values.item());
        }
        let what = format!("the observations `{space}`");
        let bytes = graph.nodes() * size_of::<Option<i64>>();
        let memory = self.graphs.reserve(cached, &what, bytes)?;
        let values = build::observations(&self.snapshot, graph, space, &asked.token);
        let entry = Cached::new(values?, memory);
        Ok(cached.observations.entry(space.to_owned()).insert_entry(entry).get().item())
    }

    /// The graph with the benchmarks that are not sealed yet.
    fn with_hot_starts(
        &self,
        sealed: Arc<QueryGraph>,
        asked: &AnswerRequest,
    ) -> Result<Arc<QueryGraph>> {
        let hot = build::hot_starts(&self.snapshot);
        if hot.is_empty() {
            return Ok(sealed);
        }
        let hot_names = hot.iter().map(|(name, _)| name);
        let names = hot_names.chain(sealed.starts.iter().map(|(name, _)| name));
        asked.reserve(names.map(|name| name.len() + START_BYTES).sum())?;
        Ok(Arc::new(sealed.with_starts(hot)))
    }

    /// Observations with those that are not sealed yet.
    fn with_hot_observations(
        &self,
        graph: &QueryGraph,
        sealed: Arc<Vec<Option<i64>>>,
        space: &str,
        asked: &AnswerRequest,
    ) -> Result<Observations> {
        let mut more = Vec::new();
        let mut take = |node: Node, value: i64| {
            make_room(&mut more, 1, &asked.memory)?;
            more.push((node, value));
            Ok(())
        };
        let (snapshot, token) = (&self.snapshot, &asked.token);
        build::more_observations(snapshot, graph, &sealed, space, token, &mut take)?;
        Ok(Observations::new(sealed, more))
    }
}

impl fmt::Debug for GraphSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphSource").finish_non_exhaustive()
    }
}
