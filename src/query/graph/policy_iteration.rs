//! Best-known values: what the recorded transitions are known to bring from a state on.
//!
//! `V(s) = max(0, max over a of Q(s, a))` and `Q(s, a) = r(s, a) + gamma * V(s')`: one may stop
//! anywhere, and what was never tried is worth nothing. Where rewards are differences of a cost, as
//! those of CompilerGym's spaces are, `V` without discount is the cost of the state less the lowest
//! one that it reaches.

use super::cancellation::{CancellationToken, Cancelled};
use super::csr::{Edge, Graph};
use super::index::Node;
use super::lowest_cost::Ways;
use super::walk::{NONE, SPREAD_NODE_BYTES, spread};

/// Values that differ by less than this part of the largest reward near them count as equal.
const EQUAL: f64 = 1e-9;
/// A value is improved where that brings more than this part of the largest reward near it,
const IMPROVED: f64 = 1e-12;
/// and more than this part of the value: several times what rounding may feign.
const ROUNDED: f64 = 4.0 * f64::EPSILON;

/// The value of every node, and the shortest way that earns it.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) values: Vec<f64>,
    pub(super) ways: Ways,
}

/// Why there are no values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NoValues {
    /// A cycle pays each time that it is walked.
    Unbounded {
        /// A node of such a cycle.
        node: Node,
    },
    /// The reader left.
    Cancelled(Cancelled),
}

impl From<Cancelled> for NoValues {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

/// Bytes of memory that [`values`] takes for each node.
pub(super) const VALUES_NODE_BYTES: usize = 3 * size_of::<f64>()
    + 2 * size_of::<Edge>()
    + 2 * size_of::<Node>()
    + size_of::<(Node, usize)>()
    + SPREAD_NODE_BYTES
    + 2 * size_of::<bool>();

/// The best-known values for `rewards`, one an edge, NaN where there is none.
///
/// Each value is what a policy earns, but for rounding, and no edge improves on it. It falls short
/// of the best by at most (1e-12 + 1e-15 / (1 - gamma)) / (1 - gamma) of the largest reward of what
/// is connected with it, well below a billionth up to a gamma of 0.99; without a discount, by at
/// most a trillionth for each step of the best way.
pub(super) fn values(
    graph: &Graph,
    token: &CancellationToken,
    rewards: &[f64],
    gamma: f64,
) -> Result<Values, NoValues> {
    let scales = scales(graph, token, rewards)?;
    let order = last_first(graph, token)?;
    let values = Policy::new(graph, token, rewards, gamma, &scales).improve(&order)?;
    drop(order);
    let equal = |node: Node| EQUAL * scales[node as usize];
    // The shortest of the ways that earn it: back from where stopping is as good as going on.
    let mut steps = vec![NONE; graph.nodes()];
    let ends: Vec<Node> =
        graph.all_nodes().filter(|&node| values[node as usize] <= equal(node)).collect();
    for &end in &ends {
        steps[end as usize] = 0;
    }
    let earns = |from: Node, edge: usize| {
        let worth = rewards[edge] + gamma * values[graph.next[edge] as usize];
        let value = values[from as usize];
        (worth - value).abs() <= equal(from) + 2.0 * ROUNDED * value
    };
    spread(graph, token, &mut steps, ends, earns)?;
    let ways = Ways::new(graph, token, steps, earns)?;
    Ok(Values { values, ways })
}

/// For each node the largest reward, without its sign, among all nodes that edges connect with it,
/// whichever way they lead. Programs that share no state are measured apart: where rewards are
/// scaled program by program, those of one may be a billion times those of another.
fn scales(
    graph: &Graph,
    token: &CancellationToken,
    rewards: &[f64],
) -> Result<Vec<f64>, Cancelled> {
    // Not known yet.
    let mut scales = vec![f64::NAN; graph.nodes()];
    let mut met: Vec<Node> = Vec::new();
    for start in graph.all_nodes() {
        if !scales[start as usize].is_nan() {
            continue;
        }
        let mut scale = 0.0;
        scales[start as usize] = scale;
        met.push(start);
        let mut at = 0;
        while let Some(&node) = met.get(at) {
            token.check()?;
            let edges = graph.edges_of(node);
            // NaN is passed over.
            scale = rewards[edges.clone()].iter().map(|reward| reward.abs()).fold(scale, f64::max);
            let before = graph.backward().to(node).map(|(from, _)| from);
            for other in graph.next[edges].iter().copied().chain(before) {
                if scales[other as usize].is_nan() {
                    scales[other as usize] = 0.0;
                    met.push(other);
                }
            }
            at += 1;
        }
        for node in met.drain(..) {
            scales[node as usize] = scale;
        }
    }
    Ok(scales)
}

/// Policy iteration. Nodes choose better edges, those first that others lead to; then all choices
/// are followed, which gives each node what they earn from there on, also where they go round in a
/// circle for ever. That ends when no node has a better edge: after one round in a graph without
/// cycles, after some dozens at most in graphs of millions of edges that were tried, random ones
/// among them.
///
/// Values only ever rise, and are at most what the choices earn. So chosen edges close a cycle only
/// where that pays: around it each value rests on the next one's, and one of them rose since.
struct Policy<'a> {
    graph: &'a Graph,
    token: &'a CancellationToken,
    rewards: &'a [f64],
    gamma: f64,
    /// The largest reward near each node.
    scales: &'a [f64],
    values: Vec<f64>,
    /// The edge that earns a node its value; [`NONE`] to stop.
    choices: Vec<Edge>,
    /// Whether an edge of the node may have become better.
    waiting: Vec<bool>,
    /// On the walk from which node a node was met.
    walks: Vec<Node>,
}

