//! What can be said of a schedule without running it: counts, and estimates of a model of caches.
//!
//! # The model of caches
//!
//! A cache holds so many bytes, in lines of 64. A loop whose body needs room for no more lines than
//! that touches each of its own lines once; any other loop touches what its body does, once for
//! each iteration. Tails count as whole iterations, arrays begin at a line, and so does each row of
//! which only a part is touched. Nothing stays in a cache from one nest to the next.
//!
//! Addresses a page apart share the sets of a cache, and a set has room for eight lines of an
//! array. So rows that lie a page apart, and of which only a part is touched, fill a part of the
//! cache alone: they need the *room* of so many times more lines.

mod access;
mod caches;
mod estimate;

use self::access::{ArrayAccess, between, in_caller};
use self::caches::TreePart;
use crate::outline::{LeafFacts, LoopFacts, NUMBER_BYTES, Outline};
use crate::schedule::LoopKind;
use crate::state::LoopsState;
use crate::storage::Storage;

/// The bytes of a line of a cache.
pub const LINE_BYTES: u64 = 64;

/// The bytes of the registers that hold vectors: those of AVX2.
const REGISTER_BYTES: u64 = 32;

/// The caches of the model: a name, and the number of bytes.
pub const CACHES: [(&str, u64); 3] = [("L1", 32 << 10), ("L2", 1 << 20), ("L3", 32 << 20)];

/// A schedule with what its leaves touch.
#[derive(Debug)]
pub struct Costs<'a> {
    state: &'a LoopsState,
    outline: Outline,
    accesses: Vec<ArrayAccess>,
}

impl<'a> Costs<'a> {
    /// Looks at a state.
    pub fn new(state: &'a LoopsState) -> Self {
        let (outline, dag) = (state.outline(), &*state.dag);
        let mut accesses = Vec::new();
        for (place, leaf) in outline.leaves.iter().enumerate() {
            let node = dag.node(leaf.node);
            // A packed input is read where it lies, and its copy is written.
            let own = node.is_input().then(|| in_caller(dag, leaf.node, place));
            let operands = node.operands().filter_map(|operand| match outline.leaf(operand) {
                Some(made) => between(&outline, dag, made, place),
                None if dag.node(operand).is_input() => Some(in_caller(dag, operand, place)),
                None => None,
            });
            accesses.extend(own.into_iter().chain(operands));
            accesses.extend(between(&outline, dag, leaf, place));
        }
        Self { state, outline, accesses }
    }

    /// The number of operations of the program, which does not depend on the schedule: one for each
    /// point of each point-wise operation, and one for each term of a reduction.
    pub fn operations(&self) -> u64 {
        let dag = &self.state.dag;
        let computed = dag.ids().filter(|&id| dag.node(id).is_computed());
        computed.map(|id| dag.iterations(id)).fold(0, u64::saturating_add)
    }

    /// The bytes of the inputs and the outputs: what has to be moved at least.
    pub fn compulsory_bytes(&self) -> u64 {
        let dag = &self.state.dag;
        let outputs = dag.outputs().iter().map(|output| output.node);
        dag.inputs().chain(outputs).map(|node| dag.elements(node) * NUMBER_BYTES).sum()
    }

    /// The bytes of the values between nodes that are arrays.
    pub fn temporary_bytes(&self) -> u64 {
        let places = |leaf| Storage::of(&self.outline, &self.state.dag, leaf);
        let storages = self.outline.leaves.iter().map(places);
        let arrays = storages.filter(|storage| !storage.is_output && !storage.axes.is_empty());
        arrays.map(|storage| storage.places() * NUMBER_BYTES).sum()
    }

    /// The bytes that come from beyond a cache of so many bytes, by the model.
    pub fn moved_bytes(&self, cache_bytes: u64) -> u64 {
        let mut next = (0, 0);
        let lines =
            self.moved_lines(&self.state.schedule.0, cache_bytes / LINE_BYTES, 0, &mut next);
        lines.saturating_mul(LINE_BYTES)
    }

    /// The most bytes of lines that an innermost loop touches.
    pub fn innermost_bytes(&self) -> u64 {
        let innermost = self.outline.loops.iter().enumerate();
        let innermost = innermost.filter(|(_, facts)| facts.is_innermost);
        let lines = innermost.map(|(number, _)| {
            let within = |leaf: &LeafFacts| leaf.path.last() == Some(&number);
            let first = self.outline.leaves.iter().position(within).unwrap_or(0);
            let count = self.outline.leaves[first..].iter().take_while(|leaf| within(leaf)).count();
            let depth = self.outline.leaves[first].path.len() - 1;
            self.lines(TreePart { depth, leaves: (first, first + count) }).touched
        });
        lines.max().unwrap_or(0).saturating_mul(LINE_BYTES)
    }

    /// The iterations of the loop with most of them of those that are run in a way; 1 without one.
    pub fn most_iterations(&self, run: LoopKind) -> u64 {
        let loops = self.outline.loops.iter().filter(|facts| facts.run == run);
        loops.map(LoopFacts::extent).max().unwrap_or(1)
    }

    /// The largest product of the extents of loops around one leaf that are run in a way.
    pub fn product(&self, run: LoopKind) -> u64 {
        let products = self.outline.leaves.iter().map(|leaf| self.outline.product(leaf, run));
        products.max().unwrap_or(1)
    }

    /// About how many vector registers the leaf needs that is computed most often: those of its
    /// tile, if all loops of the tile are unrolled or vectors, and one for each operand and lane.
    pub fn registers(&self) -> u64 {
        let dag = &self.state.dag;
        let busiest = self.outline.leaves.iter().max_by_key(|leaf| dag.iterations(leaf.node));
        let Some(leaf) = busiest else { return 0 };
        let lanes = self.outline.product(leaf, LoopKind::Vector);
        let vectors = |places: u64| places.saturating_mul(NUMBER_BYTES).div_ceil(REGISTER_BYTES);
        let operands = dag.node(leaf.node).operands().count() as u64 * vectors(lanes);
        let cached = self.outline.cached(dag, leaf);
        let tile = cached.map(|cached| self.outline.tile(dag, leaf, cached)).unwrap_or_default();
        let tile = tile.iter().map(|&number| &self.outline.loops[number]).collect::<Vec<_>>();
        let is_held =
            tile.iter().all(|facts| matches!(facts.run, LoopKind::Unroll | LoopKind::Vector));
        let places = tile.iter().map(|facts| facts.extent()).product::<u64>();
        if is_held && cached.is_some() {
            operands + vectors(places)
        } else {
            operands + vectors(lanes)
        }
    }

    /// The number of loops.
    pub fn loops(&self) -> u64 {
        self.outline.loops.len() as u64
    }
}
