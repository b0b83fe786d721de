//! An estimate of a schedule's time, for searches: it tells good schedules from bad ones, and is no
//! measurement.
//!
//! # The model processor
//!
//! It has eight cores with the caches of the model. In a cycle, a core issues two operations on
//! vectors of 32 bytes, two loads, and a store, or half an addition to memory; a product that an
//! addition alone uses is part of it. Leaves side by side cost a cycle more for each iteration of
//! the loop around them. An addition to a register can follow the one before it after 4 cycles, to
//! memory after 10. Of accumulators, 12 vectors fit into registers; where their loop ends, they are
//! added to their values. What copies of the code read in common is loaded once if they read at
//! most 12 vectors of that array in between. From beyond L1, L2 and L3 come 32, 16 and 4 bytes in a
//! cycle, the last of which all cores share. Where an output is larger than L3 and is not streamed,
//! its lines are read before they are written. To start the threads of a nest takes 10,000 cycles.

use std::ops::Range;

use super::access::ArrayAccess;
use super::{CACHES, Costs, LINE_BYTES, REGISTER_BYTES};
use crate::dag::{Binary, NodeId, Operation, Reduction, Unary};
use crate::outline::{LeafFacts, LoopFacts, LoopNumber, NUMBER_BYTES};
use crate::schedule::{BodyItem, LoopKind};
use crate::storage::Storage;

/// The cores, and those that keep the memory busy.
const CORES: u64 = 8;
const MEMORY_CORES: u64 = 2;

// All times are in half cycles: that of one operation where two are issued in a cycle.

/// The times until a result can be added to, in a register and in memory.
const REGISTER_LATENCY: u64 = 8;
const MEMORY_LATENCY: u64 = 20;

/// The time of an iteration of a loop, and of the start of threads.
const LOOP: u64 = 2;
const THREADS: u64 = 20_000;

/// The time to store a vector, and to load it, add to it and store it.
const STORE: u64 = 2;
const WRITE_BACK: u64 = 4;

/// The vectors of accumulators that fit into registers.
const HELD_MAX: u64 = 12;

/// The vectors of an array that stay in registers until other copies of the code read them.
const KEPT_MAX: u64 = 12;

/// The bytes that come from beyond each cache in half a cycle.
const BYTES: [u64; CACHES.len()] = [16, 8, 2];

