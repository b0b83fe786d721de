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

mod estimate;

use crate::env::loops::dag::{Dag, Dim, NodeId, Operation};
use crate::env::loops::outline::{LeafFacts, LoopFacts, LoopNumber, NUMBER_BYTES, Outline};
use crate::env::loops::schedule::{Item, Run};
use crate::env::loops::state::State;
use crate::env::loops::storage::Storage;

/// The bytes of a line of a cache.
pub const LINE_BYTES: u64 = 64;

/// The bytes of a page. Pages lie anywhere in memory, so a line's place in its page decides which
/// part of any cache can hold it.
const PAGE_BYTES: u64 = 4096;

const PAGE_LINES: u64 = PAGE_BYTES / LINE_BYTES;

/// The lines of an array for which a set has room.
const WAYS: u64 = 8;

/// The bytes of the registers that hold vectors: those of AVX2.
const REGISTER_BYTES: u64 = 32;

/// The caches of the model: a name, and the number of bytes.
pub const CACHES: [(&str, u64); 3] = [("L1", 32 << 10), ("L2", 1 << 20), ("L3", 32 << 20)];

/// An array that a leaf touches.
#[derive(Debug, Clone)]
struct Access {
    /// The node whose array it is.
    node: NodeId,
    /// The leaf that touches it.
    leaf: usize,
    /// The dimensions of each axis, outermost first.
    axes: Vec<Vec<Dim>>,
    /// The number of places on each axis.
    extents: Vec<u64>,
    /// Whether it is the array of the caller: a packed input is a second one.
    is_of_caller: bool,
    /// The number of loops of the leaf's path that do not matter: what they make lies in one place.
    shared: usize,
}

/// A schedule with what its leaves touch.
#[derive(Debug)]
pub struct Costs<'a> {
    state: &'a State,
    outline: Outline,
    accesses: Vec<Access>,
}

/// A part of the tree: all of a loop, or one leaf.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// The number of loops around it.
    depth: usize,
    /// The first and the last but one of its leaves.
    leaves: (usize, usize),
}

/// The lines of a cache that something touches.
#[derive(Debug, Clone, Copy, Default)]
struct Lines {
    /// How many they are.
    touched: u64,
    /// The lines that the cache needs to hold them.
    room: u64,
}

