//! How operands come to shared memory: the threads of a block copy a part of an input for each
//! iteration of a loop.
//!
//! Where all parts are alike and there is room for two, they are *pipelined*: before a thread
//! computes an iteration, it reads its share of the next one's part into registers, and afterwards
//! it stores that into the other one of two buffers. So the memory of the device is waited for
//! while there is something to compute, and the threads of a block meet once an iteration.

use super::super::dag::Dim;
use super::super::outline::{LoopNumber, NUMBER_BYTES};
use super::address::{GROUP_MAX, GpuAddress, strides_of};
use super::emitter::{Emitter, Extent, GpuPosition, Staged};
use super::mapping::GpuLocation;
use super::walk::BARRIER;

/// Which way numbers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    /// From the input to shared memory.
    Copy,
    /// From the input to registers.
    Read,
    /// From registers to shared memory.
    Store,
}

/// How the threads of a block share the numbers of a part.
#[derive(Debug)]
struct ThreadShare {
    /// Where the part begins in the input.
    start: GpuAddress,
    /// The distance between neighbours on each axis of the input.
    strides: Vec<u64>,
    /// The number of places of each axis that there are now, if not always all.
    limits: Vec<Option<String>>,
    /// The neighbours that are moved at once.
    group: u64,
    /// The number of groups.
    groups: u64,
    /// The most groups of a thread.
    turns: u64,
}

/// The places of one of two buffers, which begin at multiples of a group.
fn buffer(part: &Staged) -> u64 {
    part.places.next_multiple_of(GROUP_MAX)
}

/// The places of all buffers of a part.
fn shared_places(part: &Staged) -> u64 {
    if part.is_pipelined { 2 * buffer(part) } else { part.places }
}

