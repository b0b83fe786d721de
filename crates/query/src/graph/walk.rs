//! Shortest paths.

use super::cancellation::{CancellationToken, Cancelled};
use super::csr::QueryGraph;
use steplake_lake::graph::Node;
use steplake_model::ActionIndex;

/// No index, or no distance.
pub(super) const NONE: u32 = u32::MAX;

/// A breadth-first search from one node. Starting it again from another node costs as much as that
/// node reaches.
#[derive(Debug)]
pub(super) struct BreadthFirstSearch {
    /// The index of each node in `reached`.
    places: Vec<u32>,
    /// The nodes that were reached.
    pub(super) reached: Vec<Reached>,
}

/// A node that was reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    pub(super) node: Node,
    /// The fewest steps from the start.
    pub(super) steps: u32,
    /// The index of the node before, and the action that led here from it; none for the start.
    pub(super) before: Option<(u32, ActionIndex)>,
}

impl BreadthFirstSearch {
    /// The most bytes that a search takes for each node.
    pub(super) const NODE_BYTES: usize = size_of::<u32>() + size_of::<Reached>();

    pub(super) fn new(graph: &QueryGraph) -> Self {
        Self { places: vec![NONE; graph.nodes()], reached: Vec::new() }
    }

    /// Reaches nodes from `start` in at most `steps_max` steps, or until it reaches `goal`. Nodes
    /// are reached in the order of their sequences: shorter ones first, then by their actions.
    pub(super) fn begin(
        &mut self,
        graph: &QueryGraph,
        token: &CancellationToken,
        start: Node,
        steps_max: u32,
        goal: Option<Node>,
    ) -> Result<(), Cancelled> {
        for reached in &self.reached {
            self.places[reached.node as usize] = NONE;
        }
        self.reached.clear();
        self.places[start as usize] = 0;
        self.reached.push(Reached { node: start, steps: 0, before: None });
        let mut at = 0;
        while let Some(&Reached { node: from, steps, .. }) = self.reached.get(at) {
            token.check()?;
            if steps == steps_max || goal == Some(from) {
                return Ok(());
            }
            for edge in graph.edges_of(from) {
                let to = graph.targets()[edge];
                if self.places[to as usize] == NONE {
                    self.places[to as usize] = index(self.reached.len());
                    let before = Some((index(at), graph.actions()[edge]));
                    self.reached.push(Reached { node: to, steps: steps + 1, before });
                }
            }
            at += 1;
        }
        Ok(())
    }

    /// The index of `node` among the nodes that were reached.
    pub(super) fn place(&self, node: Node) -> Option<usize> {
        let place = self.places[node as usize];
        (place != NONE).then_some(place as usize)
    }

    /// The actions that lead to the node at `place`.
    pub(super) fn actions(&self, place: usize) -> Vec<ActionIndex> {
        let mut actions = Vec::with_capacity(self.reached[place].steps as usize);
        let mut at = place;
        while let Some((before, action)) = self.reached[at].before {
            actions.push(action);
            at = before as usize;
        }
        actions.reverse();
        actions
    }
}

/// An index among the nodes that were reached, each once.
fn index(place: usize) -> u32 {
    u32::try_from(place).expect("nodes are counted in 32 bits")
}

/// The bytes that distances and a spread over them take for each node.
pub(super) const SPREAD_NODE_BYTES: usize = size_of::<u32>() + size_of::<Node>();

/// The distance of each node from `goal`: the fewest steps, or [`NONE`].
pub(super) fn distances_to(
    graph: &QueryGraph,
    token: &CancellationToken,
    goal: Node,
) -> Result<Vec<u32>, Cancelled> {
    let mut distances = vec![NONE; graph.nodes()];
    distances[goal as usize] = 0;
    spread(graph, token, &mut distances, vec![goal], |_, _| true)?;
    Ok(distances)
}

/// Goes backwards from the nodes of `reached`, whose distances are known and ascend, to nodes
/// without a distance, over the edges that `takes` accepts. Returns all these nodes in the order of
/// their distances.
pub(super) fn spread(
    graph: &QueryGraph,
    token: &CancellationToken,
    distances: &mut [u32],
    mut reached: Vec<Node>,
    takes: impl Fn(Node, usize) -> bool,
) -> Result<Vec<Node>, Cancelled> {
    let backward = graph.backward();
    let mut at = 0;
    while let Some(&to) = reached.get(at) {
        token.check()?;
        for (from, edge) in backward.to(to) {
            if distances[from as usize] == NONE && takes(from, edge) {
                distances[from as usize] = distances[to as usize] + 1;
                reached.push(from);
            }
        }
        at += 1;
    }
    Ok(reached)
}
