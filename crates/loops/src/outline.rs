//! A schedule laid out flat, with what follows from the tree.

use super::dag::{Dag, Dim, NodeId};
use super::schedule::{BodyItem, LOOPS_MAX, LoopKind, Schedule, is_streamable};

/// The bytes of one number.
pub const NUMBER_BYTES: u64 = 4;

/// The number of a loop: its place in the text, from 0.
pub type LoopNumber = usize;

/// What is known of a loop.
#[expect(clippy::struct_excessive_bools, reason = "four findings, each by itself")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopFacts {
    /// The dimension that it goes over.
    pub dim: Dim,
    /// How far one iteration goes.
    pub step: u64,
    /// How far all iterations go: the step of the nearest loop around it of the same dimension, or
    /// the dimension's size.
    pub range: u64,
    /// How its iterations are run.
    pub run: LoopKind,
    /// Whether reductions over its dimension are accumulated in tiles.
    pub is_cached: bool,
    /// Whether outputs in its body are stored past the caches.
    pub is_streamed: bool,
    /// The loop around it.
    pub parent: Option<LoopNumber>,
    /// Whether its body has no loops.
    pub is_innermost: bool,
    /// Whether its body has an output whose stores can go past the caches.
    pub(super) can_stream: bool,
}

impl LoopFacts {
    /// The number of iterations, with that of the tail.
    pub fn extent(&self) -> u64 {
        self.range.div_ceil(self.step)
    }

    /// How far the last iteration goes, if that is not the step; else 0.
    pub fn tail(&self) -> u64 {
        self.range % self.step
    }
}

/// A leaf with the loops around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafFacts {
    /// The node.
    pub node: NodeId,
    /// The loops around it, outermost first.
    pub path: Vec<LoopNumber>,
}

/// A schedule laid out flat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The loops, in the order of the text.
    pub loops: Vec<LoopFacts>,
    /// The leaves, in the order in which they are run.
    pub leaves: Vec<LeafFacts>,
    /// The place of each node's leaf, if it has one.
    pub(super) leaf_of: Vec<Option<usize>>,
}

impl Outline {
    /// Lays out a schedule. It need not follow all rules.
    ///
    /// # Errors
    ///
    /// If there are too many loops, a step that leads nowhere, or a node with two leaves.
    pub fn of(schedule: &Schedule, dag: &Dag) -> Result<Self, String> {
        let (loops, leaves, leaf_of) = (Vec::new(), Vec::new(), vec![None; dag.nodes().len()]);
        let mut outline = Self { loops, leaves, leaf_of };
        outline.add(&schedule.0, dag, &mut Vec::new())?;
        Ok(outline)
    }

    fn add(
        &mut self,
        items: &[BodyItem],
        dag: &Dag,
        path: &mut Vec<LoopNumber>,
    ) -> Result<(), String> {
        for item in items {
            let inner = match item {
                BodyItem::Leaf(node) => {
                    let place = self.leaves.len();
                    let known = self.leaf_of.get_mut(node.place());
                    let known = known.ok_or_else(|| format!("there is no node {node}"))?;
                    if known.replace(place).is_some() {
                        return Err(format!("{node} is computed twice"));
                    }
                    self.leaves.push(LeafFacts { node: *node, path: path.clone() });
                    continue;
                }
                BodyItem::Loop(inner) => inner,
            };
            let number = self.loops.len();
            if number == LOOPS_MAX {
                return Err(format!("there are more than {LOOPS_MAX} loops"));
            }
            let around = path.iter().rev().map(|&outer| &self.loops[outer]);
            let same = around.clone().find(|outer| outer.dim == inner.dim);
            let range = same.map_or_else(|| dag.size(inner.dim), |outer| outer.step);
            if !(1..=range).contains(&inner.step) {
                return Err(format!("loop {number} goes by {} within {range}", inner.step));
            }
            if inner.body.is_empty() {
                return Err(format!("loop {number} is empty"));
            }
            self.loops.push(LoopFacts {
                dim: inner.dim,
                step: inner.step,
                range,
                run: inner.run,
                is_cached: inner.is_cached,
                is_streamed: inner.is_streamed,
                parent: path.last().copied(),
                is_innermost: inner.body.iter().all(|item| matches!(item, BodyItem::Leaf(_))),
                can_stream: inner.body.iter().any(|item| is_streamable(item, dag)),
            });
            path.push(number);
            self.add(&inner.body, dag, path)?;
            path.pop();
        }
        Ok(())
    }

    /// The leaf of a node; none for constants, and for inputs that are read where they lie.
    pub fn leaf(&self, node: NodeId) -> Option<&LeafFacts> {
        self.leaf_of[node.place()].map(|place| &self.leaves[place])
    }

    /// The loops of a leaf's path.
    pub fn path<'a>(
        &'a self,
        leaf: &'a LeafFacts,
    ) -> impl DoubleEndedIterator<Item = &'a LoopFacts> + 'a {
        leaf.path.iter().map(|&number| &self.loops[number])
    }

    /// How far a loop goes where each loop around it covers so much: less than its range in a tail.
    pub fn range_now(&self, number: LoopNumber, covered: &[u64]) -> u64 {
        let parent = |at: &LoopNumber| self.loops[*at].parent;
        let mut around = std::iter::successors(self.loops[number].parent, parent);
        let same = around.find(|&at| self.loops[at].dim == self.loops[number].dim);
        same.map_or(self.loops[number].range, |at| covered[at])
    }

    /// The number of loops around both leaves.
    pub fn shared(one: &LeafFacts, other: &LeafFacts) -> usize {
        one.path.iter().zip(&other.path).take_while(|(one, other)| one == other).count()
    }

    /// The place on the leaf's path of the outermost loop over a dimension that its node takes
    /// away: the reduction begins anew before it. None for other leaves.
    pub fn outermost_reducing(&self, dag: &Dag, leaf: &LeafFacts) -> Option<usize> {
        let reduced = dag.node(leaf.node).reduced();
        self.path(leaf).position(|facts| reduced.has(facts.dim))
    }

    /// The place on the leaf's path of the loop in which its reduction is accumulated in a tile, if
    /// there is one.
    pub fn cached(&self, dag: &Dag, leaf: &LeafFacts) -> Option<usize> {
        let reduced = dag.node(leaf.node).reduced();
        self.path(leaf).position(|facts| facts.is_cached && reduced.has(facts.dim))
    }

    /// The loops whose positions are the indices of the tile of a reduction, outermost first: those
    /// within the cached loop that go over dimensions of the value, and the one that is a vector,
    /// whose lanes are accumulated by themselves. `cached` is the place of the cached loop.
    pub fn tile(&self, dag: &Dag, leaf: &LeafFacts, cached: usize) -> Vec<LoopNumber> {
        let dims = dag.node(leaf.node).dims;
        let within = leaf.path.iter().copied().enumerate().skip(cached);
        let is_axis = |&(at, number): &(usize, LoopNumber)| {
            let facts = &self.loops[number];
            (at > cached && dims.has(facts.dim)) || facts.run == LoopKind::Vector
        };
        within.filter(is_axis).map(|(_, number)| number).collect()
    }

    /// The product of the extents of those loops around a leaf that are run in a way.
    pub fn product(&self, leaf: &LeafFacts, run: LoopKind) -> u64 {
        let extents = self.path(leaf).filter(|facts| facts.run == run).map(LoopFacts::extent);
        extents.fold(1, u64::saturating_mul)
    }
}