impl Emitter<'_> {
    /// Declares what is staged.
    pub(super) fn declare_staged(&mut self) {
        for staged in self.staged.clone() {
            let (name, places) = (self.shared_name(&staged), shared_places(&staged));
            self.lines.put(&format!("__shared__ __align__(16) float {name}[{places}];"));
        }
    }

    /// The bytes of all shared memory of the kernel.
    pub(super) fn shared_bytes(&self) -> u64 {
        let values = (0..self.mapping.places.len())
            .filter(|&leaf| self.mapping.roots[leaf] == self.root)
            .filter(|&leaf| self.mapping.places[leaf].0 == GpuLocation::Shared)
            .map(|leaf| self.mapping.places[leaf].1.places());
        let all = values.chain(self.staged.iter().map(shared_places));
        all.map(|places| (places * NUMBER_BYTES).next_multiple_of(16)).sum()
    }

    /// The registers of a thread that hold its share of a part.
    pub(super) fn held_places(&self, part: &Staged) -> u64 {
        if !part.is_pipelined {
            return 0;
        }
        let share = self.share(part);
        share.turns * share.group
    }

    /// The array in shared memory of a part: of two buffers, if parts are pipelined.
    fn shared_name(&self, part: &Staged) -> String {
        let name = Staged::name(part.leaf, self.input(part.node));
        if part.is_pipelined { format!("{name}_both") } else { name }
    }

    /// The registers of a thread that hold what it moves of a part in one turn.
    fn held_name(&self, part: &Staged, turn: u64) -> String {
        format!("{}_next{turn}", Staged::name(part.leaf, self.input(part.node)))
    }

    /// The parts that are copied for one iteration of a loop.
    fn parts(&self, number: LoopNumber) -> Vec<Staged> {
        self.staged.iter().filter(|staged| staged.at == number).cloned().collect()
    }

    /// Copies the parts of the first iteration of a loop, before it, if they are pipelined.
    pub(super) fn fill_first(&mut self, number: LoopNumber) {
        let parts = self.parts(number);
        if !parts.iter().any(|part| part.is_pipelined) {
            return;
        }
        self.positions[number] = GpuPosition::At("0".to_owned());
        self.covered[number] = Extent::Known(self.mapping.facts(number).step);
        for part in &parts {
            let ThreadShare { turns, group, .. } = self.share(part);
            for turn in 0..turns {
                let name = self.held_name(part, turn);
                self.lines.put(&format!("float {name}[{group}];"));
            }
            self.move_part(part, Move::Read);
        }
        // Those who are late may still read what the loop left there when it ran before.
        self.lines.put(BARRIER);
        for part in &parts {
            self.move_part(part, Move::Store);
        }
    }

    /// Copies the parts for one iteration of a loop, or, if they are pipelined, begins to read
    /// those of the next one.
    pub(super) fn fill(&mut self, number: LoopNumber) {
        let parts = self.parts(number);
        if parts.is_empty() {
            return;
        }
        self.lines.put(BARRIER);
        if !parts.iter().any(|part| part.is_pipelined) {
            for part in &parts {
                self.move_part(part, Move::Copy);
            }
            return self.lines.put(BARRIER);
        }
        for part in &parts {
            let name = Staged::name(part.leaf, self.input(part.node));
            let (both, buffer) = (self.shared_name(part), buffer(part));
            self.lines
                .put(&format!("const float* const {name} = {both} + (p{number} & 1) * {buffer};"));
        }
        self.in_next(number, &parts, Move::Read);
    }

    /// Stores what [`Self::fill`] began to read.
    pub(super) fn fill_next(&mut self, number: LoopNumber) {
        let parts = self.parts(number);
        if parts.iter().any(|part| part.is_pipelined) {
            self.in_next(number, &parts, Move::Store);
        }
    }

    /// Moves the parts of the next iteration, if there is one.
    fn in_next(&mut self, number: LoopNumber, parts: &[Staged], way: Move) {
        let last = self.mapping.facts(number).extent() - 1;
        self.lines.open(&format!("if (p{number} < {last})"));
        let now = std::mem::replace(
            &mut self.positions[number],
            GpuPosition::At(format!("(p{number} + 1)")),
        );
        for part in parts {
            self.move_part(part, way);
        }
        self.positions[number] = now;
        self.lines.close(1);
    }

    /// How far one iteration of the loops around goes in a dimension.
    fn covered_by(&self, path: &[LoopNumber], dim: Dim) -> Extent {
        let same = path.iter().rev().find(|&&number| self.mapping.facts(number).dim == dim);
        same.map_or_else(|| Extent::Known(self.dag.size(dim)), |&at| self.covered[at].clone())
    }

    /// How the threads share the numbers of a part.
    fn share(&self, part: &Staged) -> ThreadShare {
        let Staged { leaf, node, at, axes, extents, .. } = part;
        let path = &self.mapping.outline.leaves[*leaf].path;
        let depth = path.iter().position(|number| number == at).map_or(0, |at| at + 1);
        let path = &path[..depth];
        let global = strides_of(axes, &self.dag.extents(*node));
        let strides = axes.iter().map(|axis| {
            let of_axis = global.iter().find(|(dim, _)| axis.contains(dim));
            of_axis.map_or(1, |&(_, stride)| stride)
        });
        let strides = strides.collect::<Vec<_>>();
        let start = self.at(&format!("a{}", self.input(*node)), &self.terms(path, &global));
        let limits = axes.iter().map(|axis| self.limit(path, axis)).collect::<Vec<_>>();
        let group = Self::group_of(part, &strides, start.alignment, &limits);
        let groups = extents.iter().product::<u64>() / group;
        let turns = groups.div_ceil(self.mapping.launches[self.root].threads);
        ThreadShare { start, strides, limits, group, groups, turns }
    }

    /// Moves the numbers of a part, each thread its share.
    fn move_part(&mut self, part: &Staged, way: Move) {
        let share = self.share(part);
        let threads = self.mapping.launches[self.root].threads;
        if way == Move::Copy {
            self.lines.put("#pragma unroll");
            self.lines.open(&format!("for (int turn = 0; turn < {}; ++turn)", share.turns));
            self.lines.put(&format!("const int i = turn * {threads} + thread;"));
            self.move_group(part, &share, way, "group");
            return self.lines.close(1);
        }
        // What is held are variables, and no array, so that they are registers for certain.
        for turn in 0..share.turns {
            self.lines.open("");
            self.lines.put(&format!("const int i = {} + thread;", turn * threads));
            self.move_group(part, &share, way, &self.held_name(part, turn));
            self.lines.close(1);
        }
    }

    /// Moves the neighbours with number `i` of a part, by way of the variable `held`.
    fn move_group(&mut self, part: &Staged, share: &ThreadShare, way: Move, held: &str) {
        let ThreadShare { start, strides, limits, group, groups, .. } = share;
        let Staged { extents, distances, .. } = part;
        let last = extents.len() - 1;
        let mut checks = Vec::new();
        if !groups.is_multiple_of(self.mapping.launches[self.root].threads) {
            checks.push(format!("i < {groups}"));
        }
        let mut behind = 1;
        for axis in (0..=last).rev() {
            let (width, each) =
                if axis == last { (extents[axis] / group, *group) } else { (extents[axis], 1) };
            let turn = if axis == 0 { String::new() } else { format!(" % {width}") };
            self.lines.put(&format!("const int j{axis} = i / {behind}{turn} * {each};"));
            behind *= width;
            if let Some(limit) = &limits[axis] {
                checks.push(format!("j{axis} < {limit}"));
            }
        }
        let sum = |factors: &[u64]| {
            let terms = (0..=last).map(|axis| format!("j{axis} * {}", factors[axis]));
            terms.collect::<Vec<_>>().join(" + ")
        };
        let to = format!("{}[{}", self.shared_place(part, way), sum(distances));
        let from = format!("{}[{} + {}]", start.base, start.place, sum(strides));
        if !checks.is_empty() {
            self.lines.open(&format!("if ({})", checks.join(" && ")));
        }
        if way == Move::Copy {
            self.lines.put(&format!("float {held}[{group}];"));
        }
        if way != Move::Store {
            self.lines.put(&match group {
                1 => format!("{held}[0] = {from};"),
                _ => format!("load{group}({held}, &{from});"),
            });
        }
        if way != Move::Read {
            let distance = distances[last];
            if *group > 1 && distance > 1 {
                self.lines.put("#pragma unroll");
            }
            self.lines.put(&match group {
                1 => format!("{to}] = {held}[0];"),
                _ if distance == 1 => format!("store{group}(&{to}], {held});"),
                _ => {
                    format!("for (int l = 0; l < {group}; ++l) {to} + l * {distance}] = {held}[l];")
                }
            });
        }
        self.lines.close(usize::from(!checks.is_empty()));
    }

    /// Where a part is stored now.
    fn shared_place(&self, part: &Staged, way: Move) -> String {
        let array = self.shared_name(part);
        if way == Move::Copy {
            return array;
        }
        let GpuPosition::At(position) = &self.positions[part.at] else {
            unreachable!("parts are those of loops that are run one iteration after another")
        };
        format!("({array} + ({position} & 1) * {})", buffer(part))
    }

    /// The number of places of an axis that there are now, if not always all.
    fn limit(&self, path: &[LoopNumber], axis: &[Dim]) -> Option<String> {
        let mut is_known = true;
        let mut sum = vec!["1".to_owned()];
        for &dim in axis {
            sum.push(match self.covered_by(path, dim) {
                Extent::Known(covered) => (covered - 1).to_string(),
                Extent::Variable(covered) => {
                    is_known = false;
                    format!("{covered} - 1")
                }
            });
        }
        (!is_known).then(|| sum.join(" + "))
    }

    /// How many neighbours on the last axis are copied at once: 4, or 1.
    fn group_of(part: &Staged, strides: &[u64], alignment: u64, limits: &[Option<String>]) -> u64 {
        let last = part.extents.len() - 1;
        let is_group = |number: &u64| number.is_multiple_of(GROUP_MAX);
        let is_read = alignment == GROUP_MAX
            && limits.iter().all(Option::is_none)
            && is_group(&part.extents[last])
            && strides[..last].iter().all(is_group);
        // Rows that lie across those of the input are written one by one.
        let is_turned = part.distances[last] != 1;
        let is_right = is_read && (is_turned || part.distances[..last].iter().all(is_group));
        if is_right { GROUP_MAX } else { 1 }
    }
}