impl Costs<'_> {
    /// The cycles of a run, by the model.
    pub fn estimated_cycles(&self) -> u64 {
        let mut all = 0_u64;
        let (mut next, mut first) = ((0, 0), 0);
        for item in &self.state.schedule.0 {
            let start = next;
            let mut moved = [0_u64; CACHES.len()];
            for (lines, (_, bytes)) in moved.iter_mut().zip(CACHES) {
                next = start;
                let nest = std::slice::from_ref(item);
                *lines = self.moved_lines(nest, bytes / LINE_BYTES, 0, &mut next);
            }
            let leaves = &self.outline.leaves[first..next.1];
            let work = self.work(first..next.1);
            let bytes = moved.map(|lines| lines.saturating_mul(LINE_BYTES));
            let near = (bytes[0] / BYTES[0]).saturating_add(bytes[1] / BYTES[1]);
            let read = leaves.iter().map(|leaf| self.read_before_written(leaf));
            let far = read.fold(bytes[2], u64::saturating_add) / BYTES[2];
            let threads = match item {
                BodyItem::Loop(outer) if outer.run == LoopKind::Parallel => {
                    self.outline.loops[start.0].extent()
                }
                _ => 1,
            };
            let shared = |time: u64, cores: u64| {
                // The core with most iterations is the last one.
                let most = threads.div_ceil(cores);
                time.saturating_mul(most) / threads
            };
            let start = if threads > 1 { THREADS } else { 0 };
            all = all
                .saturating_add(shared(work.saturating_add(near), CORES))
                .saturating_add(shared(far, MEMORY_CORES))
                .saturating_add(start);
            first = next.1;
        }
        all / 2
    }

    /// The bytes of an output that are read only to be written.
    fn read_before_written(&self, leaf: &LeafFacts) -> u64 {
        let dag = &self.state.dag;
        let is_streamed = self.outline.path(leaf).any(|facts| facts.is_streamed);
        let bytes = dag.output(leaf.node).map_or(0, |_| dag.elements(leaf.node) * NUMBER_BYTES);
        if is_streamed || bytes <= CACHES[CACHES.len() - 1].1 { 0 } else { bytes }
    }

    /// The time that all iterations of a nest's leaves take, without what comes from beyond L1.
    fn work(&self, leaves: Range<usize>) -> u64 {
        let places = leaves.collect::<Vec<_>>();
        let mut all = 0_u64;
        for body in places.chunk_by(|&one, &other| self.rolled(one) == self.rolled(other)) {
            let around = self.rolled(body[0]).iter().map(|&number| &self.outline.loops[number]);
            let times = around.map(LoopFacts::extent).fold(1, u64::saturating_mul);
            let each = self.iteration(body).saturating_add(LOOP);
            all = all.saturating_add(times.saturating_mul(each));
        }
        let written = places.iter().map(|&at| self.written_back(&self.outline.leaves[at]));
        written.fold(all, u64::saturating_add)
    }

    /// The loops around a leaf that are neither copies nor vectors of the code.
    fn rolled(&self, at: usize) -> &[LoopNumber] {
        let path = &self.outline.leaves[at].path;
        let is_inline = |number: LoopNumber| {
            matches!(self.outline.loops[number].run, LoopKind::Unroll | LoopKind::Vector)
        };
        let inline = path.iter().rev().take_while(|&&number| is_inline(number)).count();
        &path[..path.len() - inline]
    }

    /// The time of an iteration of the loops around some leaves, from its start to the next one's.
    fn iteration(&self, body: &[usize]) -> u64 {
        let mut slots = Slots::default();
        for &at in body {
            self.fill(at, body, &mut slots);
        }
        slots.time()
    }

    /// Adds what an iteration of a leaf's rolled loops does.
    fn fill(&self, at: usize, body: &[usize], slots: &mut Slots) {
        let dag = &self.state.dag;
        let leaf = &self.outline.leaves[at];
        let path = self.outline.path(leaf).collect::<Vec<_>>();
        let rolled = self.rolled(at).len();
        let (outer, inline) = path.split_at(rolled);
        let copies = inline.iter().map(|facts| instructions(facts)).fold(1, u64::saturating_mul);
        if !self.is_fused(leaf.node, body) {
            let operations = copies.saturating_mul(weight(&dag.node(leaf.node).operation));
            slots.operations = slots.operations.saturating_add(operations);
        }
        let own = Storage::of(&self.outline, dag, leaf);
        let reduced = dag.node(leaf.node).reduced();
        let in_registers = self.held(leaf) || own.axes.is_empty() && !own.is_output;
        for access in self.accesses.iter().filter(|access| access.leaf == at) {
            let is_own = access.node == leaf.node && !access.is_of_caller;
            if is_own && in_registers {
                continue;
            }
            // What a reduction adds to is read and written by each copy.
            let adds = is_own && !reduced.is_empty();
            let touched = touched(access, &path, rolled, if adds { 0 } else { KEPT_MAX });
            let slot = match (is_own, adds) {
                (_, true) => &mut slots.updates,
                (true, _) => &mut slots.stores,
                _ => &mut slots.loads,
            };
            *slot = slot.saturating_add(touched);
        }
        let adds_on = outer.last().is_some_and(|facts| reduced.has(facts.dim));
        let again =
            inline.iter().filter(|facts| reduced.has(facts.dim) && facts.run == LoopKind::Unroll);
        let again = again.map(|facts| facts.extent()).fold(1, u64::saturating_mul);
        let latency = match (reduced.is_empty(), adds_on || again > 1, in_registers) {
            (true, ..) | (_, false, _) => 0,
            (_, _, true) => again.saturating_mul(REGISTER_LATENCY),
            (_, _, false) => again.saturating_mul(MEMORY_LATENCY),
        };
        slots.latency = slots.latency.max(latency);
    }

    /// Whether a product is part of the addition that alone uses it, in the same body. An addition
    /// has one such part, the first.
    fn is_fused(&self, product: NodeId, body: &[usize]) -> bool {
        let dag = &self.state.dag;
        let is_here = |node| body.iter().any(|&at| self.outline.leaves[at].node == node);
        let fuses = |node: NodeId| {
            let used = || dag.users(node).flat_map(|user| dag.node(user).operands());
            let is_product =
                matches!(dag.node(node).operation, Operation::Binary(Binary::Multiply, ..));
            is_product
                && dag.output(node).is_none()
                && is_here(node)
                && used().filter(|&operand| operand == node).count() == 1
        };
        if !fuses(product) {
            return false;
        }
        dag.users(product).any(|user| {
            let node = dag.node(user);
            let is_addition = matches!(
                node.operation,
                Operation::Reduce(Reduction::Sum, ..)
                    | Operation::Binary(Binary::Add | Binary::Subtract, ..)
            );
            is_addition && is_here(user) && node.operands().find(|&one| fuses(one)) == Some(product)
        })
    }

    /// The time to combine tiles in registers with their values, whenever the loop of the tile
    /// ends: a store of each vector, and before it a load and an operation, unless the value begins
    /// there.
    fn written_back(&self, leaf: &LeafFacts) -> u64 {
        let dag = &self.state.dag;
        let Some(cached) = self.outline.cached(dag, leaf).filter(|_| self.held(leaf)) else {
            return 0;
        };
        let tile = self.outline.tile(dag, leaf, cached);
        let vectors = tile.iter().map(|&number| instructions(&self.outline.loops[number]));
        let vectors = vectors.fold(1, u64::saturating_mul);
        let around = self.outline.path(leaf).take(cached).map(LoopFacts::extent);
        let is_first = self.outline.outermost_reducing(dag, leaf) == Some(cached);
        let each = if is_first { STORE } else { WRITE_BACK };
        around.fold(vectors.saturating_mul(each), u64::saturating_mul)
    }

    /// Whether a reduction is accumulated in registers: its tile consists of copies and vectors.
    fn held(&self, leaf: &LeafFacts) -> bool {
        let dag = &self.state.dag;
        let Some(cached) = self.outline.cached(dag, leaf) else { return false };
        let tile = self.outline.tile(dag, leaf, cached);
        let tile = tile.iter().map(|&number| &self.outline.loops[number]).collect::<Vec<_>>();
        let vectors = tile.iter().map(|facts| instructions(facts)).fold(1, u64::saturating_mul);
        let is_inline =
            tile.iter().all(|facts| matches!(facts.run, LoopKind::Unroll | LoopKind::Vector));
        is_inline && vectors <= HELD_MAX
    }
}

