//! The loops of one nest, as text.

use std::collections::BTreeSet;

use super::super::dag::{Dag, NodeId, Operation, Reduction};
use super::super::outline::{LeafFacts, LoopNumber, Outline};
use super::super::schedule::{BodyItem, Loop, LoopKind};
use super::functions::literal;
use super::lines::FunctionText;
use super::locations::{CpuLocation, CpuLocations, Register, Tile};

/// The most bytes of a function's text.
pub(super) const TEXT_BYTES_MAX: usize = 4 << 20;

/// The position of a loop.
#[derive(Debug, Clone)]
pub(super) enum CpuPosition {
    Known(u64),
    At(String),
    /// All positions at once, from 0.
    Lanes,
}

/// A nest that is being written.
pub(super) struct Nest<'a> {
    pub(super) dag: &'a Dag,
    pub(super) outline: &'a Outline,
    pub(super) locations: &'a CpuLocations,
    pub(super) lines: FunctionText,
    pub(super) positions: Vec<CpuPosition>,
    /// How far one iteration of each loop goes now.
    pub(super) covered: Vec<u64>,
    /// The pointers to values that are not in arrays.
    pub(super) bases: Vec<String>,
    /// The tile of each leaf that is being accumulated in one.
    pub(super) tiles: Vec<String>,
    pub(super) registers: Vec<Option<Register>>,
    /// The lanes of the loop that is being run as a vector.
    pub(super) vector: Option<u64>,
    /// Whether outputs are stored past the caches.
    pub(super) is_streamed: bool,
    /// The functions that are called: whether each is `exp`, and the lanes.
    pub(super) functions: BTreeSet<(bool, u64)>,
}

impl<'a> Nest<'a> {
    pub(super) fn new(dag: &'a Dag, outline: &'a Outline, locations: &'a CpuLocations) -> Self {
        let (loops, leaves) = (outline.loops.len(), outline.leaves.len());
        Self {
            dag,
            outline,
            locations,
            lines: FunctionText::new(),
            positions: vec![CpuPosition::Known(0); loops],
            covered: vec![0; loops],
            bases: vec![String::new(); leaves],
            tiles: vec![String::new(); leaves],
            registers: vec![None; leaves],
            vector: None,
            is_streamed: false,
            functions: BTreeSet::new(),
        }
    }

    /// Finds the memory of the values that are not in arrays.
    pub(super) fn prepare(&mut self) {
        for (leaf, (place, storage)) in self.locations.of_leaves.iter().enumerate() {
            self.bases[leaf] = match place {
                CpuLocation::Array(number) => format!("%a{number}"),
                CpuLocation::Private(at) => {
                    self.lines.value(&format!("getelementptr i8, ptr %private, i64 {at}"))
                }
                CpuLocation::Local => self.lines.local(storage.places()),
                CpuLocation::Register => continue,
            };
        }
        // All copies of a tile are at one place, since each ends before the next begins.
        for (leaf, tile) in self.locations.tiles.iter().enumerate() {
            self.tiles[leaf] = match tile {
                None => continue,
                Some(Tile::Local(places)) => self.lines.local(*places),
                Some(Tile::Private(at)) => {
                    self.lines.value(&format!("getelementptr i8, ptr %private, i64 {at}"))
                }
            };
        }
    }

    /// Writes items. `next` are the numbers of the next loop and of the next leaf.
    pub(super) fn items(
        &mut self,
        items: &[BodyItem],
        next: (LoopNumber, usize),
    ) -> (LoopNumber, usize) {
        let (mut number, mut leaf) = next;
        for item in items {
            if self.lines.bytes() > TEXT_BYTES_MAX {
                break;
            }
            (number, leaf) = match item {
                BodyItem::Leaf(_) => {
                    self.leaf(leaf);
                    (number, leaf + 1)
                }
                BodyItem::Loop(inner) => self.one_loop(inner, (number, leaf)),
            };
        }
        (number, leaf)
    }

    fn one_loop(&mut self, inner: &Loop, next: (LoopNumber, usize)) -> (LoopNumber, usize) {
        let (number, leaf) = next;
        self.begin(number);
        let mut after = next;
        let is_streamed = std::mem::replace(&mut self.is_streamed, inner.is_streamed);
        self.over(number, &mut |nest| after = nest.items(&inner.body, (number + 1, leaf)));
        self.is_streamed = is_streamed;
        self.end(number);
        after
    }

    /// How far a loop goes now.
    fn range(&self, number: LoopNumber) -> u64 {
        self.outline.range_now(number, &self.covered)
    }

