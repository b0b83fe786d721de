//! The check of what a kernel computes, on whatever machine it ran: which elements of the outputs
//! are looked at, and their comparison with the [`Reference`].

use super::dag::{Dag, Node};
use super::reference::{Bounded, Reference};
use crate::model::Dice;

/// The most evaluations of terms for a check.
const CHECK_TERMS_MAX: u64 = 1 << 21;

/// The most and the least elements of an output that are checked, if it has as many.
const CHECKED_MAX: u64 = 1 << 14;
const CHECKED_MIN: u64 = 64;

/// The elements that are checked: the number of each output, and the place. They are all, if
/// there are few and they do not take many terms. Otherwise they are drawn, among them some at
/// the end of each axis, where the last turns of loops are short.
pub fn elements(dag: &Dag, seed: u64) -> Vec<(usize, u64)> {
    let sizes = |node: &Node| node.reduced().iter().map(|dim| dag.size(dim)).product::<u64>();
    let terms = dag.nodes().iter().map(sizes).fold(0, u64::saturating_add);
    let most = (CHECK_TERMS_MAX / terms).clamp(CHECKED_MIN, CHECKED_MAX);
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

/// Compares elements that were found with the reference. Those of which nothing can be said do not
/// count.
///
/// # Errors
///
/// What is wrong, in one line.
pub fn compare(dag: &Dag, seed: u64, shown: &[(usize, u64)], found: &[f32]) -> Result<(), String> {
    if found.len() != shown.len() {
        return Err(format!("it shows {} elements of {}", found.len(), shown.len()));
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
            return Err(format!(
                "element {place} of {node} is {found}, and {value} is right up to {error:e}"
            ));
        }
    }
    if is_any { Ok(()) } else { Err("nothing of it can be checked".to_owned()) }
}
