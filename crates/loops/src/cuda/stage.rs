//! Operands in shared memory: what the threads of a block all read, they copy there together, by
//! [`fill`](super::fill).
//!
//! A schedule cannot say so: it deals loops to threads, and this follows. An input is staged for a
//! leaf if the leaf is in loops dealt to threads, one of which goes over a dimension that the input
//! lacks, so that threads read the same elements; and if there is a loop around those, run one
//! iteration after another in steps of more than 1, over a dimension that the input has. Of such
//! loops the innermost one has a part of the input for each iteration, if it has room.

use super::super::dag::{Dag, Dim, NodeId};
use super::super::outline::{LoopNumber, NUMBER_BYTES};
use super::super::schedule::LoopKind;
use super::emitter::Staged;
use super::mapping::{GpuLocation, Mapping, SHARED_BYTES_MAX};

/// Neighbours that are written across rows lie so many numbers further, in different banks.
const PADDING: u64 = 4;

/// The most numbers that a thread holds for the next iteration of a loop.
const HELD_MAX: u64 = 32;

/// Returns what the kernel of a root item stages.
pub(super) fn staged(dag: &Dag, mapping: &Mapping, root: usize) -> Vec<Staged> {
    let mut bytes: u64 = (0..mapping.places.len())
        .filter(|&leaf| {
            mapping.roots[leaf] == root && mapping.places[leaf].0 == GpuLocation::Shared
        })
        .map(|leaf| mapping.places[leaf].1.places() * NUMBER_BYTES)
        .map(|bytes| bytes.next_multiple_of(16))
        .sum();
    let mut all: Vec<Staged> = Vec::new();
    for (leaf, facts) in mapping.outline.leaves.iter().enumerate() {
        if mapping.roots[leaf] != root {
            continue;
        }
        for node in dag.node(facts.node).operands() {
            let is_read = dag.node(node).is_input() && mapping.outline.leaf(node).is_none();
            if !is_read || all.iter().any(|staged| staged.is_for(leaf, node)) {
                continue;
            }
            let Some(staged) = stage(dag, mapping, leaf, node) else { continue };
            let more = (staged.places * NUMBER_BYTES).next_multiple_of(16);
            if bytes + more <= SHARED_BYTES_MAX {
                bytes += more;
                all.push(staged);
            }
        }
    }
    pipeline(dag, mapping, root, &mut all, bytes);
    all
}

/// Decides which loops have the parts of two iterations in shared memory, and so hold more bytes.
fn pipeline(dag: &Dag, mapping: &Mapping, root: usize, all: &mut [Staged], mut bytes: u64) {
    let threads = mapping.launches[root].threads;
    let mut loops = all.iter().map(|staged| staged.at).collect::<Vec<_>>();
    loops.sort_unstable();
    loops.dedup();
    for at in loops {
        let parts = all.iter_mut().filter(|staged| staged.at == at).collect::<Vec<_>>();
        let held = parts.iter().map(|part| part.extents.iter().product::<u64>().div_ceil(threads));
        let more = parts.iter().map(|part| (part.places * NUMBER_BYTES).next_multiple_of(16));
        let more = more.sum::<u64>();
        let is_whole = parts.iter().all(|part| is_whole(dag, mapping, part));
        let is_loop = mapping.facts(at).extent() > 1;
        if is_whole && is_loop && held.sum::<u64>() <= HELD_MAX && bytes + more <= SHARED_BYTES_MAX
        {
            bytes += more;
            for part in parts {
                part.is_pipelined = true;
            }
        }
    }
}

/// Whether all parts of an input have the same extents: no loop around them has a tail.
fn is_whole(dag: &Dag, mapping: &Mapping, part: &Staged) -> bool {
    let dims = dag.node(part.node).dims;
    let path = &mapping.outline.leaves[part.leaf].path;
    let around = path.iter().take_while(|&&number| number != part.at);
    let mut around = around.chain([&part.at]).map(|&number| mapping.facts(number));
    around.all(|facts| !dims.has(facts.dim) || facts.range.is_multiple_of(facts.step))
}

fn stage(dag: &Dag, mapping: &Mapping, leaf: usize, node: NodeId) -> Option<Staged> {
    let path = &mapping.outline.leaves[leaf].path;
    let dims = dag.node(node).dims;
    let is_block = |&number: &LoopNumber| mapping.runs[number] == LoopKind::Block;
    let first = path.iter().position(is_block)?;
    let lacks = |number: &LoopNumber| !dims.has(mapping.facts(*number).dim);
    path.iter().filter(|number| is_block(number)).find(|number| lacks(number))?;
    let is_part = |&number: &LoopNumber| {
        let facts = mapping.facts(number);
        mapping.runs[number] == LoopKind::Serial && facts.step > 1 && dims.has(facts.dim)
    };
    let depth = path[..first].iter().rposition(is_part)?;
    let covered = |dim: Dim| {
        let around = path[..=depth].iter().rev().map(|&number| mapping.facts(number));
        let same = around.into_iter().find(|facts| facts.dim == dim);
        same.map_or(dag.size(dim), |facts| facts.step)
    };
    let axes = dag.axes(node);
    let extent = |axis: &Vec<Dim>| 1 + axis.iter().map(|&dim| covered(dim) - 1).sum::<u64>();
    let extents = axes.iter().map(extent).collect::<Vec<_>>();
    let along = mapping.facts(path[depth]).dim;
    let outermost = axes.iter().position(|axis| axis.contains(&along))?;
    let (distances, places) = layout(&extents, outermost)?;
    Some(Staged {
        leaf,
        node,
        at: path[depth],
        axes,
        extents,
        distances,
        places,
        is_pipelined: false,
    })
}

/// The distance between neighbours on each axis, and the number of places, with one axis outermost:
/// threads read rows along the others.
fn layout(extents: &[u64], outermost: usize) -> Option<(Vec<u64>, u64)> {
    let others = (0..extents.len()).filter(|&axis| axis != outermost);
    let order = std::iter::once(outermost).chain(others).collect::<Vec<_>>();
    let is_turned = order.last() != Some(&(extents.len() - 1));
    let mut distances = vec![0; extents.len()];
    let mut places = 1_u64;
    for (at, &axis) in order.iter().enumerate().rev() {
        distances[axis] = places;
        places = places.checked_mul(extents[axis])?;
        if is_turned && at + 1 == order.len() {
            places += PADDING;
        }
    }
    (places * NUMBER_BYTES <= SHARED_BYTES_MAX).then_some((distances, places))
}
