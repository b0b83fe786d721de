//! Where an element lies: an array, and a sum of positions of loops, each times a number.

use super::super::dag::{Dim, NodeId};
use super::super::outline::LoopNumber;
use super::emitter::{Emitter, GpuPosition, Staged};
use super::mapping::GpuLocation;

/// The most numbers that are moved at once.
pub(super) const GROUP_MAX: u64 = 4;

/// The place of an element, or of those of all lanes.
#[derive(Debug, Clone)]
pub(super) struct GpuAddress {
    /// The array.
    pub(super) base: String,
    /// The place of the first lane's element.
    pub(super) place: String,
    /// The distance from one lane to the next; 0 without lanes.
    pub(super) stride: u64,
    /// What the place is a multiple of: 1, 2 or 4.
    pub(super) alignment: u64,
}

impl GpuAddress {
    /// The element of a lane.
    pub(super) fn lane(&self, lane: &str) -> String {
        let Self { base, place, stride, .. } = self;
        match stride {
            0 => format!("{base}[{place}]"),
            1 => format!("{base}[{place} + {lane}]"),
            _ => format!("{base}[{place} + {lane} * {stride}]"),
        }
    }

    /// The only element.
    pub(super) fn element(&self) -> String {
        self.lane("0")
    }
}

impl Emitter<'_> {
    /// The sum of positions, each times a number.
    pub(super) fn at(&self, base: &str, terms: &[(LoopNumber, u64)]) -> GpuAddress {
        let (mut stride, mut alignment) = (0, GROUP_MAX);
        let mut sum = Vec::new();
        for &(number, factor) in terms {
            match &self.positions[number] {
                GpuPosition::Lane => stride += factor,
                GpuPosition::At(position) => {
                    alignment = alignment.min(1 << factor.trailing_zeros().min(2));
                    sum.push(match factor {
                        1 => position.clone(),
                        _ => format!("{position} * {factor}"),
                    });
                }
            }
        }
        let place = if sum.is_empty() { "0".to_owned() } else { sum.join(" + ") };
        GpuAddress { base: base.to_owned(), place, stride, alignment }
    }

    /// The loops of a path with the distance that one iteration goes, by that of one place of each
    /// dimension.
    pub(super) fn terms(
        &self,
        path: &[LoopNumber],
        strides: &[(Dim, u64)],
    ) -> Vec<(LoopNumber, u64)> {
        let distance = |&number: &LoopNumber| {
            let facts = self.mapping.facts(number);
            let found = strides.iter().find(|(dim, _)| *dim == facts.dim);
            found.map(|&(_, stride)| (number, stride * facts.step))
        };
        path.iter().filter_map(distance).collect()
    }

    /// The element of the value of the leaf `of` that the leaf `user` makes or uses now.
    pub(super) fn address(&self, user: usize, of: usize) -> GpuAddress {
        let (place, storage) = &self.mapping.places[of];
        let path = &self.mapping.outline.leaves[user].path;
        let terms = self.terms(&path[storage.shared..], &storage.strides());
        let base = match place {
            GpuLocation::Output(output) => format!("o{output}"),
            _ => format!("v{of}"),
        };
        self.at(&base, &terms)
    }

    /// The loops whose positions are the indices of what a thread has of a leaf's tile.
    pub(super) fn own_tile(&self, tile: &[LoopNumber]) -> Vec<LoopNumber> {
        tile.iter().copied().filter(|&number| !self.is_dealt(number)).collect()
    }

    /// The number of places that a thread has of a tile.
    pub(super) fn tile_places(&self, tile: &[LoopNumber]) -> u64 {
        let own = self.own_tile(tile);
        own.iter().map(|&number| self.mapping.facts(number).extent()).product()
    }

    /// The element of a leaf's tile.
    pub(super) fn address_in_tile(&self, leaf: usize, tile: &[LoopNumber]) -> GpuAddress {
        let mut stride = 1;
        let mut terms = Vec::new();
        for &number in self.own_tile(tile).iter().rev() {
            terms.push((number, stride));
            stride *= self.mapping.facts(number).extent();
        }
        self.at(&format!("t{leaf}"), &terms)
    }

    /// The number of an input among all of them.
    pub(super) fn input(&self, node: NodeId) -> usize {
        self.dag.inputs().position(|input| input == node).expect("only inputs lie elsewhere")
    }

    /// The element of an input that a leaf reads now.
    pub(super) fn address_of_input(&self, leaf: usize, node: NodeId) -> GpuAddress {
        let path = &self.mapping.outline.leaves[leaf].path;
        if let Some(staged) = self.staged.iter().find(|staged| staged.is_for(leaf, node)) {
            let within = path.iter().position(|&number| number == staged.at);
            let within = within.map_or(0, |at| at + 1);
            let terms = self.terms(&path[within..], &staged.strides());
            return self.at(&Staged::name(leaf, self.input(node)), &terms);
        }
        let strides = strides_of(&self.dag.axes(node), &self.dag.extents(node));
        let terms = self.terms(path, &strides);
        self.at(&format!("a{}", self.input(node)), &terms)
    }
}

/// The distance between neighbours of each dimension in an array, in row-major order.
pub(super) fn strides_of(axes: &[Vec<Dim>], extents: &[u64]) -> Vec<(Dim, u64)> {
    let (mut stride, mut strides) = (1, Vec::new());
    for (axis, extent) in axes.iter().zip(extents).rev() {
        strides.extend(axis.iter().map(|&dim| (dim, stride)));
        stride *= extent;
    }
    strides
}
