//! What a program computes, in 64-bit arithmetic, with a bound of how far a right result in 32-bit
//! arithmetic can be from it.
//!
//! # The bound
//!
//! It is a running error bound (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
//! 3.3): each value goes with a bound of its error, from those of its operands and one rounding of
//! relative size `u = 2^-24`. A sum of `n` terms in any order adds `g(n)` times the sum of their
//! absolute values. `g(n)` is the smaller one of
//!
//! - `n u / (1 - n u)`, which always holds (Higham, 4.2), and
//! - `exp(8 sqrt(n) u + n u^2 / (1 - u)) - 1`, which holds but for one case in 10^13 / n, if
//!   roundings are independent (Higham and Mary, A New Approach to Probabilistic Rounding Error
//!   Analysis, SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4, for a factor of 8).
//!
//! An exponential or a logarithm may be off by [`FUNCTION_ROUNDINGS`] roundings. A fused product
//! and sum rounds less often, so the bound holds for it too.

use std::collections::HashMap;

use super::dag::{Binary, DIMENSIONS_MAX, Dag, NodeId, Operation, Reduction, Unary};

/// The unit roundoff of 32-bit numbers.
const ROUNDOFF: f64 = 1.0 / (1 << 24) as f64;

/// How many roundings an exponential or a logarithm may be off: vectors use polynomials, and other
/// machines their own functions.
pub const FUNCTION_ROUNDINGS: f64 = 8.0;

/// The smallest normal 32-bit number: what is below may be lost.
const UNDERFLOW: f64 = f32::MIN_POSITIVE as f64;

/// The factor of the probabilistic bound of sums.
const CONFIDENCE: f64 = 8.0;

/// The indices of all dimensions.
pub type ElementIndex = [u64; DIMENSIONS_MAX];

/// A value with a bound of the error of right results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundedValue {
    /// The value.
    pub value: f64,
    /// The most by which a right result differs; infinite if nothing can be said.
    pub error: f64,
}

impl BoundedValue {
    /// Nothing is said of the value if it is of operands that are not ordered.
    fn unless(self, is_unordered: bool) -> Self {
        if is_unordered { Self { error: f64::INFINITY, ..self } } else { self }
    }
}

/// Returns an element of an input: a number from a hash of the seed, the input's place among the
/// inputs, and the element's place in row-major order. It is a multiple of 2^-24 from -1 below 1,
/// or from 0.5 below 1.5 for a positive input.
#[expect(clippy::cast_precision_loss, reason = "24 bits are exact")]
pub fn element(seed: u64, input: u64, place: u64, is_positive: bool) -> f32 {
    let state = seed.wrapping_add(input.wrapping_mul(0xd1b5_4a32_d192_ed03));
    let bits = (mixed(mixed(state).wrapping_add(place)) >> 40) as f32;
    let unit = bits / (1_u32 << 24) as f32;
    if is_positive { 0.5 + unit } else { 2.0 * unit - 1.0 }
}

/// The output function of `SplitMix64` after one step (Steele, Lea and Flood, 2014).
fn mixed(state: u64) -> u64 {
    let mut bits = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Computes elements of a program's outputs.
#[derive(Debug)]
pub struct Reference<'a> {
    dag: &'a Dag,
    seed: u64,
    /// The values of reductions that are known.
    known: HashMap<(NodeId, ElementIndex), BoundedValue>,
    /// The value of each point-wise node, with the evaluation that computed it: all uses of a node
    /// in an evaluation are at the same indices.
    values: Vec<(u64, BoundedValue)>,
    /// The number of evaluations that were begun.
    evaluations: u64,
}

impl<'a> Reference<'a> {
    /// Begins with the inputs of a seed.
    pub fn new(dag: &'a Dag, seed: u64) -> Self {
        let nothing = (0, BoundedValue { value: 0.0, error: 0.0 });
        let values = vec![nothing; dag.nodes().len()];
        Self { dag, seed, known: HashMap::new(), values, evaluations: 0 }
    }

    /// Returns the indices of the element of an output at a place in row-major order.
    pub fn index(&self, output: NodeId, place: u64) -> ElementIndex {
        let (mut index, mut left) = ([0; DIMENSIONS_MAX], place);
        let axes = self.dag.output(output).map(|output| output.axes.as_slice());
        for &dim in axes.unwrap_or_default().iter().rev() {
            index[dim.place()] = left % self.dag.size(dim);
            left /= self.dag.size(dim);
        }
        index
    }

    /// Returns the value of a node at indices; those of other dimensions do not matter.
    pub fn value(&mut self, node: NodeId, index: &ElementIndex) -> BoundedValue {
        self.evaluations += 1;
        self.value_in(self.evaluations, node, index)
    }

    /// Returns the value of a node in an evaluation.
    fn value_in(&mut self, evaluation: u64, node: NodeId, index: &ElementIndex) -> BoundedValue {
        let known = self.values[node.place()];
        if known.0 == evaluation {
            return known.1;
        }
        let value = match self.dag.node(node).operation {
            Operation::Input { is_positive, .. } => {
                let place = self.dag.inputs().position(|input| input == node).unwrap_or(0);
                let at = self.place(node, index);
                let value = element(self.seed, place as u64, at, is_positive);
                BoundedValue { value: value.into(), error: 0.0 }
            }
            Operation::Constant(number) => BoundedValue { value: number.into(), error: 0.0 },
            Operation::Unary(unary, one) => of_one(unary, self.value_in(evaluation, one, index)),
            Operation::Binary(binary, one, other) => {
                let one = self.value_in(evaluation, one, index);
                of_two(binary, one, self.value_in(evaluation, other, index))
            }
            Operation::Reduce(reduction, ..) => {
                let mut index = *index;
                let dims = self.dag.node(node).dims;
                let others = self.dag.dims().filter(|&dim| !dims.has(dim));
                others.for_each(|dim| index[dim.place()] = 0);
                if let Some(&known) = self.known.get(&(node, index)) {
                    return known;
                }
                let value = self.reduced(reduction, node, index);
                self.known.insert((node, index), value);
                return value;
            }
        };
        self.values[node.place()] = (evaluation, value);
        value
    }

