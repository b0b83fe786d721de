//! A schedule run as it is written, in 32-bit arithmetic and without a compiler: what code
//! generators are compared with, and slow.

use super::dag::{Binary, Dag, Dim, Dims, NodeId, Operation, Reduction, Unary};
use super::outline::{LeafFacts, LoopNumber, Outline};
use super::reference::element;
use super::schedule::BodyItem;
use super::state::LoopsState;
use super::storage::Storage;

/// Returns the outputs of a state's program, run as its schedule says, for the inputs of a seed.
pub fn run(state: &LoopsState, seed: u64) -> Vec<Vec<f32>> {
    let (dag, outline) = (&*state.dag, state.outline());
    let storages = outline.leaves.iter().map(|leaf| Storage::of(&outline, dag, leaf));
    let storages = storages.collect::<Vec<_>>();
    let values = storages.iter().map(|storage| vec![f32::NAN; places(storage.places())]);
    let mut machine = Machine {
        dag,
        seed,
        positions: vec![0; outline.loops.len()],
        covered: vec![0; outline.loops.len()],
        values: values.collect(),
        tiles: vec![Vec::new(); outline.leaves.len()],
        outline: &outline,
        storages: &storages,
    };
    machine.items(&state.schedule.0, &mut (0, 0));
    let place = |node: NodeId| outline.leaves.iter().position(|leaf| leaf.node == node);
    let output = |node: NodeId| place(node).map(|place| machine.values[place].clone());
    dag.outputs().iter().filter_map(|found| output(found.node)).collect()
}

fn places(count: u64) -> usize {
    usize::try_from(count).expect("an array fits into memory")
}

struct Machine<'a> {
    dag: &'a Dag,
    seed: u64,
    outline: &'a Outline,
    /// The place of each leaf's value.
    storages: &'a [Storage],
    /// The position of each loop that runs.
    positions: Vec<u64>,
    /// How far one iteration of each loop goes now: its step, or less at the end of its range.
    covered: Vec<u64>,
    /// The value of each leaf.
    values: Vec<Vec<f32>>,
    /// The tile of each leaf that is being accumulated in one.
    tiles: Vec<Vec<f32>>,
}

/// What a reduction starts from.
fn identity(reduction: Reduction) -> f32 {
    match reduction {
        Reduction::Sum => 0.0,
        Reduction::Max => f32::NEG_INFINITY,
    }
}

fn combine(reduction: Reduction, one: f32, other: f32) -> f32 {
    match reduction {
        Reduction::Sum => one + other,
        Reduction::Max => one.max(other),
    }
}

