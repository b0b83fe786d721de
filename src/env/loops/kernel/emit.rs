//! A state as LLVM's text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::dag::{Binary, Dag, Dim, NodeId, Operation, Reduction, Unary};
use super::super::outline::{LeafFacts, LoopNumber, NUMBER_BYTES, Outline};
use super::super::schedule::{Item, Loop, Run};
use super::super::state::State;
use super::functions::{definition, lanes_of, literal, name, splat, suffix};
use super::lines::Lines;
use super::places::{ALIGNMENT, Place, Places};

/// The most bytes of a function's text.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// A schedule whose code would be too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the code of a nest would have more than {TEXT_BYTES_MAX} bytes of text: unroll less")]
pub struct TooLarge;

/// Returns the module of a state, as text.
///
/// # Errors
///
/// If it is too large.
pub fn module(state: &State) -> Result<String, TooLarge> {
    let (dag, outline) = (&*state.dag, state.outline());
    let places = Places::new(dag, &outline);
    let (mut text, mut is_parallel) = (String::new(), Vec::new());
    let (mut functions, mut next) = (BTreeSet::new(), (0, 0));
    for (number, item) in state.schedule.0.iter().enumerate() {
        let mut nest = Nest::new(dag, &outline, &places);
        nest.prepare();
        next = nest.items(std::slice::from_ref(item), next);
        if nest.lines.bytes() > TEXT_BYTES_MAX {
            return Err(TooLarge);
        }
        nest.lines.put("ret void");
        functions.append(&mut nest.functions);
        is_parallel.push(matches!(item, Item::Loop(outer) if outer.run == Run::Parallel));
        text.push_str(&function(number, places.arrays.len(), &nest.lines.finish()));
    }
    for (is_exp, lanes) in functions {
        let unary = if is_exp { Unary::Exp } else { Unary::Log };
        text.push_str(&definition(unary, lanes));
    }
    text.push_str(&tables(&places, &is_parallel));
    text.push_str("!0 = !{i32 1}\n");
    Ok(text)
}

/// Returns the functions of a nest: one that is given the array of arrays, and one that is given
/// each array.
fn function(number: usize, arrays: usize, body: &str) -> String {
    let (mut parameters, mut loads, mut arguments) = (String::new(), String::new(), String::new());
    let put = |text: &mut String, part: std::fmt::Arguments<'_>| {
        text.write_fmt(part).expect("a string takes it");
    };
    for array in 0..arrays {
        put(&mut parameters, format_args!("ptr noalias align {ALIGNMENT} %a{array}, "));
        put(
            &mut loads,
            format_args!(
                "  %p{array} = getelementptr ptr, ptr %arrays, i64 {array}\n  %a{array} = load \
                 ptr, ptr %p{array}\n"
            ),
        );
        put(&mut arguments, format_args!("ptr %a{array}, "));
    }
    format!(
        "define internal void @body{number}({parameters}ptr noalias align {ALIGNMENT} %private, \
         i64 %thread, i64 %threads) noinline nounwind {{\n{body}}}\n\
         define void @nest{number}(ptr %arrays, ptr %private, i64 %thread, i64 %threads) nounwind \
         {{\n{loads}  call void @body{number}({arguments}ptr %private, i64 %thread, i64 %threads)\n  \
         ret void\n}}\n"
    )
}

/// Returns the tables that the harness reads.
fn tables(places: &Places, is_parallel: &[bool]) -> String {
    let list = |items: Vec<String>| items.join(", ");
    let nests = (0..is_parallel.len()).map(|number| format!("ptr @nest{number}")).collect();
    let parallel = is_parallel.iter().map(|&is| format!("i8 {}", u8::from(is))).collect();
    let elements = places.arrays.iter().map(|(_, elements)| format!("i64 {elements}")).collect();
    let contents = places.arrays.iter().map(|(kind, _)| format!("i8 {}", kind.code())).collect();
    let (nest_count, array_count) = (is_parallel.len(), places.arrays.len());
    format!(
        "@loops_nest_count = constant i64 {nest_count}\n\
         @loops_nests = constant [{nest_count} x ptr] [{}]\n\
         @loops_is_parallel = constant [{nest_count} x i8] [{}]\n\
         @loops_array_count = constant i64 {array_count}\n\
         @loops_elements = constant [{array_count} x i64] [{}]\n\
         @loops_contents = constant [{array_count} x i8] [{}]\n\
         @loops_private_bytes = constant i64 {}\n",
        list(nests),
        list(parallel),
        list(elements),
        list(contents),
        places.private_bytes,
    )
}

/// The position of a loop.
#[derive(Debug, Clone)]
enum Position {
    Known(u64),
    At(String),
    /// All positions at once, from 0.
    Lanes,
}

