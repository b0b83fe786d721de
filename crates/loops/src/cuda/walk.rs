//! A kernel from its tree of loops: declarations, loops, reductions, and where threads wait.

use std::ops::Range;

use super::super::outline::LoopNumber;
use super::super::schedule::{BodyItem, Loop, LoopKind};
use super::emitter::{Emitter, REGISTER_PLACES_MAX};
use super::lines::{combined, identity};
use super::mapping::{GpuLocation, leaves_in};

/// What threads wait for each other for.
pub(super) const BARRIER: &str = "__syncthreads();";

impl Emitter<'_> {
    /// Writes the declarations and the body of a kernel. `next` are the numbers of the first loop
    /// and of the first leaf.
    pub(super) fn kernel(&mut self, item: &BodyItem, next: (LoopNumber, usize)) {
        self.lines.put("const int block = blockIdx.x;");
        self.lines.put("const int thread = threadIdx.x;");
        for leaf in 0..self.mapping.places.len() {
            let is_made = self.mapping.roots[leaf] == self.root;
            let (place, storage) = &self.mapping.places[leaf];
            let places = storage.places();
            match place {
                GpuLocation::Device(offset) => {
                    self.lines.put(&format!("float* const v{leaf} = scratch + {offset};"));
                }
                GpuLocation::DeviceOfBlock(offset, each) if is_made => self.lines.put(&format!(
                    "float* const v{leaf} = scratch + {offset} + (size_t)block * {each};"
                )),
                GpuLocation::Shared if is_made => {
                    self.lines.put(&format!("__shared__ __align__(16) float v{leaf}[{places}];"));
                }
                _ => {}
            }
        }
        self.declare_staged();
        self.items(std::slice::from_ref(item), next, true);
    }

    /// Writes items. `is_together` says whether all threads of a block run them.
    fn items(
        &mut self,
        items: &[BodyItem],
        mut next: (LoopNumber, usize),
        is_together: bool,
    ) -> (LoopNumber, usize) {
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for item in items {
            if is_together {
                let leaves = next.1..next.1 + leaves_in(item);
                let (writes, reads) = (self.written(&leaves), self.read_in(&leaves));
                let is_late = reads.iter().any(|leaf| written.contains(leaf));
                if is_late || writes.iter().any(|leaf| read.contains(leaf)) {
                    self.lines.put(BARRIER);
                    written.clear();
                    read.clear();
                }
                written.extend(writes);
                read.extend(reads);
            }
            match item {
                BodyItem::Leaf(_) => {
                    self.leaf(next.1);
                    next.1 += 1;
                }
                BodyItem::Loop(inner) => next = self.nest(inner, next, is_together),
            }
        }
        next
    }

    /// Those of some leaves that other threads use.
    fn written(&self, leaves: &Range<usize>) -> Vec<usize> {
        leaves.clone().filter(|&leaf| self.is_exchanged(leaf)).collect()
    }

    /// What some leaves use of other threads.
    fn read_in(&self, leaves: &Range<usize>) -> Vec<usize> {
        let all = (0..self.mapping.places.len())
            .filter(|&leaf| self.mapping.roots[leaf] == self.root && self.is_exchanged(leaf));
        all.filter(|&made| {
            let mut uses = self.mapping.uses(self.dag, made);
            uses.any(|(user, _)| leaves.contains(&user))
        })
        .collect()
    }

    fn nest(
        &mut self,
        inner: &Loop,
        (number, first): (LoopNumber, usize),
        is_together: bool,
    ) -> (LoopNumber, usize) {
        self.begin(number);
        let run = self.mapping.runs[number];
        let after = if run == LoopKind::Vector {
            let after = first + inner.body.len();
            self.vector(number, &mut |emitter| {
                if emitter.lanes.is_none() {
                    emitter.declare(number);
                }
                (first..after).for_each(|leaf| emitter.leaf(leaf));
            });
            (number + 1, after)
        } else {
            let is_together = is_together && !matches!(run, LoopKind::Block | LoopKind::Parallel);
            self.fill_first(number);
            let braces = self.open(number);
            self.declare(number);
            self.fill(number);
            let after = self.items(&inner.body, (number + 1, first), is_together);
            self.fill_next(number);
            let leaves = first..after.1;
            let written = self.written(&leaves);
            let is_used = self.read_in(&leaves).iter().any(|leaf| written.contains(leaf));
            if is_together && run != LoopKind::Grid && is_used {
                self.lines.put(BARRIER);
            }
            self.lines.close(braces);
            after
        };
        self.end(number);
        after
    }

    /// Declares what lives within one iteration of a loop.
    fn declare(&mut self, number: LoopNumber) {
        for (leaf, (place, storage)) in self.mapping.places.iter().enumerate() {
            let path = &self.mapping.outline.leaves[leaf].path;
            if *place != GpuLocation::Thread || path[..storage.shared].last() != Some(&number) {
                continue;
            }
            let line = if storage.axes.is_empty() {
                format!("float v{leaf};")
            } else {
                format!("float v{leaf}[{}];", storage.places())
            };
            self.lines.put(&line);
        }
    }

    /// Prepares the reductions of a loop before its first iteration.
    fn begin(&mut self, number: LoopNumber) {
        for leaf in 0..self.mapping.places.len() {
            let Some(reduction) = self.reduction(leaf) else { continue };
            let outline = &self.mapping.outline;
            let facts = &outline.leaves[leaf];
            let at = |found: Option<usize>| found.filter(|&at| facts.path[at] == number);
            let cached = outline.cached(self.dag, facts);
            let first = outline.outermost_reducing(self.dag, facts);
            if let Some(first) = at(first.filter(|_| first != cached)) {
                let dims = self.dag.node(facts.node).dims;
                let within = facts.path[first..].iter().copied();
                let loops = within.filter(|&inner| dims.has(outline.loops[inner].dim));
                let start = identity(reduction);
                self.each(&loops.collect::<Vec<_>>(), &mut |emitter| {
                    emitter.guarded(leaf, |emitter| emitter.store(leaf, &start));
                });
            }
            if let Some(cached) = at(cached) {
                let tile = outline.tile(self.dag, facts, cached);
                let places = self.tile_places(&tile);
                self.lines.put(&format!("float t{leaf}[{places}];"));
                if places <= REGISTER_PLACES_MAX {
                    self.lines.put("#pragma unroll");
                }
                let start = identity(reduction);
                self.lines
                    .put(&format!("for (int i = 0; i < {places}; ++i) t{leaf}[i] = {start};"));
            }
        }
    }

    /// Combines the tiles of a loop with their values after its last iteration.
    fn end(&mut self, number: LoopNumber) {
        for leaf in 0..self.mapping.places.len() {
            let Some(reduction) = self.reduction(leaf) else { continue };
            let outline = &self.mapping.outline;
            let facts = &outline.leaves[leaf];
            let cached = outline.cached(self.dag, facts);
            let Some(cached) = cached.filter(|&at| facts.path[at] == number) else { continue };
            let is_first = outline.outermost_reducing(self.dag, facts) == Some(cached);
            let tile = outline.tile(self.dag, facts, cached);
            let dims = self.dag.node(facts.node).dims;
            let is_of_value = |&number: &LoopNumber| dims.has(outline.loops[number].dim);
            let (of_value, of_lanes) =
                tile.iter().copied().partition::<Vec<_>, _>(|number| is_of_value(number));
            self.each(&of_value, &mut |emitter| {
                emitter.guarded(leaf, |emitter| {
                    let mut found = emitter.sum_of_lanes(leaf, reduction, &tile, &of_lanes);
                    if !is_first {
                        found = combined(reduction, &emitter.own(leaf), &found);
                    }
                    emitter.store(leaf, &found);
                });
            });
        }
    }

    /// What a tile has for an element, all lanes of the loop over a reduced dimension together. All
    /// of them count, however short the last turn was.
    fn sum_of_lanes(
        &mut self,
        leaf: usize,
        reduction: super::super::dag::Reduction,
        tile: &[LoopNumber],
        of_lanes: &[LoopNumber],
    ) -> String {
        let [vector] = of_lanes else {
            let address = self.address_in_tile(leaf, tile);
            return if self.lanes.is_some() { address.lane("l") } else { address.element() };
        };
        let name = self.lines.name();
        let extent = self.mapping.facts(*vector).extent();
        self.positions[*vector] = super::emitter::GpuPosition::Lane;
        let address = self.address_in_tile(leaf, tile);
        self.lines.put(&format!("float {name} = {};", identity(reduction)));
        self.lines.put("#pragma unroll");
        let lane = combined(reduction, &name, &address.lane("l"));
        self.lines.put(&format!("for (int l = 0; l < {extent}; ++l) {name} = {lane};"));
        name
    }

    fn guarded(&mut self, leaf: usize, write: impl FnOnce(&mut Self)) {
        let guard = self.guard(leaf);
        if let Some(guard) = &guard {
            self.lines.open(&format!("if ({guard})"));
        }
        write(self);
        self.lines.close(guard.map_or(0, |_| 1));
    }
}