impl<'a> Costs<'a> {
    /// Looks at a state.
    pub fn new(state: &'a State) -> Self {
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

    fn moved_lines(
        &self,
        items: &[Item],
        cache_lines: u64,
        depth: usize,
        next: &mut (LoopNumber, usize),
    ) -> u64 {
        let mut moved = 0_u64;
        for item in items {
            let first = next.1;
            let Item::Loop(inner) = item else {
                next.1 += 1;
                let leaves = (first, next.1);
                moved = moved.saturating_add(self.lines(Part { depth, leaves }).touched);
                continue;
            };
            let extent = self.outline.loops[next.0].extent();
            next.0 += 1;
            let body = self.moved_lines(&inner.body, cache_lines, depth + 1, next);
            let leaves = (first, next.1);
            let of_body = self.lines(Part { depth: depth + 1, leaves });
            moved = moved.saturating_add(if of_body.room <= cache_lines {
                self.lines(Part { depth, leaves }).touched
            } else {
                body.saturating_mul(extent)
            });
        }
        moved
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
            self.lines(Part { depth, leaves: (first, first + count) }).touched
        });
        lines.max().unwrap_or(0).saturating_mul(LINE_BYTES)
    }

    /// The lines that a part touches.
    fn lines(&self, part: Part) -> Lines {
        let (first, end) = part.leaves;
        // Each array counts once, by the leaves that touch most of it and need most room.
        let mut arrays: Vec<(NodeId, bool, Lines)> = Vec::new();
        for access in self.accesses.iter().filter(|access| (first..end).contains(&access.leaf)) {
            let lines = self.lines_of(access, part.depth);
            let key = (access.node, access.is_of_caller);
            match arrays.iter_mut().find(|(node, of_caller, _)| (*node, *of_caller) == key) {
                Some((_, _, most)) => {
                    most.touched = most.touched.max(lines.touched);
                    most.room = most.room.max(lines.room);
                }
                None => arrays.push((key.0, key.1, lines)),
            }
        }
        arrays.into_iter().fold(Lines::default(), |all, (_, _, lines)| Lines {
            touched: all.touched.saturating_add(lines.touched),
            room: all.room.saturating_add(lines.room),
        })
    }

    fn lines_of(&self, access: &Access, depth: usize) -> Lines {
        let path = &self.outline.leaves[access.leaf].path;
        let within = &path[depth.max(access.shared)..];
        // How many indices of a dimension the loops within go over.
        let covered = |dim: &Dim| {
            let facts = within.iter().map(|&number| &self.outline.loops[number]);
            facts.filter(|facts| facts.dim == *dim).map(|facts| facts.range).next().unwrap_or(1)
        };
        let touched = access.axes.iter().zip(&access.extents).map(|(axis, &extent)| {
            let covered = 1 + axis.iter().map(|dim| covered(dim) - 1).sum::<u64>();
            (covered, extent)
        });
        // Rows that are touched whole lie one after another. Others begin in some places of a page.
        let (mut along, mut rows, mut is_whole) = (1_u64, 1_u64, true);
        let (mut stride, mut places) = (NUMBER_BYTES, 1_u64);
        for (covered, extent) in touched.rev() {
            if is_whole {
                along = along.saturating_mul(covered);
            } else {
                rows = rows.saturating_mul(covered);
                let apart = PAGE_BYTES / gcd(stride, PAGE_BYTES).max(LINE_BYTES);
                places = PAGE_LINES.min(places * covered.min(apart));
            }
            stride = stride.saturating_mul(extent);
            is_whole &= covered >= extent;
        }
        let of_row = along.saturating_mul(NUMBER_BYTES).div_ceil(LINE_BYTES);
        let touched = rows.saturating_mul(of_row);
        let share = touched.div_ceil(places.saturating_mul(of_row).min(PAGE_LINES));
        let is_crowded = rows > 1 && share > WAYS;
        let room = if is_crowded { share.saturating_mul(PAGE_LINES) } else { touched };
        Lines { touched, room }
    }

    /// The iterations of the loop with most of them of those that are run in a way; 1 without one.
    pub fn most_iterations(&self, run: Run) -> u64 {
        let loops = self.outline.loops.iter().filter(|facts| facts.run == run);
        loops.map(LoopFacts::extent).max().unwrap_or(1)
    }

    /// The largest product of the extents of loops around one leaf that are run in a way.
    pub fn product(&self, run: Run) -> u64 {
        let products = self.outline.leaves.iter().map(|leaf| self.outline.product(leaf, run));
        products.max().unwrap_or(1)
    }

    /// About how many vector registers the leaf needs that is computed most often: those of its
    /// tile, if all loops of the tile are unrolled or vectors, and one for each operand and lane.
    pub fn registers(&self) -> u64 {
        let dag = &self.state.dag;
        let busiest = self.outline.leaves.iter().max_by_key(|leaf| dag.iterations(leaf.node));
        let Some(leaf) = busiest else { return 0 };
        let lanes = self.outline.product(leaf, Run::Vector);
        let vectors = |places: u64| places.saturating_mul(NUMBER_BYTES).div_ceil(REGISTER_BYTES);
        let operands = dag.node(leaf.node).operands().count() as u64 * vectors(lanes);
        let cached = self.outline.cached(dag, leaf);
        let tile = cached.map(|cached| self.outline.tile(dag, leaf, cached)).unwrap_or_default();
        let tile = tile.iter().map(|&number| &self.outline.loops[number]).collect::<Vec<_>>();
        let is_held = tile.iter().all(|facts| matches!(facts.run, Run::Unroll | Run::Vector));
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

/// The greatest common divisor.
fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// The access to the array of the caller.
fn in_caller(dag: &Dag, node: NodeId, leaf: usize) -> Access {
    let (axes, extents) = (dag.axes(node), dag.extents(node));
    Access { node, leaf, axes, extents, is_of_caller: true, shared: 0 }
}

/// The access to what another leaf, or the same one, makes; none if that is one number.
fn between(outline: &Outline, dag: &Dag, made: &LeafFacts, leaf: usize) -> Option<Access> {
    let storage = Storage::of(outline, dag, made);
    let axes = storage.axes.iter().map(|axis| vec![axis.dim]).collect::<Vec<_>>();
    let is_number = axes.is_empty() && !storage.is_output;
    let is_constant = matches!(dag.node(made.node).operation, Operation::Constant(_));
    (!is_number && !is_constant).then_some(Access {
        node: made.node,
        leaf,
        axes,
        extents: storage.axes.iter().map(|axis| axis.extent).collect(),
        is_of_caller: false,
        shared: storage.shared,
    })
}