/// A value in a register, of one lane or of all lanes of the vector loop.
#[derive(Debug, Clone)]
struct Register {
    name: String,
    lanes: u64,
}

/// A place in memory.
struct Address {
    pointer: String,
    /// The distance from lane to lane.
    stride: u64,
    /// A power of 2 that divides it, in bytes.
    alignment: u64,
}

struct Nest<'a> {
    dag: &'a Dag,
    outline: &'a Outline,
    places: &'a Places,
    lines: Lines,
    positions: Vec<Position>,
    /// How far one iteration of each loop goes now.
    covered: Vec<u64>,
    /// The pointers to values that are not in arrays.
    bases: Vec<String>,
    /// The tile of each leaf that is being accumulated in one.
    tiles: Vec<String>,
    registers: Vec<Option<Register>>,
    /// The lanes of the loop that is being run as a vector.
    vector: Option<u64>,
    /// Whether outputs are stored past the caches.
    is_streamed: bool,
    /// The functions that are called: whether each is `exp`, and the lanes.
    functions: BTreeSet<(bool, u64)>,
}

impl<'a> Nest<'a> {
    fn new(dag: &'a Dag, outline: &'a Outline, places: &'a Places) -> Self {
        let (loops, leaves) = (outline.loops.len(), outline.leaves.len());
        Self {
            dag,
            outline,
            places,
            lines: Lines::new(),
            positions: vec![Position::Known(0); loops],
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
    fn prepare(&mut self) {
        for (leaf, (place, storage)) in self.places.of_leaves.iter().enumerate() {
            self.bases[leaf] = match place {
                Place::Array(number) => format!("%a{number}"),
                Place::Private(at) => {
                    self.lines.value(&format!("getelementptr i8, ptr %private, i64 {at}"))
                }
                Place::Local => self.lines.local(storage.places()),
                Place::Register => continue,
            };
        }
    }

    /// Writes items. `next` are the numbers of the next loop and of the next leaf.
    fn items(&mut self, items: &[Item], next: (LoopNumber, usize)) -> (LoopNumber, usize) {
        let (mut number, mut leaf) = next;
        for item in items {
            if self.lines.bytes() > TEXT_BYTES_MAX {
                break;
            }
            (number, leaf) = match item {
                Item::Leaf(_) => {
                    self.leaf(leaf);
                    (number, leaf + 1)
                }
                Item::Loop(inner) => self.one_loop(inner, (number, leaf)),
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
        let facts = &self.outline.loops;
        let parent = |at: &LoopNumber| facts[*at].parent;
        let mut around = std::iter::successors(facts[number].parent, parent);
        let same = around.find(|&at| facts[at].dim == facts[number].dim);
        same.map_or(facts[number].range, |at| self.covered[at])
    }

    /// Writes a loop around `body`, and `body` once more for what remains.
    fn over(&mut self, number: LoopNumber, body: &mut dyn FnMut(&mut Self)) {
        let facts = &self.outline.loops[number];
        let (step, range) = (facts.step, self.range(number));
        let (whole, tail) = (range / step, range % step);
        self.covered[number] = step;
        match facts.run {
            Run::Parallel => return self.share(number, whole, tail, body),
            Run::Vector if whole == facts.extent() => {
                self.positions[number] = Position::Lanes;
                self.vector = Some(whole);
                body(self);
                self.vector = None;
            }
            Run::Unroll => {
                for position in 0..whole {
                    self.positions[number] = Position::Known(position);
                    body(self);
                }
            }
            _ if whole == 1 => {
                self.positions[number] = Position::Known(0);
                body(self);
            }
            _ if whole > 1 => {
                let open = self.lines.open("0", &whole.to_string(), true);
                self.positions[number] = Position::At(open.position.clone());
                body(self);
                self.lines.close(&open);
            }
            _ => {}
        }
        if tail > 0 {
            self.covered[number] = tail;
            self.positions[number] = Position::Known(whole);
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
        self.positions[number] = Position::At(open.position.clone());
        body(self);
        self.lines.close(&open);
        if tail > 0 {
            // The last range has it, unless it is empty.
            let is_last = self.lines.value(&format!("icmp ugt i64 {to}, {whole}"));
            let is_any = self.lines.value(&format!("icmp ule i64 {from}, {whole}"));
            let is_here = self.lines.value(&format!("and i1 {is_last}, {is_any}"));
            let exit = self.lines.open_if(&is_here);
            self.covered[number] = tail;
            self.positions[number] = Position::Known(whole);
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
        let before = std::mem::replace(&mut self.positions[last], Position::Lanes);
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
                let extents = tile.iter().map(|&inner| self.outline.loops[inner].extent());
                self.tiles[leaf] = self.lines.local(extents.product());
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

    /// The lanes of the vector loop that is being run; 1 without one.
    fn lanes(&self) -> u64 {
        self.vector.unwrap_or(1)
    }

    /// The sum of positions, each times a number, from a pointer.
    fn at(&mut self, base: &str, terms: &[(LoopNumber, u64)]) -> Address {
        let (mut known, mut stride, mut alignment) = (0, 0, ALIGNMENT);
        let mut sum: Option<String> = None;
        let of = |number: u64| 1_u64 << (number * NUMBER_BYTES).trailing_zeros().min(6);
        for &(number, factor) in terms {
            let position = match self.positions[number].clone() {
                Position::Known(position) => {
                    known += position * factor;
                    continue;
                }
                Position::Lanes => {
                    stride += factor;
                    continue;
                }
                Position::At(position) => position,
            };
            alignment = alignment.min(of(factor));
            let term = if factor == 1 {
                position
            } else {
                self.lines.value(&format!("mul nuw nsw i64 {position}, {factor}"))
            };
            sum = Some(match sum {
                None => term,
                Some(sum) => self.lines.value(&format!("add nuw nsw i64 {sum}, {term}")),
            });
        }
        let mut pointer = base.to_owned();
        if let Some(sum) = sum {
            pointer = self
                .lines
                .value(&format!("getelementptr inbounds float, ptr {pointer}, i64 {sum}"));
        }
        if known > 0 {
            alignment = alignment.min(of(known));
            pointer = self
                .lines
                .value(&format!("getelementptr inbounds float, ptr {pointer}, i64 {known}"));
        }
        Address { pointer, stride, alignment }
    }

    /// The loops of a path with the distance that one iteration goes, by that of one place of each
    /// dimension.
    fn terms(&self, path: &[LoopNumber], strides: &[(Dim, u64)]) -> Vec<(LoopNumber, u64)> {
        let distance = |&number: &LoopNumber| {
            let facts = &self.outline.loops[number];
            let found = strides.iter().find(|(dim, _)| *dim == facts.dim);
            found.map(|&(_, stride)| (number, stride * facts.step))
        };
        path.iter().filter_map(distance).collect()
    }

    /// The element of the value of the leaf `of` that `leaf` makes or uses now.
    fn address(&mut self, leaf: &LeafFacts, of: usize) -> Address {
        let (_, storage) = &self.places.of_leaves[of];
        let terms = self.terms(&leaf.path[storage.shared..], &storage.strides());
        let base = self.bases[of].clone();
        self.at(&base, &terms)
    }

    fn address_in_tile(&mut self, leaf: usize, tile: &[LoopNumber]) -> Address {
        let mut stride = 1;
        let mut terms = Vec::new();
        for &number in tile.iter().rev() {
            terms.push((number, stride));
            stride *= self.outline.loops[number].extent();
        }
        let base = self.tiles[leaf].clone();
        self.at(&base, &terms)
    }

    /// The element of an input that a leaf reads now.
    fn address_of_input(&mut self, leaf: &LeafFacts, node: NodeId) -> Address {
        let (mut stride, mut strides) = (1, Vec::new());
        for (axis, extent) in self.dag.axes(node).iter().zip(self.dag.extents(node)).rev() {
            strides.extend(axis.iter().map(|&dim| (dim, stride)));
            stride *= extent;
        }
        let terms = self.terms(&leaf.path, &strides);
        let number = self.dag.inputs().position(|input| input == node).unwrap_or(0);
        self.at(&format!("%a{number}"), &terms)
    }

    fn load(&mut self, address: &Address) -> Register {
        let Address { pointer, stride, alignment } = address;
        let lanes = self.lanes();
        let name = match stride {
            0 => {
                let name = self.lines.value(&format!("load float, ptr {pointer}, align 4"));
                return Register { name, lanes: 1 };
            }
            1 => {
                let kind = lanes_of("float", lanes);
                self.lines.value(&format!("load {kind}, ptr {pointer}, align {alignment}"))
            }
            _ => {
                let kind = lanes_of("float", lanes);
                let mut all = "poison".to_owned();
                for lane in 0..lanes {
                    let element = self.element(pointer, lane * stride);
                    let one = self.lines.value(&format!("load float, ptr {element}, align 4"));
                    all = self
                        .lines
                        .value(&format!("insertelement {kind} {all}, float {one}, i64 {lane}"));
                }
                all
            }
        };
        Register { name, lanes }
    }

    fn element(&mut self, pointer: &str, place: u64) -> String {
        self.lines.value(&format!("getelementptr inbounds float, ptr {pointer}, i64 {place}"))
    }

    fn store(&mut self, address: &Address, value: &Register, is_streamed: bool) {
        let Address { pointer, stride, alignment } = address;
        let lanes = self.lanes();
        let kind = lanes_of("float", lanes);
        if *stride == 0 {
            let Register { name, .. } = value;
            return self.lines.put(&format!("store float {name}, ptr {pointer}, align 4"));
        }
        let all = self.widened(value);
        if *stride == 1 {
            let is_whole = *alignment >= (lanes * NUMBER_BYTES).min(32);
            let past = if is_streamed && is_whole { ", !nontemporal !0" } else { "" };
            let store = format!("store {kind} {all}, ptr {pointer}, align {alignment}{past}");
            return self.lines.put(&store);
        }
        for lane in 0..lanes {
            let one = self.lines.value(&format!("extractelement {kind} {all}, i64 {lane}"));
            let element = self.element(pointer, lane * stride);
            self.lines.put(&format!("store float {one}, ptr {element}, align 4"));
        }
    }

    /// A value in all lanes.
    fn widened(&mut self, value: &Register) -> String {
        let lanes = self.lanes();
        if value.lanes == lanes {
            return value.name.clone();
        }
        let kind = lanes_of("float", lanes);
        let first = format!("insertelement {kind} poison, float {}, i64 0", value.name);
        let first = self.lines.value(&first);
        self.lines.value(&format!(
            "shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer"
        ))
    }

    fn constant(&self, number: f32) -> Register {
        let lanes = self.lanes();
        Register { name: splat("float", &literal(number), lanes), lanes }
    }

    fn identity(&self, reduction: Reduction) -> Register {
        self.constant(match reduction {
            Reduction::Sum => 0.0,
            Reduction::Max => f32::NEG_INFINITY,
        })
    }

    fn combine(&mut self, reduction: Reduction, one: &Register, other: &Register) -> Register {
        match reduction {
            Reduction::Sum => self.two(Binary::Add, one, other),
            Reduction::Max => self.two(Binary::Max, one, other),
        }
    }

    /// One number of all lanes.
    fn together(&mut self, reduction: Reduction, all: &Register) -> Register {
        let (kind, suffix) = (lanes_of("float", all.lanes), suffix(all.lanes));
        let name = &all.name;
        let name = self.lines.value(&match reduction {
            Reduction::Sum => format!(
                "call reassoc float @llvm.vector.reduce.fadd.{suffix}(float {}, {kind} {name})",
                literal(-0.0)
            ),
            Reduction::Max => {
                format!("call float @llvm.vector.reduce.fmax.{suffix}({kind} {name})")
            }
        });
        Register { name, lanes: 1 }
    }

    fn two(&mut self, binary: Binary, one: &Register, other: &Register) -> Register {
        let lanes = one.lanes.max(other.lanes);
        let [one, other] = [one, other].map(|value| {
            if value.lanes == lanes { value.name.clone() } else { self.widened(value) }
        });
        let kind = lanes_of("float", lanes);
        let plain = |word: &str| format!("{word} {kind} {one}, {other}");
        let name = match binary {
            Binary::Add => self.lines.value(&plain("fadd contract")),
            Binary::Subtract => self.lines.value(&plain("fsub contract")),
            Binary::Multiply => self.lines.value(&plain("fmul contract")),
            Binary::Divide => self.lines.value(&plain("fdiv")),
            Binary::Min | Binary::Max => {
                let word = if binary == Binary::Min { "olt" } else { "ogt" };
                let is = self.lines.value(&plain(&format!("fcmp {word}")));
                let bit = lanes_of("i1", lanes);
                self.lines.value(&format!("select {bit} {is}, {kind} {one}, {kind} {other}"))
            }
        };
        Register { name, lanes }
    }

    fn one(&mut self, unary: Unary, one: &Register) -> Register {
        let Register { name: operand, lanes } = one;
        let (kind, suffix) = (lanes_of("float", *lanes), suffix(*lanes));
        let instruction = match unary {
            Unary::Negate => format!("fneg {kind} {operand}"),
            Unary::Sqrt => format!("call {kind} @llvm.sqrt.{suffix}({kind} {operand})"),
            Unary::Abs => format!("call {kind} @llvm.fabs.{suffix}({kind} {operand})"),
            Unary::Reciprocal => {
                let unit = splat("float", &literal(1.0), *lanes);
                format!("fdiv {kind} {unit}, {operand}")
            }
            Unary::Exp | Unary::Log => {
                self.functions.insert((unary == Unary::Exp, *lanes));
                let function = name(unary, *lanes).unwrap_or_default();
                format!("call {kind} {function}({kind} {operand})")
            }
        };
        Register { name: self.lines.value(&instruction), lanes: *lanes }
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
        if matches!(self.places.of_leaves[place].0, Place::Register) {
            self.registers[place] = Some(value);
            return;
        }
        let address = self.address(leaf, place);
        let is_streamed = self.is_streamed && self.dag.output(leaf.node).is_some();
        self.store(&address, &value, is_streamed);
    }
}
