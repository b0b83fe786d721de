//! The transition graph with its benchmarks, and its edges backwards.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::cancellation::{CancellationToken, Cancelled};
use steplake_lake::graph::{EdgeIndex, Node, RowOffsets, TransitionGraph};
use steplake_model::StateId;

/// A transition graph, with what questions to it need besides. Clones share its edges.
#[derive(Debug, Clone, Default)]
pub(super) struct QueryGraph {
    inner: TransitionGraph,
    /// The benchmarks by name, each with its initial state.
    pub(super) starts: Arc<[(String, Node)]>,
    backward: Arc<OnceLock<Backward>>,
}

impl From<TransitionGraph> for QueryGraph {
    fn from(graph: TransitionGraph) -> Self {
        Self { inner: graph, ..Self::default() }
    }
}

impl Deref for QueryGraph {
    type Target = TransitionGraph;

    fn deref(&self) -> &TransitionGraph {
        &self.inner
    }
}

/// The edges by the node that they lead to, without edges from a node to itself.
#[derive(Debug)]
pub(super) struct Backward {
    offsets: RowOffsets,
    from: Vec<Node>,
    edges: Vec<EdgeIndex>,
}

impl QueryGraph {
    /// The same graph with more benchmarks. An initial state that it does not have becomes a node
    /// without edges.
    pub(super) fn with_starts(&self, more: Vec<(String, StateId)>) -> Self {
        let inner = self.with_states(more.iter().map(|(_, state)| *state));
        let find = |state: &StateId| inner.find(state).expect("every start has a node");
        let more = more.into_iter().map(|(name, state)| (name, find(&state)));
        let mut starts: Vec<(String, Node)> = self.starts.iter().cloned().chain(more).collect();
        starts.sort_unstable();
        Self { inner, starts: starts.into(), backward: Arc::clone(&self.backward) }
    }

    /// The backward edges, once [`QueryGraph::walk_backward`] has made them.
    pub(super) fn backward(&self) -> &Backward {
        self.backward.get().expect("the question needs backward edges")
    }

    /// Makes the backward edges, unless they exist.
    pub(super) fn walk_backward(&self, token: &CancellationToken) -> Result<(), Cancelled> {
        if self.backward.get().is_none() {
            let made = Backward::of(self, token)?;
            // Another thread may have set the same edges meanwhile.
            let _ = self.backward.set(made);
        }
        Ok(())
    }

    /// The bytes of the graph with its benchmarks, without its backward edges.
    pub(super) fn bytes(&self) -> usize {
        let names =
            self.starts.iter().map(|(name, _)| name.capacity() + size_of::<(String, Node)>());
        self.inner.bytes() + names.sum::<usize>()
    }

    /// The bytes of the backward edges.
    pub(super) fn backward_bytes(&self) -> usize {
        self.edges() * (size_of::<Node>() + size_of::<EdgeIndex>())
            + (self.nodes() + 1) * size_of::<EdgeIndex>()
    }
}

impl Backward {
    fn of(graph: &TransitionGraph, token: &CancellationToken) -> Result<Self, Cancelled> {
        let mut counts: Vec<EdgeIndex> = vec![0; graph.nodes() + 1];
        let targets = graph.targets();
        let moves = |from: Node| graph.edges_of(from).filter(move |&edge| targets[edge] != from);
        for node in graph.all_nodes() {
            token.check()?;
            for edge in moves(node) {
                counts[targets[edge] as usize + 1] += 1;
            }
        }
        let offsets = RowOffsets::from_counts(counts);
        let mut free = offsets.begins().to_vec();
        let sum = free.last().map_or(0, |&sum| sum as usize);
        let (mut from, mut edges) = (vec![0; sum], vec![0; sum]);
        for node in graph.all_nodes() {
            token.check()?;
            for edge in moves(node) {
                let free = &mut free[targets[edge] as usize];
                from[*free as usize] = node;
                edges[*free as usize] =
                    EdgeIndex::try_from(edge).expect("edges are counted in 32 bits");
                *free += 1;
            }
        }
        Ok(Self { offsets, from, edges })
    }

    /// The edges that lead to `node`, each with its source and its index.
    pub(super) fn to(&self, node: Node) -> impl Iterator<Item = (Node, usize)> + '_ {
        let edges = self.offsets.edges_of(node);
        edges.map(|place| (self.from[place], self.edges[place] as usize))
    }
}
