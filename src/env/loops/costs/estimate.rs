//! An estimate of a schedule's time, for searches: it tells good schedules from bad ones, and is no
//! measurement.
//!
//! # The model processor
//!
//! It has eight cores with the caches of the model. In a cycle, a core issues two operations on
//! vectors of 32 bytes, or one with a store; a loop costs a cycle for each iteration. An addition
//! to a register can follow the one before it after 4 cycles, to memory after 10. Of accumulators,
//! 12 vectors fit into registers; where their loop ends, they are added to their values. From
//! beyond L1, L2 and L3 come 32, 16 and 4 bytes in a cycle, the last of which all cores share.
//! Where an output is larger than L3 and is not streamed, its lines are read before they are
//! written. To start the threads of a nest takes 10,000 cycles.

use super::{Access, CACHES, Costs, LINE_BYTES, REGISTER_BYTES};
use crate::env::loops::dag::{Binary, Operation, Unary};
use crate::env::loops::outline::{LeafFacts, LoopFacts, NUMBER_BYTES};
use crate::env::loops::schedule::{Item, Run};
use crate::env::loops::storage::Storage;

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
            let work = (first..).zip(leaves).map(|(at, leaf)| self.work(at, leaf));
            let work = work.fold(0, u64::saturating_add);
            let bytes = moved.map(|lines| lines.saturating_mul(LINE_BYTES));
            let near = (bytes[0] / BYTES[0]).saturating_add(bytes[1] / BYTES[1]);
            let read = leaves.iter().map(|leaf| self.read_before_written(leaf));
            let far = read.fold(bytes[2], u64::saturating_add) / BYTES[2];
            let threads = match item {
                Item::Loop(outer) if outer.run == Run::Parallel => {
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

    /// The time that all iterations of a leaf take, without what comes from beyond L1.
    fn work(&self, at: usize, leaf: &LeafFacts) -> u64 {
        let dag = &self.state.dag;
        let path = self.outline.path(leaf).collect::<Vec<_>>();
        let is_inline = |facts: &&&LoopFacts| matches!(facts.run, Run::Unroll | Run::Vector);
        let rolled = path.len() - path.iter().rev().take_while(is_inline).count();
        let (outer, inline) = path.split_at(rolled);
        let times = outer.iter().map(|facts| facts.extent()).fold(1, u64::saturating_mul);
        let copies = inline.iter().map(|facts| instructions(facts)).fold(1, u64::saturating_mul);
        let operations = copies.saturating_mul(weight(&dag.node(leaf.node).operation));
        let own = Storage::of(&self.outline, dag, leaf);
        let reduced = dag.node(leaf.node).reduced();
        let held = self.held(leaf);
        let in_registers = held || own.axes.is_empty() && !own.is_output;
        let mut memory = 0_u64;
        for access in self.accesses.iter().filter(|access| access.leaf == at) {
            let is_own = access.node == leaf.node && !access.is_of_caller;
            if is_own && in_registers {
                continue;
            }
            let touched = touched(access, &path, rolled);
            // What a reduction adds to is read as well. A store takes twice as long.
            let times = match (is_own, reduced.is_empty()) {
                (true, false) => 3,
                (true, true) => 2,
                _ => 1,
            };
            memory = memory.saturating_add(touched.saturating_mul(times));
        }
        let adds_on = outer.last().is_some_and(|facts| reduced.has(facts.dim));
        let again =
            inline.iter().filter(|facts| reduced.has(facts.dim) && facts.run == Run::Unroll);
        let again = again.map(|facts| facts.extent()).fold(1, u64::saturating_mul);
        let latency = match (reduced.is_empty(), adds_on || again > 1, in_registers) {
            (true, ..) | (_, false, _) => 0,
            (_, _, true) => again.saturating_mul(REGISTER_LATENCY),
            (_, _, false) => again.saturating_mul(MEMORY_LATENCY),
        };
        let each = operations.saturating_add(memory).max(latency).saturating_add(LOOP);
        times.saturating_mul(each).saturating_add(self.written_back(leaf))
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
        let is_inline = tile.iter().all(|facts| matches!(facts.run, Run::Unroll | Run::Vector));
        is_inline && vectors <= HELD_MAX
    }
}

/// The instructions for a loop that is copies or a vector.
fn instructions(facts: &LoopFacts) -> u64 {
    match facts.run {
        Run::Vector => facts.extent().saturating_mul(NUMBER_BYTES).div_ceil(REGISTER_BYTES),
        _ => facts.extent(),
    }
}

/// The loads or stores of an access in the copies and lanes of a leaf: lanes that lie side by side
/// are one for each vector, and lanes that lie apart are one each.
fn touched(access: &Access, path: &[&LoopFacts], rolled: usize) -> u64 {
    let from = rolled.max(access.shared).min(path.len());
    let is_along =
        |facts: &LoopFacts| access.axes.last().is_some_and(|axis| axis.contains(&facts.dim));
    let moves = path[from..]
        .iter()
        .filter(|facts| access.axes.iter().any(|axis| axis.contains(&facts.dim)));
    let touched =
        moves.map(|facts| if is_along(facts) { instructions(facts) } else { facts.extent() });
    touched.fold(1, u64::saturating_mul)
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
