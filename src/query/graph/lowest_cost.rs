//! For each node the best that can be reached from it, and the way there.

use super::cancellation::{CancellationToken, Cancelled};
use super::csr::{Edge, Graph};
use super::index::Node;
use super::observations::Observations;
use super::walk::{NONE, SPREAD_NODE_BYTES, spread};

/// The shortest way from each node to the best that it reaches.
#[derive(Debug)]
pub(super) struct Ways {
    /// How many steps; [`NONE`] where there is no way.
    steps: Vec<u32>,
    /// The edge that is taken first; [`NONE`] where the way is at its end, or there is none.
    first: Vec<Edge>,
}

impl Ways {
    /// The ways of these lengths: the first step goes along the first edge that leads to a node
    /// which is one step nearer and that `takes` holds true for.
    pub(super) fn new(
        graph: &Graph,
        token: &CancellationToken,
        steps: Vec<u32>,
        takes: impl Fn(Node, usize) -> bool,
    ) -> Result<Self, Cancelled> {
        let first = graph.all_nodes().map(|node| {
            token.check()?;
            let own = steps[node as usize];
            if own == NONE || own == 0 {
                return Ok(NONE);
            }
            let nearer =
                |&edge: &usize| steps[graph.next[edge] as usize] == own - 1 && takes(node, edge);
            let edge = graph.edges_of(node).find(nearer);
            let edge = edge.expect("a way goes on to its end");
            Ok(Edge::try_from(edge).expect("edges have 32 bits"))
        });
        Ok(Self { first: first.collect::<Result<_, _>>()?, steps })
    }

    /// How many steps the way from `node` has, if there is one.
    pub(super) fn steps(&self, node: Node) -> Option<u32> {
        Some(self.steps[node as usize]).filter(|&steps| steps != NONE)
    }

    /// The actions of the way from `node`.
    pub(super) fn actions(&self, graph: &Graph, node: Node) -> Option<Vec<i16>> {
        let steps = self.steps(node)?;
        let mut actions = Vec::with_capacity(steps as usize);
        let mut at = node;
        while self.first[at as usize] != NONE {
            let edge = self.first[at as usize] as usize;
            actions.push(graph.actions[edge]);
            at = graph.next[edge];
        }
        Some(actions)
    }

    /// Where the way from each node ends; the node itself where there is none.
    pub(super) fn ends(
        &self,
        graph: &Graph,
        token: &CancellationToken,
    ) -> Result<Vec<Node>, Cancelled> {
        let mut ends = vec![NONE; self.steps.len()];
        let mut path = Vec::new();
        for node in graph.all_nodes() {
            token.check()?;
            let mut at = node;
            while ends[at as usize] == NONE && self.first[at as usize] != NONE {
                token.check()?;
                path.push(at);
                at = graph.next[self.first[at as usize] as usize];
            }
            // What was walked before need not be walked again.
            let end = if ends[at as usize] == NONE { at } else { ends[at as usize] };
            ends[at as usize] = end;
            for passed in path.drain(..) {
                ends[passed as usize] = end;
            }
        }
        Ok(ends)
    }
}

/// Bytes of memory that [`lowest`] takes for each node, with the ends of its ways.
pub(super) const LOWEST_NODE_BYTES: usize = size_of::<(i64, Node)>()
    + size_of::<Option<i64>>()
    + SPREAD_NODE_BYTES
    + size_of::<Edge>()
    + size_of::<Node>();

/// The lowest cost that each node reaches, itself included, and the shortest way to a node that has
/// it; none where no cost of what it reaches is known.
pub(super) fn lowest(
    graph: &Graph,
    token: &CancellationToken,
    costs: &Observations,
) -> Result<(Vec<Option<i64>>, Ways), Cancelled> {
    let known = graph.all_nodes().filter_map(|node| Some((costs.of(node)?, node)));
    let mut by_cost: Vec<(i64, Node)> = known.collect();
    by_cost.sort_unstable();
    let mut lowest = vec![None; graph.nodes()];
    let mut steps = vec![NONE; graph.nodes()];
    // The lowest cost first: what reaches it wants no other.
    for goals in by_cost.chunk_by(|(one, _), (other, _)| one == other) {
        token.check()?;
        let cost = goals[0].0;
        let free = goals.iter().map(|&(_, node)| node).filter(|&node| steps[node as usize] == NONE);
        let goals: Vec<Node> = free.collect();
        for &goal in &goals {
            steps[goal as usize] = 0;
        }
        for node in spread(graph, token, &mut steps, goals, |_, _| true)? {
            lowest[node as usize] = Some(cost);
        }
    }
    let ways = Ways::new(graph, token, steps, |node, edge| {
        lowest[graph.next[edge] as usize] == lowest[node as usize]
    })?;
    Ok((lowest, ways))
}
