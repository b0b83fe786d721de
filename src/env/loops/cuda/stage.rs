//! Operands in shared memory: what the threads of a block all read, they copy there together.
//!
//! A schedule cannot say so: it deals loops to threads, and this follows. An input is staged for a
//! leaf if the leaf is in loops dealt to threads, one of which goes over a dimension that the input
//! lacks, so that threads read the same elements; and if there is a loop around those, run one
//! iteration after another in steps of more than 1, over a dimension that the input has. Of such
//! loops the innermost one has a part of the input for each iteration, if it has room.

use super::super::dag::{Dag, Dim, NodeId};
use super::super::outline::{LoopNumber, NUMBER_BYTES};
use super::super::schedule::Run;
use super::address::{GROUP_MAX, strides_of};
use super::emitter::{Emitter, Extent, Staged};
use super::mapping::{Mapping, Place, SHARED_BYTES_MAX};

/// Neighbours that are written across rows lie so many numbers further, in different banks.
const PADDING: u64 = 4;

/// Returns what the kernel of a root item stages.
pub(super) fn staged(dag: &Dag, mapping: &Mapping, root: usize) -> Vec<Staged> {
    let mut bytes: u64 = (0..mapping.places.len())
        .filter(|&leaf| mapping.roots[leaf] == root && mapping.places[leaf].0 == Place::Shared)
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
    all
}

fn stage(dag: &Dag, mapping: &Mapping, leaf: usize, node: NodeId) -> Option<Staged> {
    let path = &mapping.outline.leaves[leaf].path;
    let dims = dag.node(node).dims;
    let is_block = |&number: &LoopNumber| mapping.runs[number] == Run::Block;
    let first = path.iter().position(is_block)?;
    let lacks = |number: &LoopNumber| !dims.has(mapping.facts(*number).dim);
    path.iter().filter(|number| is_block(number)).find(|number| lacks(number))?;
    let is_part = |&number: &LoopNumber| {
        let facts = mapping.facts(number);
        mapping.runs[number] == Run::Serial && facts.step > 1 && dims.has(facts.dim)
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
    Some(Staged { leaf, node, at: path[depth], axes, extents, distances, places })
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

impl Emitter<'_> {
    /// Declares what is staged.
    pub(super) fn declare_staged(&mut self) {
        for staged in self.staged.clone() {
            let (name, places) =
                (Staged::name(staged.leaf, self.input(staged.node)), staged.places);
            self.lines.put(&format!("__shared__ __align__(16) float {name}[{places}];"));
        }
    }

    /// Copies the parts of inputs for one iteration of a loop.
    pub(super) fn fill(&mut self, number: LoopNumber) {
        let parts = self.staged.iter().filter(|staged| staged.at == number).cloned();
        let parts = parts.collect::<Vec<_>>();
        if parts.is_empty() {
            return;
        }
        self.lines.put("__syncthreads();");
        for part in &parts {
            self.copy(part);
        }
        self.lines.put("__syncthreads();");
    }

    /// How far one iteration of the loops around goes in a dimension.
    fn covered_by(&self, path: &[LoopNumber], dim: Dim) -> Extent {
        let same = path.iter().rev().find(|&&number| self.mapping.facts(number).dim == dim);
        same.map_or_else(|| Extent::Known(self.dag.size(dim)), |&at| self.covered[at].clone())
    }

    fn copy(&mut self, part: &Staged) {
        let Staged { leaf, node, at, axes, extents, distances, .. } = part;
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
        let last = extents.len() - 1;
        let groups = extents.iter().product::<u64>() / group;
        let threads = self.mapping.launches[self.root].threads;
        let turns = groups.div_ceil(threads);
        self.lines.put("#pragma unroll");
        self.lines.open(&format!("for (int turn = 0; turn < {turns}; ++turn)"));
        self.lines.put(&format!("const int i = turn * {threads} + thread;"));
        let mut checks = Vec::new();
        if !groups.is_multiple_of(threads) {
            checks.push(format!("i < {groups}"));
        }
        let mut behind = 1;
        for axis in (0..=last).rev() {
            let (width, each) =
                if axis == last { (extents[axis] / group, group) } else { (extents[axis], 1) };
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
        let name = Staged::name(*leaf, self.input(*node));
        let to = format!("{name}[{}", sum(distances));
        let from = format!("{}[{} + {}]", start.base, start.place, sum(&strides));
        if !checks.is_empty() {
            self.lines.open(&format!("if ({})", checks.join(" && ")));
        }
        if group == 1 {
            self.lines.put(&format!("{to}] = {from};"));
        } else {
            self.lines.put("float group[4];");
            self.lines.put(&format!("load4(group, &{from});"));
            if distances[last] == 1 {
                self.lines.put(&format!("store4(&{to}], group);"));
            } else {
                self.lines.put("#pragma unroll");
                let distance = distances[last];
                self.lines.put(&format!(
                    "for (int l = 0; l < 4; ++l) {to} + l * {distance}] = group[l];"
                ));
            }
        }
        self.lines.close(1 + usize::from(!checks.is_empty()));
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
