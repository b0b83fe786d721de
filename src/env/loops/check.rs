//! The check of what a kernel computes, on whatever machine it ran: which elements of the outputs
//! are looked at, and their comparison with the [`Reference`].

use super::dag::{Dag, Dims, NodeId, Output};
use super::reference::{Bounded, Reference};
use crate::model::Dice;

/// Why a result is not right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// An element is not, or there are other elements than were asked for.
    #[error("{0}")]
    Wrong(String),
    /// Of no element can anything be said.
    #[error("of none of its elements can anything be said")]
    Unchecked,
}

/// The most evaluations of terms for a check.
const CHECK_TERMS_MAX: u64 = 1 << 21;

/// The most and the least elements of an output that are checked, if it has as many.
const CHECKED_MAX: u64 = 1 << 14;
const CHECKED_MIN: u64 = 64;

/// The elements that are checked: the number of each output, and the place. They are all, if
/// there are few and they do not take many terms. Otherwise they are drawn, among them some at
/// the end of each axis, where the last turns of loops are short.
pub fn elements(dag: &Dag, seed: u64) -> Vec<(usize, u64)> {
    let most = (CHECK_TERMS_MAX / terms(dag).max(1)).clamp(CHECKED_MIN, CHECKED_MAX);
    let mut dice = Dice::new(seed.cast_signed(), 0);
    let mut shown = Vec::new();
    for (number, output) in dag.outputs().iter().enumerate() {
        let elements = dag.elements(output.node);
        if elements <= most {
            shown.extend((0..elements).map(|place| (number, place)));
            continue;
        }
        let extents = dag.extents(output.node);
        for turn in 0..most {
            // Every other one is at the end of an axis.
            let at_end = usize::try_from(turn / 2).unwrap_or(0) % extents.len();
            let mut place = 0;
            for (axis, &extent) in extents.iter().enumerate() {
                let is_last = turn % 2 == 0 && axis == at_end;
                let index = if is_last { extent - 1 } else { dice.draw() % extent };
                place = place * extent + index;
            }
            shown.push((number, place));
        }
    }
    shown
}

/// The terms that are evaluated for one element of each output. A reduction within another one is
/// evaluated once for each of its elements that the outer one goes over.
fn terms(dag: &Dag) -> u64 {
    let size = |dims: Dims| dims.iter().map(|dim| dag.size(dim)).fold(1, u64::saturating_mul);
    // Of each reduction, for one of its elements.
    let mut own = vec![0_u64; dag.nodes().len()];
    let within = |own: &[u64], root: NodeId, over: Dims| {
        let (mut all, mut seen, mut left) = (0_u64, vec![false; own.len()], vec![root]);
        while let Some(id) = left.pop() {
            if std::mem::replace(&mut seen[id.place()], true) {
                continue;
            }
            let node = dag.node(id);
            if node.reduced().is_empty() {
                left.extend(node.operands());
            } else {
                let elements = size(node.dims.intersection(over));
                all = all.saturating_add(elements.saturating_mul(own[id.place()]));
            }
        }
        all
    };
    for id in dag.ids() {
        let (reduced, operand) = (dag.node(id).reduced(), dag.node(id).operands().next());
        if let Some(operand) = operand.filter(|_| !reduced.is_empty()) {
            own[id.place()] = size(reduced).saturating_add(within(&own, operand, reduced));
        }
    }
    let of_output = |output: &Output| within(&own, output.node, Dims::default());
    dag.outputs().iter().map(of_output).fold(0, u64::saturating_add)
}

/// Compares elements that were found with the reference. Those of which nothing can be said do not
/// count.
///
/// # Errors
///
/// [`Mismatch`].
pub fn compare(
    dag: &Dag,
    seed: u64,
    shown: &[(usize, u64)],
    found: &[f32],
) -> Result<(), Mismatch> {
    if found.len() != shown.len() {
        let what = format!("it shows {} elements of {}", found.len(), shown.len());
        return Err(Mismatch::Wrong(what));
    }
    let mut reference = Reference::new(dag, seed);
    let mut is_any = false;
    for (&(number, place), &found) in shown.iter().zip(found) {
        let node = dag.outputs()[number].node;
        let index = reference.index(node, place);
        let right = reference.value(node, &index);
        if !right.error.is_finite() {
            continue;
        }
        is_any = true;
        let is_near = (f64::from(found) - right.value).abs() <= right.error;
        if !is_near {
            let Bounded { value, error } = right;
            return Err(Mismatch::Wrong(format!(
                "element {place} of {node} is {found}, and {value} is right up to {error:e}"
            )));
        }
    }
    if is_any { Ok(()) } else { Err(Mismatch::Unchecked) }
}