/// The instructions of an iteration, and the time until the next one can follow.
#[derive(Debug, Default)]
struct Slots {
    operations: u64,
    loads: u64,
    stores: u64,
    /// Additions to memory, each with its load and its store.
    updates: u64,
    latency: u64,
}

impl Slots {
    fn time(&self) -> u64 {
        let stores = self.stores.saturating_mul(STORE);
        let stores = stores.saturating_add(self.updates.saturating_mul(WRITE_BACK));
        self.operations.max(self.loads).max(stores).max(self.latency)
    }
}

/// The instructions for a loop that is copies or a vector.
fn instructions(facts: &LoopFacts) -> u64 {
    match facts.run {
        LoopKind::Vector => facts.extent().saturating_mul(NUMBER_BYTES).div_ceil(REGISTER_BYTES),
        _ => facts.extent(),
    }
}

/// The loads or stores of an access in the copies and lanes of a leaf: lanes that lie side by side
/// are one for each vector, and lanes that lie apart are one each. Copies that touch the same are
/// one if no more vectors of the array than `kept` are touched in between.
fn touched(access: &ArrayAccess, path: &[&LoopFacts], rolled: usize, kept: u64) -> u64 {
    let from = rolled.max(access.shared).min(path.len());
    let mut touched = 1_u64;
    for facts in path[from..].iter().rev() {
        let is_along = access.axes.last().is_some_and(|axis| axis.contains(&facts.dim));
        let moves = access.axes.iter().any(|axis| axis.contains(&facts.dim));
        let times = match (is_along, moves) {
            (true, _) => instructions(facts),
            (false, true) => facts.extent(),
            (false, false) if touched > kept => instructions(facts),
            (false, false) => 1,
        };
        touched = touched.saturating_mul(times);
    }
    touched
}

/// The time of an operation.
fn weight(operation: &Operation) -> u64 {
    match operation {
        Operation::Unary(Unary::Exp | Unary::Log, _) => 20,
        Operation::Unary(Unary::Sqrt | Unary::Reciprocal, _)
        | Operation::Binary(Binary::Divide, ..) => 8,
        _ => 1,
    }
}