impl Machine<'_> {
    /// Runs items. `next` are the numbers of the next loop and of the next leaf.
    fn items(&mut self, items: &[BodyItem], next: &mut (LoopNumber, usize)) {
        for item in items {
            let BodyItem::Loop(inner) = item else {
                let leaf = next.1;
                next.1 += 1;
                self.leaf(leaf);
                continue;
            };
            let number = next.0;
            let leaves = next.1;
            self.begin(number);
            let mut after = *next;
            for position in 0..self.range(number).div_ceil(inner.step) {
                after = (number + 1, leaves);
                self.enter(number, position);
                self.items(&inner.body, &mut after);
            }
            *next = after;
            self.end(number);
        }
    }

    /// How far a loop goes now.
    fn range(&self, number: LoopNumber) -> u64 {
        self.outline.range_now(number, &self.covered)
    }

    fn enter(&mut self, number: LoopNumber, position: u64) {
        let step = self.outline.loops[number].step;
        self.covered[number] = step.min(self.range(number) - position * step);
        self.positions[number] = position;
    }

    /// Runs `visit` for all positions of loops, each within the one before: of those over `whole`
    /// dimensions all that there can be, and of the others those of now.
    fn each(&mut self, loops: &[LoopNumber], whole: Dims, visit: &mut dyn FnMut(&mut Self)) {
        let Some((&first, rest)) = loops.split_first() else { return visit(self) };
        let facts = &self.outline.loops[first];
        let range = if whole.has(facts.dim) { facts.range } else { self.range(first) };
        for position in 0..range.div_ceil(facts.step) {
            self.positions[first] = position;
            self.covered[first] = facts.step.min(range - position * facts.step);
            self.each(rest, whole, visit);
        }
    }

    fn reduction(&self, leaf: &LeafFacts) -> Option<Reduction> {
        match self.dag.node(leaf.node).operation {
            Operation::Reduce(reduction, ..) => Some(reduction),
            _ => None,
        }
    }

    /// Prepares the reductions of a loop before its first iteration.
    fn begin(&mut self, number: LoopNumber) {
        for place in 0..self.outline.leaves.len() {
            let leaf = &self.outline.leaves[place];
            let Some(reduction) = self.reduction(leaf) else { continue };
            let at = |found: Option<usize>| found.filter(|&at| leaf.path[at] == number);
            if let Some(first) = at(self.outline.outermost_reducing(self.dag, leaf)) {
                let dims = self.dag.node(leaf.node).dims;
                let within = leaf.path[first..].iter().copied();
                let loops = within.filter(|&inner| dims.has(self.outline.loops[inner].dim));
                self.each(&loops.collect::<Vec<_>>(), Dims::default(), &mut |machine| {
                    let element = machine.address(leaf, place);
                    machine.values[place][element] = identity(reduction);
                });
            }
            if let Some(cached) = at(self.outline.cached(self.dag, leaf)) {
                let tile = self.outline.tile(self.dag, leaf, cached);
                let extents = tile.iter().map(|&inner| self.outline.loops[inner].extent());
                self.tiles[place] = vec![identity(reduction); places(extents.product())];
            }
        }
    }

    /// Combines the tiles of a loop with their values after its last iteration.
    fn end(&mut self, number: LoopNumber) {
        for place in 0..self.outline.leaves.len() {
            let leaf = &self.outline.leaves[place];
            let Some(reduction) = self.reduction(leaf) else { continue };
            let cached = self.outline.cached(self.dag, leaf);
            let Some(cached) = cached.filter(|&at| leaf.path[at] == number) else { continue };
            let tile = self.outline.tile(self.dag, leaf, cached);
            let mut visit = |machine: &mut Self| {
                let element = machine.address(leaf, place);
                let found = machine.tiles[place][machine.place_in(&tile)];
                let value = &mut machine.values[place][element];
                *value = combine(reduction, *value, found);
            };
            // All lanes of a sum count, however short the last turn was.
            self.each(&tile, self.dag.node(leaf.node).reduced(), &mut visit);
        }
    }

    /// The place in a tile.
    fn place_in(&self, tile: &[LoopNumber]) -> usize {
        let along =
            tile.iter().map(|&inner| (self.positions[inner], self.outline.loops[inner].extent()));
        places(along.fold(0, |place, (position, extent)| place * extent + position))
    }

    /// The index of a dimension within the loops of a path after the first ones.
    fn index(&self, path: &[LoopNumber], dim: Dim) -> u64 {
        let same = path.iter().filter(|&&number| self.outline.loops[number].dim == dim);
        same.map(|&number| self.positions[number] * self.outline.loops[number].step).sum()
    }

    /// The place of the element of the value of the leaf `of` that `leaf` makes or uses now.
    fn address(&self, leaf: &LeafFacts, of: usize) -> usize {
        let storage = &self.storages[of];
        let path = &leaf.path[storage.shared..];
        let strides = storage.strides();
        places(strides.into_iter().map(|(dim, stride)| self.index(path, dim) * stride).sum())
    }

    /// The value of a node, as a leaf uses it.
    fn operand(&self, leaf: &LeafFacts, node: NodeId) -> f32 {
        let place = self.outline.leaves.iter().position(|made| made.node == node);
        match (place, &self.dag.node(node).operation) {
            (Some(place), _) => self.values[place][self.address(leaf, place)],
            (None, Operation::Constant(number)) => *number,
            (None, _) => self.element(leaf, node),
        }
    }

    /// An element of an input.
    fn element(&self, leaf: &LeafFacts, node: NodeId) -> f32 {
        let Operation::Input { axes, is_positive } = &self.dag.node(node).operation else {
            unreachable!("only inputs are not computed")
        };
        let along = axes.iter().zip(self.dag.extents(node));
        let place = along.fold(0, |place, (axis, extent)| {
            place * extent + axis.iter().map(|&dim| self.index(&leaf.path, dim)).sum::<u64>()
        });
        let input = self.dag.inputs().position(|input| input == node).unwrap_or(0);
        element(self.seed, input as u64, place, *is_positive)
    }

    fn leaf(&mut self, place: usize) {
        let leaf = &self.outline.leaves[place];
        let element = self.address(leaf, place);
        let value = match self.dag.node(leaf.node).operation {
            Operation::Unary(unary, one) => of_one(unary, self.operand(leaf, one)),
            Operation::Binary(binary, one, other) => {
                of_two(binary, self.operand(leaf, one), self.operand(leaf, other))
            }
            Operation::Reduce(reduction, _, one) => {
                let term = self.operand(leaf, one);
                if let Some(cached) = self.outline.cached(self.dag, leaf) {
                    let tile = self.outline.tile(self.dag, leaf, cached);
                    let at = self.place_in(&tile);
                    let value = &mut self.tiles[place][at];
                    *value = combine(reduction, *value, term);
                    return;
                }
                combine(reduction, self.values[place][element], term)
            }
            Operation::Input { .. } | Operation::Constant(_) => self.element(leaf, leaf.node),
        };
        self.values[place][element] = value;
    }
}

fn of_one(unary: Unary, one: f32) -> f32 {
    match unary {
        Unary::Exp => one.exp(),
        Unary::Log => one.ln(),
        Unary::Sqrt => one.sqrt(),
        Unary::Abs => one.abs(),
        Unary::Negate => -one,
        Unary::Reciprocal => 1.0 / one,
    }
}

fn of_two(binary: Binary, one: f32, other: f32) -> f32 {
    match binary {
        Binary::Add => one + other,
        Binary::Subtract => one - other,
        Binary::Multiply => one * other,
        Binary::Divide => one / other,
        Binary::Min => one.min(other),
        Binary::Max => one.max(other),
    }
}