impl<'a> Policy<'a> {
    fn new(
        graph: &'a Graph,
        token: &'a CancellationToken,
        rewards: &'a [f64],
        gamma: f64,
        scales: &'a [f64],
    ) -> Self {
        Self {
            graph,
            token,
            rewards,
            gamma,
            scales,
            values: vec![0.0; graph.nodes()],
            choices: vec![NONE; graph.nodes()],
            waiting: vec![true; graph.nodes()],
            walks: vec![NONE; graph.nodes()],
        }
    }

    /// The values that no choice makes better.
    fn improve(mut self, order: &[Node]) -> Result<Vec<f64>, NoValues> {
        while self.choose(order)? {
            self.evaluate(order)?;
        }
        Ok(self.values)
    }

    /// Lets each node that waits choose its best edge; whether any chose.
    fn choose(&mut self, order: &[Node]) -> Result<bool, Cancelled> {
        let mut any = false;
        for &node in order {
            self.token.check()?;
            if !std::mem::take(&mut self.waiting[node as usize]) {
                continue;
            }
            let value = self.values[node as usize];
            let (mut best, mut choice) = (value + ROUNDED * value + self.improved(node), None);
            for edge in self.graph.edges_of(node) {
                let worth = self.worth(node, edge);
                // False for NaN.
                if worth > best {
                    (best, choice) = (worth, Some(edge));
                }
            }
            if let Some(edge) = choice {
                any = true;
                let edge = Edge::try_from(edge).expect("edges have 32 bits");
                self.choices[node as usize] = edge;
                self.raise(node, best);
            }
        }
        Ok(any)
    }

    /// What counts as better at a node.
    fn improved(&self, node: Node) -> f64 {
        IMPROVED * self.scales[node as usize]
    }

    /// What it is worth to take an edge: also for ever, where it leads back at once.
    fn worth(&self, node: Node, edge: usize) -> f64 {
        let next = self.graph.next[edge];
        let reward = self.rewards[edge];
        if next == node && (self.gamma < 1.0 || reward > self.improved(node)) {
            return reward / (1.0 - self.gamma);
        }
        reward + self.gamma * self.values[next as usize]
    }

    /// Sets a higher value; those that lead here may want to choose again.
    fn raise(&mut self, node: Node, value: f64) {
        if value > self.values[node as usize] {
            self.values[node as usize] = value;
            for (from, _) in self.graph.backward().to(node) {
                self.waiting[from as usize] = true;
            }
        }
    }

    /// Gives each node what the choices earn: those of a cycle what going round for ever is worth,
    /// then those that lead there.
    fn evaluate(&mut self, order: &[Node]) -> Result<(), NoValues> {
        self.walks.fill(NONE);
        let mut path = Vec::new();
        for &start in order {
            self.token.check()?;
            let mut at = start;
            while self.walks[at as usize] == NONE && self.choices[at as usize] != NONE {
                self.token.check()?;
                self.walks[at as usize] = start;
                path.push(at);
                at = self.next(at);
            }
            // Otherwise the walk ended, or came to where an earlier one had been.
            if self.walks[at as usize] == start {
                if self.gamma >= 1.0 {
                    return Err(NoValues::Unbounded { node: at });
                }
                let begin = path.iter().rposition(|&node| node == at).expect("it was there");
                self.go_round(&path[begin..]);
                path.truncate(begin);
            }
            while let Some(node) = path.pop() {
                self.raise(node, self.worth(node, self.choices[node as usize] as usize));
            }
        }
        Ok(())
    }

    /// Raises the values of a cycle to what its rewards add up to for ever.
    fn go_round(&mut self, cycle: &[Node]) {
        // What one round earns, and 1 - gamma^length: added up, for where gamma is near 1.
        let (mut once, mut lost) = (0.0, 0.0);
        for &node in cycle.iter().rev() {
            once = self.reward(node) + self.gamma * once;
            lost = (1.0 - self.gamma) + self.gamma * lost;
        }
        let mut value = once / lost;
        for &node in cycle.iter().rev() {
            value = self.reward(node) + self.gamma * value;
            self.raise(node, value);
        }
    }

    /// Where the choice of `node` leads.
    fn next(&self, node: Node) -> Node {
        self.graph.next[self.choices[node as usize] as usize]
    }

    /// What the choice of `node` earns at once.
    fn reward(&self, node: Node) -> f64 {
        self.rewards[self.choices[node as usize] as usize]
    }
}

/// All nodes in an order in which those that a node leads to come before it, as far as cycles allow
/// that.
fn last_first(graph: &Graph, token: &CancellationToken) -> Result<Vec<Node>, Cancelled> {
    let mut order = Vec::with_capacity(graph.nodes());
    let mut seen = vec![false; graph.nodes()];
    let mut path: Vec<(Node, usize)> = Vec::new();
    for start in graph.starts.iter().map(|&(_, node)| node).chain(graph.all_nodes()) {
        if std::mem::replace(&mut seen[start as usize], true) {
            continue;
        }
        path.push((start, graph.edges_of(start).start));
        while let Some((node, edge)) = path.last_mut() {
            token.check()?;
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
    Ok(order)
}
