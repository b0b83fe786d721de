//! For each node, the lowest cost that it reaches, and the path there.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::Result;

use super::cancellation::{CancellationToken, Cancelled};
use super::columns::{action_lists, counts, keys, some_states, states};
use super::csr::QueryGraph;
use super::observations::Observations;
use super::question::{AnswerRequest, in_batches};
use super::walk::{NONE, SPREAD_NODE_BYTES, spread};
use crate::sources::blocking_stream::Batches;
use steplake_lake::graph::{EdgeIndex, Node};
use steplake_model::ActionIndex;

/// The shortest path from each node to its goal.
#[derive(Debug)]
pub(super) struct Ways {
    /// The number of steps; [`NONE`] if there is no path.
    steps: Vec<u32>,
    /// The first edge; [`NONE`] at the end of a path, or if there is none.
    first: Vec<EdgeIndex>,
}

impl Ways {
    /// The bytes of the first edges for each node, in addition to the numbers of steps.
    pub(super) const NODE_BYTES: usize = size_of::<EdgeIndex>();

    /// The paths of these lengths. Each starts with the first edge that `takes` accepts and that
    /// leads to a node one step nearer.
    pub(super) fn new(
        graph: &QueryGraph,
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
            let nearer = |&edge: &usize| {
                steps[graph.targets()[edge] as usize] == own - 1 && takes(node, edge)
            };
            let edge = graph.edges_of(node).find(nearer);
            let edge = edge.expect("a path leads to its end");
            Ok(EdgeIndex::try_from(edge).expect("edges have 32 bits"))
        });
        Ok(Self { first: first.collect::<Result<_, _>>()?, steps })
    }

    /// The number of steps of the path from `node`, if there is one.
    pub(super) fn steps(&self, node: Node) -> Option<u32> {
        Some(self.steps[node as usize]).filter(|&steps| steps != NONE)
    }

    /// The actions of the path from `node`.
    pub(super) fn actions(&self, graph: &QueryGraph, node: Node) -> Option<Vec<ActionIndex>> {
        let steps = self.steps(node)?;
        let mut actions = Vec::with_capacity(steps as usize);
        let mut at = node;
        while self.first[at as usize] != NONE {
            let edge = self.first[at as usize] as usize;
            actions.push(graph.actions()[edge]);
            at = graph.targets()[edge];
        }
        Some(actions)
    }

    /// The end of the path from each node; the node itself if there is no path.
    pub(super) fn ends(
        &self,
        graph: &QueryGraph,
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
                at = graph.targets()[self.first[at as usize] as usize];
            }
            // A path that joins an earlier one has the same end.
            let end = if ends[at as usize] == NONE { at } else { ends[at as usize] };
            ends[at as usize] = end;
            for passed in path.drain(..) {
                ends[passed as usize] = end;
            }
        }
        Ok(ends)
    }
}

/// The paths of an answer, with the wanted data about them.
pub(super) struct AnswerPaths {
    graph: Arc<QueryGraph>,
    ways: Ways,
    /// The end of each path; empty if it is not wanted.
    ends: Vec<Node>,
}

impl AnswerPaths {
    pub(super) fn new(graph: Arc<QueryGraph>, ways: Ways, asked: &AnswerRequest) -> Result<Self> {
        let wanted = asked.wants("best_state_id");
        let ends = if wanted { ways.ends(&graph, &asked.token)? } else { Vec::new() };
        Ok(Self { graph, ways, ends })
    }

    /// Batches of one row for each of `nodes`, with the columns about the node and the path from
    /// it. `own` makes every other column of some rows, which are about the nodes that it gets.
    pub(super) fn batches(
        self,
        asked: &Arc<AnswerRequest>,
        nodes: Vec<Node>,
        own: impl Fn(Range<usize>, &[Node], &str) -> ArrayRef + Send + 'static,
    ) -> Batches {
        let answer = Arc::new((self, nodes));
        let lengths = Arc::clone(&answer);
        let length = move |row: usize| {
            let (paths, nodes) = &*lengths;
            paths.ways.steps(nodes[row]).unwrap_or_default() as usize
        };
        in_batches(asked, answer.1.len(), length, move |rows, column| {
            let (Self { graph, ways, ends }, nodes) = &*answer;
            let nodes = &nodes[rows.clone()];
            let some = nodes.iter().copied();
            Ok(match column {
                "state_id" => states(some.map(|node| graph.state(node)))?,
                "state_key" => keys(some.map(|node| graph.state(node))),
                "steps" => counts(some.map(|node| ways.steps(node))),
                "actions" => action_lists(some.map(|node| ways.actions(graph, node))),
                "best_state_id" => {
                    let end = |node: Node| graph.state(ends[node as usize]);
                    some_states(some.map(|node| ways.steps(node).map(|_| end(node))))?
                }
                other => own(rows, nodes, other),
            })
        })
    }
}

/// The bytes that [`lowest`] takes for each node, including the ends of its paths.
pub(super) const LOWEST_NODE_BYTES: usize = size_of::<(i64, Node)>()
    + size_of::<Option<i64>>()
    + SPREAD_NODE_BYTES
    + Ways::NODE_BYTES
    + size_of::<Node>();

/// The lowest cost that each node reaches, its own included, and the shortest path to a node with
/// that cost; none if no cost of these nodes is known.
pub(super) fn lowest(
    graph: &QueryGraph,
    token: &CancellationToken,
    costs: &Observations,
) -> Result<(Vec<Option<i64>>, Ways), Cancelled> {
    let known = graph.all_nodes().filter_map(|node| Some((costs.of(node)?, node)));
    let mut by_cost: Vec<(i64, Node)> = known.collect();
    by_cost.sort_unstable();
    let mut lowest = vec![None; graph.nodes()];
    let mut steps = vec![NONE; graph.nodes()];
    // The lowest cost comes first: a node that reaches it is done.
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
        lowest[graph.targets()[edge] as usize] == lowest[node as usize]
    })?;
    Ok((lowest, ways))
}
