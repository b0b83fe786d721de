//! Best-known values: the largest sum of rewards from a state on, over the recorded transitions.
//!
//! `V(s) = max(0, max over a of Q(s, a))` and `Q(s, a) = r(s, a) + gamma * V(s')`: an episode may
//! stop anywhere, and an untried action counts as 0. Where rewards are differences of a cost, as
//! those of CompilerGym's spaces are, `V` without discount is the cost of the state less the lowest
//! cost that it reaches.

use super::cancellation::{CancellationToken, Cancelled};
use super::csr::QueryGraph;
use super::lowest_cost::Ways;
use super::walk::{NONE, SPREAD_NODE_BYTES, spread};
use steplake_lake::graph::{EdgeIndex, Node};

/// Values that differ by less than this part of the largest reward near them count as equal.
const EQUAL: f64 = 1e-9;
/// A value is improved only by more than this part of the largest reward near it,
const IMPROVED: f64 = 1e-12;
/// and more than this part of the value: several times the rounding error.
const ROUNDED: f64 = 4.0 * f64::EPSILON;

/// The value of every node, and the shortest path that earns it.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) values: Vec<f64>,
    pub(super) ways: Ways,
}

/// Why there are no values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NoValues {
    /// The rewards of a cycle have a positive sum.
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

/// The bytes that [`values`] takes for each node.
pub(super) const VALUES_NODE_BYTES: usize = 3 * size_of::<f64>()
    + 2 * size_of::<EdgeIndex>()
    + 2 * size_of::<Node>()
    + size_of::<(Node, usize)>()
    + SPREAD_NODE_BYTES
    + 2 * size_of::<bool>();

/// The best-known values for `rewards`, one for each edge; NaN if there is none.
///
/// Each value is what a policy earns, except for rounding, and no edge improves it. It is below the
/// optimum by at most (1e-12 + 1e-15 / (1 - gamma)) / (1 - gamma) of the largest reward in its
/// connected component: well below a billionth up to a gamma of 0.99. Without a discount, it is
/// below by at most a trillionth for each step of the optimal path.
pub(super) fn values(
    graph: &QueryGraph,
    token: &CancellationToken,
    rewards: &[f64],
    gamma: f64,
) -> Result<Values, NoValues> {
    let scales = scales(graph, token, rewards)?;
    let order = last_first(graph, token)?;
    let values = PolicyIteration {
        graph,
        token,
        rewards,
        gamma,
        scales: &scales,
        values: vec![0.0; graph.nodes()],
        choices: vec![NONE; graph.nodes()],
        waiting: vec![true; graph.nodes()],
        walks: vec![NONE; graph.nodes()],
    }
    .improve(&order)?;
    drop(order);
    let equal = |node: Node| EQUAL * scales[node as usize];
    // The shortest paths that earn the values: backwards from the nodes where stopping is as good
    // as going on.
    let mut steps = vec![NONE; graph.nodes()];
    let ends: Vec<Node> =
        graph.all_nodes().filter(|&node| values[node as usize] <= equal(node)).collect();
    for &end in &ends {
        steps[end as usize] = 0;
    }
    let earns = |from: Node, edge: usize| {
        let q = rewards[edge] + gamma * values[graph.targets()[edge] as usize];
        let value = values[from as usize];
        (q - value).abs() <= equal(from) + 2.0 * ROUNDED * value
    };
    spread(graph, token, &mut steps, ends, earns)?;
    let ways = Ways::new(graph, token, steps, earns)?;
    Ok(Values { values, ways })
}

