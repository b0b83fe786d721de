//! The values of a nest, as text: where they are in memory, and what is made of them.

use super::super::dag::{Binary, Dim, NodeId, Reduction, Unary};
use super::super::outline::{LeafFacts, LoopNumber, NUMBER_BYTES};
use super::functions::{lanes_of, literal, name, splat, suffix};
use super::locations::{ALIGNMENT, Register, VectorAddress};
use super::nest::{CpuPosition, Nest};

impl Nest<'_> {
    /// The lanes of the vector loop that is being run; 1 without one.
    pub(super) fn lanes(&self) -> u64 {
        self.vector.unwrap_or(1)
    }

    /// The sum of positions, each times a number, from a pointer.
    pub(super) fn at(&mut self, base: &str, terms: &[(LoopNumber, u64)]) -> VectorAddress {
        let (mut known, mut stride, mut alignment) = (0, 0, ALIGNMENT);
        let mut sum: Option<String> = None;
        let of = |number: u64| 1_u64 << (number * NUMBER_BYTES).trailing_zeros().min(6);
        for &(number, factor) in terms {
            let position = match self.positions[number].clone() {
                CpuPosition::Known(position) => {
                    known += position * factor;
                    continue;
                }
                CpuPosition::Lanes => {
                    stride += factor;
                    continue;
                }
                CpuPosition::At(position) => position,
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
        VectorAddress { pointer, stride, alignment }
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
    pub(super) fn address(&mut self, leaf: &LeafFacts, of: usize) -> VectorAddress {
        let (_, storage) = &self.locations.of_leaves[of];
        let terms = self.terms(&leaf.path[storage.shared..], &storage.strides());
        let base = self.bases[of].clone();
        self.at(&base, &terms)
    }

    pub(super) fn address_in_tile(&mut self, leaf: usize, tile: &[LoopNumber]) -> VectorAddress {
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
    pub(super) fn address_of_input(&mut self, leaf: &LeafFacts, node: NodeId) -> VectorAddress {
        let (mut stride, mut strides) = (1, Vec::new());
        for (axis, extent) in self.dag.axes(node).iter().zip(self.dag.extents(node)).rev() {
            strides.extend(axis.iter().map(|&dim| (dim, stride)));
            stride *= extent;
        }
        let terms = self.terms(&leaf.path, &strides);
        let number = self.dag.inputs().position(|input| input == node).unwrap_or(0);
        self.at(&format!("%a{number}"), &terms)
    }

    pub(super) fn load(&mut self, address: &VectorAddress) -> Register {
        let VectorAddress { pointer, stride, alignment } = address;
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

    pub(super) fn store(&mut self, address: &VectorAddress, value: &Register, is_streamed: bool) {
        let VectorAddress { pointer, stride, alignment } = address;
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

    pub(super) fn identity(&self, reduction: Reduction) -> Register {
        self.constant(match reduction {
            Reduction::Sum => 0.0,
            Reduction::Max => f32::NEG_INFINITY,
        })
    }

    pub(super) fn combine(
        &mut self,
        reduction: Reduction,
        one: &Register,
        other: &Register,
    ) -> Register {
        match reduction {
            Reduction::Sum => self.two(Binary::Add, one, other),
            Reduction::Max => self.two(Binary::Max, one, other),
        }
    }

    /// One number of all lanes.
    pub(super) fn together(&mut self, reduction: Reduction, all: &Register) -> Register {
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

    pub(super) fn two(&mut self, binary: Binary, one: &Register, other: &Register) -> Register {
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

    pub(super) fn one(&mut self, unary: Unary, one: &Register) -> Register {
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
}