    /// The place of an element of an input in row-major order.
    fn place(&self, node: NodeId, index: &ElementIndex) -> u64 {
        let axes = self.dag.axes(node);
        let along = axes.iter().zip(self.dag.extents(node));
        along.fold(0, |place, (axis, extent)| {
            place * extent + axis.iter().map(|dim| index[dim.place()]).sum::<u64>()
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of terms below 2^53")]
    fn reduced(
        &mut self,
        reduction: Reduction,
        node: NodeId,
        mut index: ElementIndex,
    ) -> BoundedValue {
        let dims = self.dag.node(node).reduced().iter().collect::<Vec<_>>();
        let Some(operand) = self.dag.node(node).operands().next() else {
            unreachable!("a reduction has an operand")
        };
        let (mut terms, mut sum, mut largest) = (0_u64, [0.0; 3], f64::NEG_INFINITY);
        let mut error_max = 0.0_f64;
        loop {
            let BoundedValue { value, error } = self.value(operand, &index);
            terms += 1;
            sum[0] += value;
            sum[1] += value.abs();
            sum[2] += error;
            largest = largest.max(value);
            error_max = error_max.max(if value.is_nan() { f64::INFINITY } else { error });
            // Counts in the reduced dimensions, the last one fastest.
            let next = dims.iter().rev().find(|dim| {
                let at = &mut index[dim.place()];
                *at = (*at + 1) % self.dag.size(**dim);
                *at != 0
            });
            if next.is_none() {
                break;
            }
        }
        match reduction {
            Reduction::Max => BoundedValue { value: largest, error: error_max },
            Reduction::Sum => {
                let [value, absolute, error] = sum;
                let error = error + growth(terms as f64) * (absolute + error) + UNDERFLOW;
                // A part of the sum may be as large as all terms together.
                BoundedValue { value, error: representable(absolute, error) }
            }
        }
    }
}

/// The bound of the relative error of a sum of so many terms, in any order.
fn growth(terms: f64) -> f64 {
    let always = terms * ROUNDOFF / (1.0 - terms * ROUNDOFF);
    let exponent = CONFIDENCE * terms.sqrt() * ROUNDOFF;
    let likely = (exponent + terms * ROUNDOFF * ROUNDOFF / (1.0 - ROUNDOFF)).exp_m1();
    if always > 0.0 { always.min(likely) } else { likely }
}

/// The error of a value; infinite if numbers of 32 bits may be too small for the value, so that
/// nothing can be said of it.
fn representable(magnitude: f64, error: f64) -> f64 {
    if magnitude + error <= f64::from(f32::MAX) { error } else { f64::INFINITY }
}

/// A value whose operands' errors make an error, after some roundings.
fn rounded(value: f64, error: f64, roundings: f64) -> BoundedValue {
    let rounding = roundings * ROUNDOFF * (value.abs() + error) + UNDERFLOW;
    BoundedValue { value, error: representable(value.abs(), error + rounding) }
}

fn of_one(unary: Unary, one: BoundedValue) -> BoundedValue {
    let BoundedValue { value: a, error } = one;
    match unary {
        Unary::Abs => BoundedValue { value: a.abs(), error },
        Unary::Negate => BoundedValue { value: -a, error },
        Unary::Exp => rounded(a.exp(), a.exp() * error.exp_m1(), FUNCTION_ROUNDINGS),
        Unary::Log => {
            let error = if error < a { error / (a - error) } else { f64::INFINITY };
            rounded(a.ln(), error, FUNCTION_ROUNDINGS)
        }
        Unary::Sqrt => {
            let low = (a - error).max(0.0).sqrt();
            let error = if error == 0.0 { 0.0 } else { error / (a.sqrt() + low) };
            rounded(a.sqrt(), error, 1.0)
        }
        Unary::Reciprocal => of_two(Binary::Divide, BoundedValue { value: 1.0, error: 0.0 }, one),
    }
}

fn of_two(binary: Binary, one: BoundedValue, other: BoundedValue) -> BoundedValue {
    let (BoundedValue { value: a, error: of_a }, BoundedValue { value: b, error: of_b }) =
        (one, other);
    match binary {
        Binary::Add => rounded(a + b, of_a + of_b, 1.0),
        Binary::Subtract => rounded(a - b, of_a + of_b, 1.0),
        Binary::Multiply => rounded(a * b, a.abs() * of_b + b.abs() * of_a + of_a * of_b, 1.0),
        Binary::Divide => {
            let least = b.abs() - of_b;
            let quotient = a / b;
            let error = (of_a + quotient.abs() * of_b) / least;
            rounded(quotient, if least > 0.0 { error } else { f64::INFINITY }, 1.0)
        }
        Binary::Min => {
            BoundedValue { value: a.min(b), error: of_a.max(of_b) }.unless(a.is_nan() || b.is_nan())
        }
        Binary::Max => {
            BoundedValue { value: a.max(b), error: of_a.max(of_b) }.unless(a.is_nan() || b.is_nan())
        }
    }
}
