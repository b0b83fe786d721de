//! Leaves: operands, what is computed of them, and where it goes.

use super::super::dag::{NodeId, Operation, Reduction};
use super::address::{GROUP_MAX, GpuAddress};
use super::emitter::{Emitter, GpuPosition};
use super::lines::{combined, literal, of_one, of_two};
use super::mapping::GpuLocation;

impl Emitter<'_> {
    /// The reduction that a leaf is, if it is one.
    pub(super) fn reduction(&self, leaf: usize) -> Option<Reduction> {
        match self.dag.node(self.mapping.outline.leaves[leaf].node).operation {
            Operation::Reduce(reduction, ..) => Some(reduction),
            _ => None,
        }
    }

    /// Writes what computes a leaf.
    pub(super) fn leaf(&mut self, leaf: usize) {
        let guard = self.guard(leaf);
        if let Some(guard) = &guard {
            self.lines.open(&format!("if ({guard})"));
        }
        self.compute(leaf);
        self.lines.close(guard.map_or(0, |_| 1));
    }

    fn compute(&mut self, leaf: usize) {
        let outline = &self.mapping.outline;
        let facts = &outline.leaves[leaf];
        let value = match self.dag.node(facts.node).operation {
            Operation::Unary(unary, one) => {
                let one = self.operand(leaf, one);
                of_one(unary, &one)
            }
            Operation::Binary(binary, one, other) => {
                let (one, other) = (self.operand(leaf, one), self.operand(leaf, other));
                of_two(binary, &one, &other)
            }
            Operation::Reduce(reduction, _, one) => {
                let term = self.operand(leaf, one);
                let cached = outline.cached(self.dag, facts);
                let tile = cached.map(|cached| outline.tile(self.dag, facts, cached));
                let address = tile.map_or_else(
                    || self.address(leaf, leaf),
                    |tile| self.address_in_tile(leaf, &tile),
                );
                let before = self.name_of(leaf).unwrap_or_else(|| address.lane(self.lane()));
                let before = if cached.is_some() { address.lane(self.lane()) } else { before };
                let after = combined(reduction, &before, &term);
                return self.for_lanes(&format!("{before} = {after};"));
            }
            Operation::Input { .. } | Operation::Constant(_) => {
                let address = self.address_of_input(leaf, facts.node);
                self.read(&address, true)
            }
        };
        self.store(leaf, &value);
    }

    /// Stores the value of a leaf: an expression, of the lane `l` if there are lanes.
    pub(super) fn store(&mut self, leaf: usize, value: &str) {
        let facts = &self.mapping.outline.leaves[leaf];
        let place = &self.mapping.places[leaf].0;
        if let Some(name) = self.name_of(leaf) {
            if let Some(lanes) = self.lanes.filter(|_| self.is_in_lanes(leaf)) {
                self.lines.put(&format!("float v{leaf}[{lanes}];"));
            }
            return self.for_lanes(&format!("{name} = {value};"));
        }
        let innermost = facts.path.last().map(|&number| self.mapping.facts(number));
        let is_streamed = matches!(place, GpuLocation::Output(_))
            && innermost.is_some_and(|innermost| innermost.is_streamed)
            && self.reduction(leaf).is_none();
        let address = self.address(leaf, leaf);
        self.write(&address, value, *place != GpuLocation::Thread, is_streamed);
    }

    /// The variable that holds the value of a leaf, with its lane, if that is one number.
    fn name_of(&self, leaf: usize) -> Option<String> {
        let (place, storage) = &self.mapping.places[leaf];
        if *place != GpuLocation::Thread || !storage.axes.is_empty() {
            return None;
        }
        Some(if self.is_in_lanes(leaf) { format!("v{leaf}[l]") } else { format!("v{leaf}") })
    }

    /// Whether a value lives in the vector loop that is being written, one number for each lane.
    fn is_in_lanes(&self, leaf: usize) -> bool {
        let path = &self.mapping.outline.leaves[leaf].path;
        let innermost = path.last().filter(|_| self.mapping.places[leaf].1.shared == path.len());
        let is_lane = |&number: &usize| self.positions[number] == GpuPosition::Lane;
        self.lanes.is_some() && innermost.is_some_and(is_lane)
    }

    /// What a leaf reads and writes of its own value now.
    pub(super) fn own(&self, leaf: usize) -> String {
        self.name_of(leaf).unwrap_or_else(|| self.address(leaf, leaf).lane(self.lane()))
    }

    fn lane(&self) -> &'static str {
        if self.lanes.is_some() { "l" } else { "0" }
    }

    /// Writes a statement for each lane `l`.
    pub(super) fn for_lanes(&mut self, statement: &str) {
        if let Some(lanes) = self.lanes {
            self.lines.put("#pragma unroll");
            self.lines.put(&format!("for (int l = 0; l < {lanes}; ++l) {statement}"));
        } else {
            self.lines.put(statement);
        }
    }

    /// The value of a node, as a leaf uses it.
    fn operand(&mut self, leaf: usize, node: NodeId) -> String {
        let made = self.mapping.outline.leaves.iter().position(|made| made.node == node);
        match (made, &self.dag.node(node).operation) {
            (Some(made), _) => self.name_of(made).unwrap_or_else(|| {
                let address = self.address(leaf, made);
                self.read(&address, self.mapping.places[made].0 != GpuLocation::Thread)
            }),
            (None, Operation::Constant(number)) => literal(*number),
            (None, _) => {
                let address = self.address_of_input(leaf, node);
                self.read(&address, true)
            }
        }
    }

    /// How many numbers of an address are moved at once.
    fn group(&self, address: &GpuAddress, is_memory: bool) -> u64 {
        let Some(lanes) = self.lanes.filter(|_| is_memory && address.stride == 1) else {
            return 1;
        };
        address.alignment.min(1 << lanes.trailing_zeros().min(GROUP_MAX.trailing_zeros()))
    }

    /// Returns an expression of what lies at an address.
    pub(super) fn read(&mut self, address: &GpuAddress, is_memory: bool) -> String {
        let Some(lanes) = self.lanes else { return address.element() };
        let group = self.group(address, is_memory);
        if address.stride == 0 {
            let name = self.lines.name();
            self.lines.put(&format!("const float {name} = {};", address.element()));
            return name;
        }
        if group == 1 {
            return address.lane("l");
        }
        let name = self.lines.name();
        let GpuAddress { base, place, .. } = address;
        self.lines.put(&format!("float {name}[{lanes}];"));
        self.lines.put("#pragma unroll");
        self.lines.put(&format!(
            "for (int l = 0; l < {lanes}; l += {group}) \
             load{group}(&{name}[l], &{base}[{place} + l]);"
        ));
        format!("{name}[l]")
    }

    /// Stores an expression.
    fn write(&mut self, address: &GpuAddress, value: &str, is_memory: bool, is_streamed: bool) {
        let group = self.group(address, is_memory);
        let word = if is_streamed { "stream" } else { "store" };
        let Some(lanes) = self.lanes.filter(|_| group > 1 || is_streamed) else {
            let element = address.lane(self.lane());
            return self.for_lanes(&if is_streamed {
                format!("__stcs(&{element}, {value});")
            } else {
                format!("{element} = {value};")
            });
        };
        let name = self.lines.name();
        let element = GpuAddress { stride: 1, ..address.clone() };
        let element = if group > 1 { element.lane("l") } else { address.lane("l") };
        self.lines.put(&format!("float {name}[{lanes}];"));
        self.for_lanes(&format!("{name}[l] = {value};"));
        self.lines.put("#pragma unroll");
        self.lines.put(&format!(
            "for (int l = 0; l < {lanes}; l += {group}) {word}{group}(&{element}, &{name}[l]);"
        ));
    }
}