    /// Writes a loop around `body`, and `body` once more for what remains.
    fn over(&mut self, number: LoopNumber, body: &mut dyn FnMut(&mut Self)) {
        if self.lines.bytes() > TEXT_BYTES_MAX {
            return;
        }
        let facts = &self.outline.loops[number];
        let (step, range) = (facts.step, self.range(number));
        let (whole, tail) = (range / step, range % step);
        self.covered[number] = step;
        match facts.run {
            LoopKind::Parallel => return self.share(number, whole, tail, body),
            LoopKind::Vector if whole == facts.extent() => {
                self.positions[number] = CpuPosition::Lanes;
                self.vector = Some(whole);
                body(self);
                self.vector = None;
            }
            LoopKind::Unroll => {
                for position in 0..whole {
                    self.positions[number] = CpuPosition::Known(position);
                    body(self);
                }
            }
            _ if whole == 1 => {
                self.positions[number] = CpuPosition::Known(0);
                body(self);
            }
            _ if whole > 1 => {
                let open = self.lines.open("0", &whole.to_string(), true);
                self.positions[number] = CpuPosition::At(open.position.clone());
                body(self);
                self.lines.close(&open);
            }
            _ => {}
        }
        if tail > 0 {
            self.covered[number] = tail;
            self.positions[number] = CpuPosition::Known(whole);
            body(self);
        }
    }

    /// Writes a thread's share of a loop.
    fn share(
        &mut self,
        number: LoopNumber,
        whole: u64,
        tail: u64,
        body: &mut dyn FnMut(&mut Self),
    ) {
        let extent = whole + u64::from(tail > 0);
        let mut bound = |thread: &str| {
            let product = self.lines.value(&format!("mul i64 {thread}, {extent}"));
            self.lines.value(&format!("udiv i64 {product}, %threads"))
        };
        let from = bound("%thread");
        let next = self.lines.value("add i64 %thread, 1");
        let mut bound = |thread: &str| {
            let product = self.lines.value(&format!("mul i64 {thread}, {extent}"));
            self.lines.value(&format!("udiv i64 {product}, %threads"))
        };
        let to = bound(&next);
        let least = self.lines.value(&format!("call i64 @llvm.umin.i64(i64 {to}, i64 {whole})"));
        let open = self.lines.open(&from, &least, false);
        self.positions[number] = CpuPosition::At(open.position.clone());
        body(self);
        self.lines.close(&open);
        if tail > 0 {
            // The last range has it, unless it is empty.
            let is_last = self.lines.value(&format!("icmp ugt i64 {to}, {whole}"));
            let is_any = self.lines.value(&format!("icmp ule i64 {from}, {whole}"));
            let is_here = self.lines.value(&format!("and i1 {is_last}, {is_any}"));
            let exit = self.lines.open_if(&is_here);
            self.covered[number] = tail;
            self.positions[number] = CpuPosition::Known(whole);
            body(self);
            self.lines.close_if(&exit);
        }
    }

    /// Writes loops, each within the one before, around `body`.
    fn each(&mut self, loops: &[LoopNumber], body: &mut dyn FnMut(&mut Self)) {
        match loops.split_first() {
            None => body(self),
            Some((&first, rest)) => self.over(first, &mut |nest| nest.each(rest, body)),
        }
    }

    fn reduction(&self, leaf: usize) -> Option<Reduction> {
        match self.dag.node(self.outline.leaves[leaf].node).operation {
            Operation::Reduce(reduction, ..) => Some(reduction),
            _ => None,
        }
    }

    /// The tile of a leaf's reduction: the loops of its places, and those that are not lanes of its
    /// own.
    fn tile(&self, leaf: &LeafFacts, cached: usize) -> (Vec<LoopNumber>, Vec<LoopNumber>) {
        let tile = self.outline.tile(self.dag, leaf, cached);
        let reduced = self.dag.node(leaf.node).reduced();
        let is_of_value = |number: &LoopNumber| !reduced.has(self.outline.loops[*number].dim);
        let of_value = tile.iter().copied().filter(is_of_value).collect();
        (tile, of_value)
    }

    /// Runs `body` with all lanes of the last loop of a tile at once.
    fn with_lanes<T>(&mut self, tile: &[LoopNumber], body: impl FnOnce(&mut Self) -> T) -> T {
        let Some(&last) = tile.last() else { return body(self) };
        let before = std::mem::replace(&mut self.positions[last], CpuPosition::Lanes);
        self.vector = Some(self.outline.loops[last].extent());
        let result = body(self);
        self.vector = None;
        self.positions[last] = before;
        result
    }

