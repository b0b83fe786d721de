//! Nodes and edges.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::cancellation::{CancellationToken, Cancelled};
use crate::lake::state_index::{Node, StateIndex, add_up, node, place};
use crate::model::StateId;

/// The index of an edge.
pub(super) type EdgeIndex = u32;

/// The transition graph of one snapshot. Clones share its edges.
#[derive(Debug, Clone, Default)]
pub(super) struct Graph {
    pub(super) states: StateIndex,
    /// The first edge of each node, and the end of the last edges. Nodes after these have no edges.
    pub(super) first_edge: Arc<Vec<EdgeIndex>>,
    pub(super) actions: Arc<Vec<i32>>,
    pub(super) next: Arc<Vec<Node>>,
    /// The number of steps that took each edge; at most `u32::MAX`.
    pub(super) counts: Arc<Vec<u32>>,
    /// The actions on which the compiler failed, sorted by node.
    pub(super) failures: Arc<Vec<(Node, i32)>>,
    /// The benchmarks by name, each with its initial state.
    pub(super) starts: Arc<[(String, Node)]>,
    pub(super) backward: Arc<OnceLock<Backward>>,
}

/// The edges by the node that they lead to, without edges from a node to itself.
#[derive(Debug)]
pub(super) struct Backward {
    first: Vec<EdgeIndex>,
    from: Vec<Node>,
    edges: Vec<EdgeIndex>,
}

impl Graph {
    pub(super) fn nodes(&self) -> usize {
        self.states.len()
    }

    pub(super) fn all_nodes(&self) -> Range<Node> {
        0..node(self.nodes())
    }

    pub(super) fn edges(&self) -> usize {
        self.next.len()
    }

    /// The indices of a node's edges, in the order of their actions.
    pub(super) fn edges_of(&self, node: Node) -> Range<usize> {
        places(&self.first_edge, node)
    }

    /// Where `action` leads from `node`.
    pub(super) fn follow(&self, node: Node, action: i32) -> Option<Node> {
        let edges = self.edges_of(node);
        let at = self.actions[edges.clone()].binary_search(&action).ok()?;
        Some(self.next[edges][at])
    }

    /// The actions on which the compiler failed at `node`.
    pub(super) fn failed(&self, node: Node) -> &[(Node, i32)] {
        let begin = self.failures.partition_point(|&(at, _)| at < node);
        let end = self.failures.partition_point(|&(at, _)| at <= node);
        &self.failures[begin..end]
    }

    pub(super) fn find(&self, state: &StateId) -> Option<Node> {
        self.states.find(state)
    }

    /// The same graph with more benchmarks. An initial state that it does not have becomes a node
    /// without edges.
    pub(super) fn with_starts(&self, more: Vec<(String, StateId)>) -> Self {
        let new = more.iter().map(|(_, state)| *state).filter(|state| self.find(state).is_none());
        let mut others: Vec<StateId> = new.collect();
        others.sort_unstable_by_key(place);
        others.dedup();
        let states = self.states.with_others(others);
        let find = |state: &StateId| states.find(state).expect("every start has a node");
        let more = more.into_iter().map(|(name, state)| (name, find(&state)));
        let mut starts: Vec<(String, Node)> = self.starts.iter().cloned().chain(more).collect();
        starts.sort_unstable();
        Self { starts: starts.into(), states, ..self.clone() }
    }

    /// The backward edges, once [`Graph::walk_backward`] has made them.
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

    /// The bytes of the graph, without its backward edges.
    pub(super) fn bytes(&self) -> usize {
        let names =
            self.starts.iter().map(|(name, _)| name.capacity() + size_of::<(String, Node)>());
        self.states.bytes()
            + self.first_edge.capacity() * size_of::<EdgeIndex>()
            + self.edges() * (size_of::<i32>() + size_of::<Node>() + size_of::<u32>())
            + self.failures.capacity() * size_of::<(Node, i32)>()
            + names.sum::<usize>()
    }

    /// The bytes of the backward edges.
    pub(super) fn backward_bytes(&self) -> usize {
        self.edges() * (size_of::<Node>() + size_of::<EdgeIndex>())
            + (self.nodes() + 1) * size_of::<EdgeIndex>()
    }
}

impl Backward {
    fn of(graph: &Graph, token: &CancellationToken) -> Result<Self, Cancelled> {
        let mut first: Vec<EdgeIndex> = vec![0; graph.nodes() + 1];
        let moves = |from: Node| graph.edges_of(from).filter(move |&edge| graph.next[edge] != from);
        for node in graph.all_nodes() {
            token.check()?;
            for edge in moves(node) {
                first[graph.next[edge] as usize + 1] += 1;
            }
        }
        let sum = add_up(&mut first) as usize;
        let mut free = first.clone();
        let (mut from, mut edges) = (vec![0; sum], vec![0; sum]);
        for node in graph.all_nodes() {
            token.check()?;
            for edge in moves(node) {
                let free = &mut free[graph.next[edge] as usize];
                from[*free as usize] = node;
                edges[*free as usize] =
                    EdgeIndex::try_from(edge).expect("edges are counted in 32 bits");
                *free += 1;
            }
        }
        Ok(Self { first, from, edges })
    }

    /// The edges that lead to `node`, each with its source and its index.
    pub(super) fn to(&self, node: Node) -> impl Iterator<Item = (Node, usize)> + '_ {
        let edges = places(&self.first, node);
        edges.map(|place| (self.from[place], self.edges[place] as usize))
    }
}

/// The range of a node, by the first index of each node; empty after the last node.
fn places(first: &[EdgeIndex], node: Node) -> Range<usize> {
    match first.get(node as usize..=node as usize + 1) {
        Some(&[begin, end]) => begin as usize..end as usize,
        _ => 0..0,
    }
}