/// For each node, the largest absolute reward in its connected component. Programs that share no
/// state are separate: if rewards are scaled program by program, those of one may be a billion
/// times those of another.
fn scales(
    graph: &QueryGraph,
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
            // `max` ignores NaN.
            scale = rewards[edges.clone()].iter().map(|reward| reward.abs()).fold(scale, f64::max);
            let before = graph.backward().to(node).map(|(from, _)| from);
            for other in graph.targets()[edges].iter().copied().chain(before) {
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

/// Policy iteration. First nodes choose better edges, successors before their predecessors. Then
/// the choices are evaluated: each node gets the value of following them, also around a cycle for
/// ever. The iteration ends when no node has a better edge: after one round in a graph without
/// cycles, and after at most some dozens in graphs of millions of edges, including random ones.
///
/// Values never fall, and are at most what the choices earn. So chosen edges close a cycle only if
/// it pays: each value on it depends on the next one, and one of them has risen.
struct PolicyIteration<'a> {
    graph: &'a QueryGraph,
    token: &'a CancellationToken,
    rewards: &'a [f64],
    gamma: f64,
    /// The largest reward near each node.
    scales: &'a [f64],
    values: Vec<f64>,
    /// The edge that earns a node its value; [`NONE`] to stop.
    choices: Vec<EdgeIndex>,
    /// Whether an edge of the node may have improved.
    waiting: Vec<bool>,
    /// The start of the walk that met each node.
    walks: Vec<Node>,
}

impl PolicyIteration<'_> {
    /// The values that no choice improves.
    fn improve(mut self, order: &[Node]) -> Result<Vec<f64>, NoValues> {
        while self.choose(order)? {
            self.evaluate(order)?;
        }
        Ok(self.values)
    }

    /// Lets each waiting node choose its best edge. Returns whether any did.
    fn choose(&mut self, order: &[Node]) -> Result<bool, Cancelled> {
        let mut any = false;
        for &node in order {
            self.token.check()?;
            if !std::mem::take(&mut self.waiting[node as usize]) {
                continue;
            }
            let value = self.values[node as usize];
            let (mut highest, mut choice) = (value + ROUNDED * value + self.improved(node), None);
            for edge in self.graph.edges_of(node) {
                let q = self.q_value(node, edge);
                // False for NaN.
                if q > highest {
                    (highest, choice) = (q, Some(edge));
                }
            }
            if let Some(edge) = choice {
                any = true;
                let edge = EdgeIndex::try_from(edge).expect("edges have 32 bits");
                self.choices[node as usize] = edge;
                self.raise(node, highest);
            }
        }
        Ok(any)
    }

    /// The least improvement that counts at a node.
    fn improved(&self, node: Node) -> f64 {
        IMPROVED * self.scales[node as usize]
    }

    /// The Q value of an edge; for an edge to its own node, that of taking it for ever if that
    /// pays.
    fn q_value(&self, node: Node, edge: usize) -> f64 {
        let next = self.graph.targets()[edge];
        let reward = self.rewards[edge];
        if next == node && (self.gamma < 1.0 || reward > self.improved(node)) {
            return reward / (1.0 - self.gamma);
        }
        reward + self.gamma * self.values[next as usize]
    }

    /// Sets a higher value, after which the predecessors choose again.
    fn raise(&mut self, node: Node, value: f64) {
        if value > self.values[node as usize] {
            self.values[node as usize] = value;
            for (from, _) in self.graph.backward().to(node) {
                self.waiting[from as usize] = true;
            }
        }
    }

    /// Gives each node the value of the choices: first the nodes of a cycle, which is followed for
    /// ever, then the nodes that lead there.
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
            // Otherwise the walk ended, or met an earlier walk.
            if self.walks[at as usize] == start {
                if self.gamma >= 1.0 {
                    return Err(NoValues::Unbounded { node: at });
                }
                let begin = path.iter().rposition(|&node| node == at).expect("it was there");
                self.go_round(&path[begin..]);
                path.truncate(begin);
            }
            while let Some(node) = path.pop() {
                self.raise(node, self.q_value(node, self.choices[node as usize] as usize));
            }
        }
        Ok(())
    }

    /// Raises the values of a cycle to the sum of its rewards for ever.
    fn go_round(&mut self, cycle: &[Node]) {
        // The reward of one round, and 1 - gamma^length, as a sum: it is exact for a gamma near 1.
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
        self.graph.targets()[self.choices[node as usize] as usize]
    }

    /// The immediate reward of the choice of `node`.
    fn reward(&self, node: Node) -> f64 {
        self.rewards[self.choices[node as usize] as usize]
    }
}

/// All nodes, each after its successors as far as cycles allow.
fn last_first(graph: &QueryGraph, token: &CancellationToken) -> Result<Vec<Node>, Cancelled> {
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
            let next = graph.targets()[*edge];
            *edge += 1;
            if !std::mem::replace(&mut seen[next as usize], true) {
                path.push((next, graph.edges_of(next).start));
            }
        }
    }
    Ok(order)
}