    /// Prepares the reductions of a loop before its first iteration.
    fn begin(&mut self, number: LoopNumber) {
        for leaf in 0..self.outline.leaves.len() {
            let facts = &self.outline.leaves[leaf];
            let Some(reduction) = self.reduction(leaf) else { continue };
            let first = self.outline.outermost_reducing(self.dag, facts);
            let cached = self.outline.cached(self.dag, facts);
            let at = |place: Option<usize>| place.filter(|&at| facts.path[at] == number);
            if let Some(first) = at(first)
                && cached != Some(first)
            {
                let dims = self.dag.node(facts.node).dims;
                let within = facts.path[first..].iter().copied();
                let loops = within.filter(|&inner| dims.has(self.outline.loops[inner].dim));
                self.each(&loops.collect::<Vec<_>>(), &mut |nest| {
                    let address = nest.address(facts, leaf);
                    let start = nest.identity(reduction);
                    nest.store(&address, &start, false);
                });
            }
            if let Some(cached) = at(cached) {
                let (tile, of_value) = self.tile(facts, cached);
                let has_lanes = tile.len() > of_value.len();
                self.each(&of_value, &mut |nest| {
                    let lanes: &[LoopNumber] = if has_lanes { &tile } else { &[] };
                    nest.with_lanes(lanes, |nest| {
                        let address = nest.address_in_tile(leaf, &tile);
                        let start = nest.identity(reduction);
                        nest.store(&address, &start, false);
                    });
                });
            }
        }
    }

    /// Combines the tiles of a loop with their values after its last iteration.
    fn end(&mut self, number: LoopNumber) {
        for leaf in 0..self.outline.leaves.len() {
            let facts = &self.outline.leaves[leaf];
            let Some(reduction) = self.reduction(leaf) else { continue };
            let cached = self.outline.cached(self.dag, facts);
            let Some(cached) = cached.filter(|&at| facts.path[at] == number) else { continue };
            let is_first = self.outline.outermost_reducing(self.dag, facts) == Some(cached);
            let (tile, of_value) = self.tile(facts, cached);
            let has_lanes = tile.len() > of_value.len();
            self.each(&of_value, &mut |nest| {
                let lanes: &[LoopNumber] = if has_lanes { &tile } else { &[] };
                let found = nest.with_lanes(lanes, |nest| {
                    let address = nest.address_in_tile(leaf, &tile);
                    let found = nest.load(&address);
                    if has_lanes { nest.together(reduction, &found) } else { found }
                });
                let address = nest.address(facts, leaf);
                let result = if is_first {
                    found
                } else {
                    let before = nest.load(&address);
                    nest.combine(reduction, &before, &found)
                };
                nest.store(&address, &result, false);
            });
        }
    }

    /// The value of a node, as a leaf uses it.
    fn operand(&mut self, leaf: &LeafFacts, node: NodeId) -> Register {
        let place = self.outline.leaves.iter().position(|made| made.node == node);
        match (place, &self.dag.node(node).operation) {
            (Some(place), _) => {
                if let Some(register) = &self.registers[place] {
                    return register.clone();
                }
                let address = self.address(leaf, place);
                self.load(&address)
            }
            (None, Operation::Constant(number)) => Register { name: literal(*number), lanes: 1 },
            (None, _) => {
                let address = self.address_of_input(leaf, node);
                self.load(&address)
            }
        }
    }

    fn leaf(&mut self, place: usize) {
        let leaf = &self.outline.leaves[place];
        let value = match self.dag.node(leaf.node).operation {
            Operation::Unary(unary, one) => {
                let one = self.operand(leaf, one);
                self.one(unary, &one)
            }
            Operation::Binary(binary, one, other) => {
                let (one, other) = (self.operand(leaf, one), self.operand(leaf, other));
                self.two(binary, &one, &other)
            }
            Operation::Reduce(reduction, _, one) => {
                let term = self.operand(leaf, one);
                let address = match self.outline.cached(self.dag, leaf) {
                    Some(cached) => {
                        let (tile, _) = self.tile(leaf, cached);
                        self.address_in_tile(place, &tile)
                    }
                    None => self.address(leaf, place),
                };
                let before = self.load(&address);
                let after = self.combine(reduction, &before, &term);
                return self.store(&address, &after, false);
            }
            Operation::Input { .. } | Operation::Constant(_) => {
                let address = self.address_of_input(leaf, leaf.node);
                self.load(&address)
            }
        };
        if matches!(self.locations.of_leaves[place].0, CpuLocation::Register) {
            self.registers[place] = Some(value);
            return;
        }
        let address = self.address(leaf, place);
        let is_streamed = self.is_streamed && self.dag.output(leaf.node).is_some();
        self.store(&address, &value, is_streamed);
    }
}
