//! Nodes and edges.

use std::ops::Range;
use std::sync::Arc;

use crate::kernel::state_index::{Node, StateIndex, add_up, node, sort_distinct};
use steplake_model::{ActionIndex, StateId};

/// The index of an edge.
pub type EdgeIndex = u32;

/// Where the edges of each node are among edges that are sorted by node.
#[derive(Debug, Clone, Default)]
pub struct RowOffsets(Vec<EdgeIndex>);

impl RowOffsets {
    /// Offsets from `counts`: a zero, and then the number of edges of each node. They have to be
    /// fewer than 32 bits can count.
    pub fn from_counts(mut counts: Vec<EdgeIndex>) -> Self {
        add_up(&mut counts);
        Self(counts)
    }

    /// Returns the index of the first edge of each node, and then the number of edges.
    pub fn begins(&self) -> &[EdgeIndex] {
        &self.0
    }

    /// Returns the indices of a node's edges; none for a node without an offset.
    #[inline]
    pub fn edges_of(&self, node: Node) -> Range<usize> {
        match self.0.get(node as usize..=node as usize + 1) {
            Some(&[begin, end]) => begin as usize..end as usize,
            _ => 0..0,
        }
    }
}

/// The states and the state transitions of one snapshot. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct TransitionGraph {
    states: StateIndex,
    edges: Arc<Edges>,
}

/// What clones of a graph share.
#[derive(Debug, Default)]
pub(super) struct Edges {
    /// Nodes after the last one here have no edges.
    pub(super) offsets: RowOffsets,
    pub(super) actions: Vec<ActionIndex>,
    pub(super) targets: Vec<Node>,
    pub(super) counts: Vec<u32>,
    pub(super) failures: Vec<(Node, ActionIndex)>,
}

impl TransitionGraph {
    pub(super) fn new(states: StateIndex, edges: Edges) -> Self {
        Self { states, edges: Arc::new(edges) }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.states.len()
    }

    /// Returns all nodes.
    pub fn all_nodes(&self) -> Range<Node> {
        0..node(self.nodes())
    }

    /// Returns the number of edges.
    pub fn edges(&self) -> usize {
        self.edges.targets.len()
    }

    /// Returns the node of a state; none if the graph does not have it.
    #[inline]
    pub fn find(&self, state: &StateId) -> Option<Node> {
        self.states.find(state)
    }

    /// Returns the state of a node.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[inline]
    pub fn state(&self, node: Node) -> StateId {
        self.states.id(node)
    }

    /// Returns the nodes of the states with this key.
    pub fn with_key(&self, key: i64) -> impl Iterator<Item = Node> + use<> {
        self.states.with_key(key)
    }

    /// Returns the action of each edge.
    #[inline]
    pub fn actions(&self) -> &[ActionIndex] {
        &self.edges.actions
    }

    /// Returns the node that each edge leads to.
    #[inline]
    pub fn targets(&self) -> &[Node] {
        &self.edges.targets
    }

    /// Returns the number of steps that took each edge; at most `u32::MAX`.
    #[inline]
    pub fn counts(&self) -> &[u32] {
        &self.edges.counts
    }

    /// Returns the indices of a node's edges, in the order of their actions.
    #[inline]
    pub fn edges_of(&self, node: Node) -> Range<usize> {
        self.edges.offsets.edges_of(node)
    }

    /// Returns the index of the edge of an action from a node.
    #[inline]
    pub fn edge_of(&self, node: Node, action: ActionIndex) -> Option<usize> {
        let edges = self.edges_of(node);
        let at = self.edges.actions[edges.clone()].binary_search(&action).ok()?;
        Some(edges.start + at)
    }

    /// Returns the node that an action leads to from a node.
    #[inline]
    pub fn follow(&self, node: Node, action: ActionIndex) -> Option<Node> {
        self.edge_of(node, action).map(|edge| self.edges.targets[edge])
    }

    /// Returns the actions on which the compiler failed, each with the node in which it did, sorted
    /// by both. Failed starts have no action and are left out.
    pub fn failures(&self) -> &[(Node, ActionIndex)] {
        &self.edges.failures
    }

    /// Returns the indices of a node's failures.
    pub fn failures_of(&self, node: Node) -> Range<usize> {
        let failures = self.failures();
        let begin = failures.partition_point(|&(at, _)| at < node);
        begin..failures.partition_point(|&(at, _)| at <= node)
    }

    /// Returns the index of the failure of an action in a node.
    pub fn failure_of(&self, node: Node, action: ActionIndex) -> Option<usize> {
        self.failures().binary_search(&(node, action)).ok()
    }

    /// Returns the same graph with a few more states. Those that it does not have become nodes
    /// without edges, after all others. A graph can be widened once.
    ///
    /// # Panics
    ///
    /// If the graph was widened before.
    #[must_use]
    pub fn with_states(&self, states: impl Iterator<Item = StateId>) -> Self {
        let mut others: Vec<StateId> = states.filter(|state| self.find(state).is_none()).collect();
        sort_distinct(&mut others);
        Self { states: self.states.with_others(others), edges: Arc::clone(&self.edges) }
    }

    /// Returns the bytes of memory that the graph takes, without states that it was widened by.
    pub fn bytes(&self) -> usize {
        let Edges { offsets, failures, .. } = &*self.edges;
        self.states.bytes()
            + offsets.0.capacity() * size_of::<EdgeIndex>()
            + self.edges() * (size_of::<ActionIndex>() + size_of::<Node>() + size_of::<u32>())
            + failures.capacity() * size_of::<(Node, ActionIndex)>()
    }
}
