//! The rules that make each schedule compute its program.

use super::dag::{Dag, Dims, NodeId, Operation};
use super::outline::{LoopFacts, LoopNumber, NUMBER_BYTES, Outline};
use super::schedule::{
    BLOCK_THREADS_MAX, COPIES_MAX, LoopKind, MAPPED_LOOPS_MAX, Schedule, TEMPORARY_BYTES_MAX,
    TILE_PLACES_MAX, UNROLL_EXTENT_MAX, VECTOR_EXTENT_MAX,
};
use super::storage::Storage;

/// Checks that a schedule computes the program, within the bounds.
///
/// # Errors
///
/// The first rule that it breaks, in one line.
pub fn check(schedule: &Schedule, dag: &Dag) -> Result<(), String> {
    let outline = Outline::of(schedule, dag)?;
    outline.check_leaves(dag)?;
    outline.check_order(dag)?;
    outline.check_loops(dag)?;
    outline.check_reductions(dag)?;
    outline.check_temporaries(dag)
}

impl Outline {
    /// Each computed node has one leaf, and each leaf the loops that its node needs and no others.
    fn check_leaves(&self, dag: &Dag) -> Result<(), String> {
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
    fn check_order(&self, dag: &Dag) -> Result<(), String> {
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
    fn check_loops(&self, dag: &Dag) -> Result<(), String> {
        for (number, facts) in self.loops.iter().enumerate() {
            let extent = facts.extent();
            let around = |run: LoopKind| self.around(number).all(|outer| outer.run == run);
            let is_right = match facts.run {
                LoopKind::Serial => true,
                LoopKind::Parallel => facts.parent.is_none(),
                LoopKind::Grid => around(LoopKind::Grid) && self.depth(number) < MAPPED_LOOPS_MAX,
                LoopKind::Block => self.is_block(number),
                LoopKind::Vector => {
                    facts.is_innermost
                        && facts.step == 1
                        && (2..=VECTOR_EXTENT_MAX).contains(&extent)
                }
                LoopKind::Unroll => extent <= UNROLL_EXTENT_MAX,
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
            if self.product(leaf, LoopKind::Unroll) > COPIES_MAX {
                return Err(format!("{} would be copied too often", leaf.node));
            }
            if self.product(leaf, LoopKind::Block) > BLOCK_THREADS_MAX {
                return Err(format!("{} would need too many threads", leaf.node));
            }
        }
        Ok(())
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
        let is_outer = |run| {
            matches!(run, LoopKind::Serial | LoopKind::Grid | LoopKind::Block | LoopKind::Unroll)
        };
        let blocks = self.around(number).filter(|outer| outer.run == LoopKind::Block).count();
        self.around(number).all(|outer| is_outer(outer.run)) && blocks < MAPPED_LOOPS_MAX
    }

    /// Tiles are small, each reduction has one at most, and one whose lanes are accumulated by
    /// themselves has one.
    fn check_reductions(&self, dag: &Dag) -> Result<(), String> {
        let mut has_meaning = vec![false; self.loops.len()];
        for leaf in &self.leaves {
            let reduced = dag.node(leaf.node).reduced();
            let over = |facts: &&LoopFacts| reduced.has(facts.dim);
            if self.path(leaf).filter(over).filter(|facts| facts.is_cached).count() > 1 {
                return Err(format!("{} is cached twice", leaf.node));
            }
            let cached = self.cached(dag, leaf);
            let has_lanes = self.path(leaf).filter(over).any(|facts| facts.run == LoopKind::Vector);
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
    fn check_temporaries(&self, dag: &Dag) -> Result<(), String> {
        let places = self.leaves.iter().map(|leaf| Storage::of(self, dag, leaf));
        let places = places.filter(|storage| !storage.is_output).map(|storage| storage.places());
        let bytes = places.fold(0, u64::saturating_add).saturating_mul(NUMBER_BYTES);
        if bytes > TEMPORARY_BYTES_MAX {
            return Err(format!("the values between nodes need {bytes} bytes"));
        }
        Ok(())
    }
}
