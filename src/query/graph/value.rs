//! Best-known values: what the recorded transitions are known to bring from a state on.
//!
//! `V(s) = max(0, max over a of Q(s, a))` and `Q(s, a) = r(s, a) + gamma * V(s')`: one may stop anywhere,
//! and what was never tried is worth nothing. Where rewards are differences of a cost, as those of
//! CompilerGym's spaces are, `V` without discount is the cost of the state less the lowest one that it
//! reaches.

use super::best::Ways;
use super::csr::{Edge, Graph};
use super::index::Node;
use super::walk::{NONE, spread};

/// Values that differ by less than this part of the largest reward count as equal.
const EQUAL: f64 = 1e-9;
/// A value is improved where that brings more than this part of the largest reward.
const IMPROVED: f64 = 1e-12;
/// Passes over all nodes between two looks for a cycle that pays. A graph whose edges led forward alone would
/// take one pass.
const PASSES_BETWEEN_LOOKS: usize = 16;
/// Passes after which a cycle that pays is given up on also where a discount bounds its value.
const PASSES_MAX: usize = 4096;

/// The value of every node, and the shortest way that earns it.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) values: Vec<f64>,
    pub(super) ways: Ways,
}

/// There is no value: a cycle pays each time that it is walked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unbounded {
    /// A node of such a cycle.
    pub(super) node: Node,
}

/// The best-known values for `rewards`, one an edge, NaN where there is none.
pub(super) fn values(graph: &Graph, rewards: &[f64], gamma: f64) -> Result<Values, Unbounded> {
    let scale = rewards.iter().map(|reward| reward.abs()).fold(0.0, f64::max);
    let values = iterate(graph, rewards, gamma, IMPROVED * scale)?;
    let equal = EQUAL * scale;
    // The shortest of the ways that earn it: back from where stopping is as good as going on.
    let mut steps = vec![NONE; graph.nodes()];
    let ends: Vec<Node> =
        graph.all_nodes().filter(|&node| values[node as usize] <= equal).collect();
    for &end in &ends {
        steps[end as usize] = 0;
    }
    let earns = |from: Node, edge: usize| {
        let worth = rewards[edge] + gamma * values[graph.next[edge] as usize];
        (worth - values[from as usize]).abs() <= equal
    };
    spread(graph, &mut steps, ends, earns);
    let ways = Ways::new(graph, steps, earns);
    Ok(Values { values, ways })
}

/// Improves values until none can be improved any more.
fn iterate(
    graph: &Graph,
    rewards: &[f64],
    gamma: f64,
    improved: f64,
) -> Result<Vec<f64>, Unbounded> {
    let order = last_first(graph);
    let backward = graph.backward();
    let mut values = vec![0.0; graph.nodes()];
    let mut choices: Vec<Edge> = vec![NONE; graph.nodes()];
    let mut waiting = vec![true; graph.nodes()];
    for pass in 1_usize.. {
        let mut is_settled = true;
        for &node in &order {
            if !std::mem::take(&mut waiting[node as usize]) {
                continue;
            }
            let mut changed = false;
            for edge in graph.edges_of(node) {
                let worth = rewards[edge] + gamma * values[graph.next[edge] as usize];
                // False for NaN.
                if worth > values[node as usize] + improved {
                    values[node as usize] = worth;
                    choices[node as usize] = Edge::try_from(edge).expect("edges have 32 bits");
                    changed = true;
                    waiting[node as usize] |= graph.next[edge] == node;
                }
            }
            if changed {
                is_settled = false;
                for (from, _) in backward.to(node) {
                    waiting[from as usize] = true;
                }
            }
        }
        if is_settled {
            return Ok(values);
        }
        // With a discount, a cycle that pays has a value all the same.
        let looks = pass % PASSES_BETWEEN_LOOKS == 0 && (gamma >= 1.0 || pass >= PASSES_MAX);
        if looks && let Some(node) = cycle(graph, &choices) {
            return Err(Unbounded { node });
        }
    }
    unreachable!("the passes above end when nothing improves")
}

/// All nodes in an order in which those that a node leads to come before it, as far as cycles allow that.
fn last_first(graph: &Graph) -> Vec<Node> {
    let mut order = Vec::with_capacity(graph.nodes());
    let mut seen = vec![false; graph.nodes()];
    let mut path: Vec<(Node, usize)> = Vec::new();
    for start in graph.starts.iter().map(|&(_, node)| node).chain(graph.all_nodes()) {
        if std::mem::replace(&mut seen[start as usize], true) {
            continue;
        }
        path.push((start, graph.edges_of(start).start));
        while let Some((node, edge)) = path.last_mut() {
            if *edge == graph.edges_of(*node).end {
                order.push(*node);
                path.pop();
                continue;
            }
            let next = graph.next[*edge];
            *edge += 1;
            if !std::mem::replace(&mut seen[next as usize], true) {
                path.push((next, graph.edges_of(next).start));
            }
        }
    }
    order
}

/// A node that comes back to itself along the edges that were chosen. An edge is chosen where it improves the
/// value, so that around such a cycle each value rests on having been improved by the next.
fn cycle(graph: &Graph, choices: &[Edge]) -> Option<Node> {
    // In which walk each node was first met.
    let mut walks = vec![NONE; graph.nodes()];
    for start in graph.all_nodes() {
        let mut at = start;
        while walks[at as usize] == NONE {
            walks[at as usize] = start;
            match choices[at as usize] {
                NONE => break,
                edge => at = graph.next[edge as usize],
            }
            if walks[at as usize] == start {
                return Some(at);
            }
        }
    }
    None
}
