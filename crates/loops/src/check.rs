//! The check of what a kernel computes, on whatever machine it ran: which elements of the outputs
//! are looked at, and their comparison with the [`Reference`].

use super::dag::{Dag, Dims};
use super::reference::{BoundedValue, Reference};
use steplake_model::Dice;

/// Why a result is not right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// An element is not, or there are other elements than were asked for.
    #[error("{0}")]
    Wrong(String),
    /// Roundings may have any effect on each element.
    #[error("nothing can be said of any of its elements")]
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
    let most = (CHECK_TERMS_MAX / terms(dag)).clamp(CHECKED_MIN, CHECKED_MAX);
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

/// The evaluations of terms for one element of each output, and one for each node. A reduction in
/// another one is evaluated for each of its terms, unless its value is the same for all of them.
fn terms(dag: &Dag) -> u64 {
    // The dimensions that reductions of what uses a node go over.
    let mut swept = vec![Dims::default(); dag.nodes().len()];
    let mut terms = 0_u64;
    for id in dag.ids().collect::<Vec<_>>().into_iter().rev() {
        let node = dag.node(id);
        let around = swept[id.place()].union(node.reduced());
        node.operands().for_each(|one| swept[one.place()] = swept[one.place()].union(around));
        let is_reduction = !node.reduced().is_empty();
        let over = node.iterated().iter().filter(|&dim| is_reduction && around.has(dim));
        let evaluations = over.map(|dim| dag.size(dim)).fold(1, u64::saturating_mul);
        terms = terms.saturating_add(evaluations);
    }
    terms
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
            let BoundedValue { value, error } = right;
            return Err(Mismatch::Wrong(format!(
                "element {place} of {node} is {found}, and {value} is right up to {error:e}"
            )));
        }
    }
    if is_any { Ok(()) } else { Err(Mismatch::Unchecked) }
}
