//! A schedule laid out flat, with what follows from the tree, and its rules.

use super::dag::{Dag, Dim, Dims, NodeId, Operation};
use super::schedule::{
    BLOCK_THREADS_MAX, COPIES_MAX, Item, LOOPS_MAX, MAPPED_LOOPS_MAX, Run, Schedule,
    TEMPORARY_BYTES_MAX, TILE_PLACES_MAX, UNROLL_EXTENT_MAX, VECTOR_EXTENT_MAX, is_streamable,
};
use super::storage::Storage;

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
    pub run: Run,
    /// Whether reductions over its dimension are accumulated in tiles.
    pub is_cached: bool,
    /// Whether outputs in its body are stored past the caches.
    pub is_streamed: bool,
    /// The loop around it.
    pub parent: Option<LoopNumber>,
    /// Whether its body has no loops.
    pub is_innermost: bool,
    /// Whether its body has an output whose stores can go past the caches.
    can_stream: bool,
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
    leaf_of: Vec<Option<usize>>,
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

    fn add(&mut self, items: &[Item], dag: &Dag, path: &mut Vec<LoopNumber>) -> Result<(), String> {
        for item in items {
            let inner = match item {
                Item::Leaf(node) => {
                    let place = self.leaves.len();
                    let known = self.leaf_of.get_mut(node.place());
                    let known = known.ok_or_else(|| format!("there is no node {node}"))?;
                    if known.replace(place).is_some() {
                        return Err(format!("{node} is computed twice"));
                    }
                    self.leaves.push(LeafFacts { node: *node, path: path.clone() });
                    continue;
                }
                Item::Loop(inner) => inner,
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
                is_innermost: inner.body.iter().all(|item| matches!(item, Item::Leaf(_))),
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
            (at > cached && dims.has(facts.dim)) || facts.run == Run::Vector
        };
        within.filter(is_axis).map(|(_, number)| number).collect()
    }

    /// Each computed node has one leaf, and each leaf the loops that its node needs and no others.
    pub(super) fn check_leaves(&self, dag: &Dag) -> Result<(), String> {
        let missing = |id: &NodeId| dag.node(*id).is_computed() && self.leaf(*id).is_none();
        if let Some(id) = dag.ids().find(missing) {
            return Err(format!("{id} is not computed"));
        }
        for leaf in &self.leaves {
            let node = dag.node(leaf.node);
            if matches!(node.operation, Operation::Constant(_)) {
                return Err(format!("{} is a constant", leaf.node));
            }
            let around = self.path(leaf).map(|facts| facts.dim).collect::<Dims>();
            if around != node.iterated() {
                return Err(format!("{} is in loops of other dimensions", leaf.node));
            }
            for dim in around.iter() {
                let innermost = self.path(leaf).rfind(|facts| facts.dim == dim);
                if innermost.is_some_and(|facts| facts.step != 1) {
                    let name = dag.name(dim);
                    return Err(format!("{} is in no loop of {name} by 1", leaf.node));
                }
            }
        }
        Ok(())
    }

    /// A value is there before it is used, and a reduction is complete.
    pub(super) fn check_order(&self, dag: &Dag) -> Result<(), String> {
        for (place, user) in self.leaves.iter().enumerate() {
            let computed = dag.node(user.node).operands();
            for operand in computed.filter(|id| self.leaf_of[id.place()].is_some()) {
                let made = self.leaf_of[operand.place()].unwrap_or(usize::MAX);
                if made >= place {
                    return Err(format!("{} is computed before {operand}", user.node));
                }
                let made = &self.leaves[made];
                let shared = Self::shared(made, user);
                if self.outermost_reducing(dag, made).is_some_and(|first| first < shared) {
                    return Err(format!("{} uses {operand} before it is complete", user.node));
                }
            }
        }
        Ok(())
    }

    /// The loops can be run as they are marked.
    pub(super) fn check_loops(&self, dag: &Dag) -> Result<(), String> {
        for (number, facts) in self.loops.iter().enumerate() {
            let extent = facts.extent();
            let around = |run: Run| self.around(number).all(|outer| outer.run == run);
            let is_right = match facts.run {
                Run::Serial => true,
                Run::Parallel => facts.parent.is_none(),
                Run::Grid => around(Run::Grid) && self.depth(number) < MAPPED_LOOPS_MAX,
                Run::Block => self.is_block(number),
                Run::Vector => {
                    facts.is_innermost
                        && facts.step == 1
                        && (2..=VECTOR_EXTENT_MAX).contains(&extent)
                }
                Run::Unroll => extent <= UNROLL_EXTENT_MAX,
            };
            if !is_right {
                return Err(format!("loop {number} cannot be run as it is marked"));
            }
            if facts.is_streamed && !facts.can_stream {
                return Err(format!("loop {number} stores no output that could be streamed"));
            }
        }
        for leaf in &self.leaves {
            let reduced = dag.node(leaf.node).reduced();
            let races = |facts: &LoopFacts| facts.run.is_concurrent() && reduced.has(facts.dim);
            if self.path(leaf).any(races) {
                return Err(format!("iterations that run at once would all add to {}", leaf.node));
            }
            if self.product(leaf, Run::Unroll) > COPIES_MAX {
                return Err(format!("{} would be copied too often", leaf.node));
            }
            if self.product(leaf, Run::Block) > BLOCK_THREADS_MAX {
                return Err(format!("{} would need too many threads", leaf.node));
            }
        }
        Ok(())
    }

    /// The product of the extents of those loops around a leaf that are run in a way.
    pub fn product(&self, leaf: &LeafFacts, run: Run) -> u64 {
        let extents = self.path(leaf).filter(|facts| facts.run == run).map(LoopFacts::extent);
        extents.fold(1, u64::saturating_mul)
    }

    /// The loops around a loop, innermost first.
    fn around(&self, number: LoopNumber) -> impl Iterator<Item = &LoopFacts> {
        let parent = move |&at: &LoopNumber| self.loops[at].parent;
        std::iter::successors(self.loops[number].parent, parent).map(|at| &self.loops[at])
    }

    fn depth(&self, number: LoopNumber) -> usize {
        self.around(number).count()
    }

    /// Whether a loop can be dealt to the threads of a block.
    fn is_block(&self, number: LoopNumber) -> bool {
        let is_outer = |run| matches!(run, Run::Serial | Run::Grid | Run::Block);
        let blocks = self.around(number).filter(|outer| outer.run == Run::Block).count();
        self.around(number).all(|outer| is_outer(outer.run)) && blocks < MAPPED_LOOPS_MAX
    }

    /// Tiles are small, each reduction has one at most, and one whose lanes are accumulated by
    /// themselves has one.
    pub(super) fn check_reductions(&self, dag: &Dag) -> Result<(), String> {
        let mut has_meaning = vec![false; self.loops.len()];
        for leaf in &self.leaves {
            let reduced = dag.node(leaf.node).reduced();
            let over = |facts: &&LoopFacts| reduced.has(facts.dim);
            if self.path(leaf).filter(over).filter(|facts| facts.is_cached).count() > 1 {
                return Err(format!("{} is cached twice", leaf.node));
            }
            let cached = self.cached(dag, leaf);
            let has_lanes = self.path(leaf).filter(over).any(|facts| facts.run == Run::Vector);
            if has_lanes && cached.is_none() {
                return Err(format!("the lanes of {} are not cached", leaf.node));
            }
            let Some(cached) = cached else { continue };
            has_meaning[leaf.path[cached]] = true;
            let tile = self.tile(dag, leaf, cached);
            let places = tile.iter().map(|&number| self.loops[number].extent());
            if places.fold(1, u64::saturating_mul) > TILE_PLACES_MAX {
                return Err(format!("the tile of {} is too large", leaf.node));
            }
        }
        let is_idle =
            |&(number, facts): &(usize, &LoopFacts)| facts.is_cached && !has_meaning[number];
        match self.loops.iter().enumerate().find(is_idle) {
            Some((number, _)) => Err(format!("loop {number} has nothing to cache")),
            None => Ok(()),
        }
    }

    /// The values between nodes have room.
    pub(super) fn check_temporaries(&self, dag: &Dag) -> Result<(), String> {
        let places = self.leaves.iter().map(|leaf| Storage::of(self, dag, leaf));
        let places = places.filter(|storage| !storage.is_output).map(|storage| storage.places());
        let bytes = places.fold(0, u64::saturating_add).saturating_mul(NUMBER_BYTES);
        if bytes > TEMPORARY_BYTES_MAX {
            return Err(format!("the values between nodes need {bytes} bytes"));
        }
        Ok(())
    }
}
