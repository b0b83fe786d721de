//! Where a kernel has its values.

use super::super::dag::{Dag, NodeId, Operation};
use super::super::outline::{NUMBER_BYTES, Outline};
use super::super::storage::Storage;

/// The most places of an array on the stack.
const LOCAL_PLACES_MAX: u64 = 1 << 10;

/// The alignment of arrays, in bytes.
pub(super) const ALIGNMENT: u64 = 64;

/// Where the value of a leaf is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CpuLocation {
    /// In the array with this number.
    Array(usize),
    /// In the memory of each thread, at this byte.
    Private(u64),
    /// On the stack.
    Local,
    /// In a register: all its uses are in the leaf's own loops.
    Register,
}

/// Where a reduction is accumulated that has a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tile {
    /// On the stack, so many places.
    Local(u64),
    /// In the memory of each thread, at this byte.
    Private(u64),
}

/// What is in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrayContent {
    Input,
    PositiveInput,
    Output,
    /// A value between nests.
    Temporary,
}

impl ArrayContent {
    /// The number of the kind in the table.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Input => 0,
            Self::PositiveInput => 1,
            Self::Output => 2,
            Self::Temporary => 3,
        }
    }
}

/// The places of all values.
#[derive(Debug)]
pub(super) struct CpuLocations {
    /// The arrays: the inputs, the outputs in the program's order, and values between nests.
    pub(super) arrays: Vec<(ArrayContent, u64)>,
    /// Where the value of each leaf is, and how.
    pub(super) of_leaves: Vec<(CpuLocation, Storage)>,
    /// The tile of each leaf that has one.
    pub(super) tiles: Vec<Option<Tile>>,
    /// The bytes of each thread's memory.
    pub(super) private_bytes: u64,
}

impl CpuLocations {
    pub(super) fn new(dag: &Dag, outline: &Outline) -> Self {
        let content = |node: NodeId| match dag.node(node).operation {
            Operation::Input { is_positive: true, .. } => ArrayContent::PositiveInput,
            Operation::Input { .. } => ArrayContent::Input,
            _ => ArrayContent::Output,
        };
        let outputs = dag.outputs().iter().map(|output| output.node);
        let given = dag.inputs().chain(outputs.clone());
        let mut arrays = given.map(|id| (content(id), dag.elements(id))).collect::<Vec<_>>();
        let (mut of_leaves, mut private_bytes) = (Vec::new(), 0);
        let mut tiles = Vec::new();
        for leaf in &outline.leaves {
            let tile = outline.cached(dag, leaf).map(|cached| {
                let tile = outline.tile(dag, leaf, cached);
                tile.iter().map(|&number| outline.loops[number].extent()).product::<u64>()
            });
            tiles.push(tile.map(|places| match private(places, &mut private_bytes) {
                Some(at) => Tile::Private(at),
                None => Tile::Local(places),
            }));
            let storage = Storage::of(outline, dag, leaf);
            let is_reduction = matches!(dag.node(leaf.node).operation, Operation::Reduce(..));
            let output = outputs.clone().position(|node| node == leaf.node);
            let place = if let Some(output) = output {
                CpuLocation::Array(dag.inputs().count() + output)
            } else if storage.shared == 0 {
                arrays.push((ArrayContent::Temporary, storage.places()));
                CpuLocation::Array(arrays.len() - 1)
            } else if storage.axes.is_empty() && !is_reduction {
                CpuLocation::Register
            } else {
                private(storage.places(), &mut private_bytes)
                    .map_or(CpuLocation::Local, CpuLocation::Private)
            };
            of_leaves.push((place, storage));
        }
        Self { arrays, of_leaves, tiles, private_bytes }
    }
}

/// Reserves memory of each thread for what is too large for the stack. Returns its first byte.
fn private(places: u64, bytes: &mut u64) -> Option<u64> {
    let at = *bytes;
    if places <= LOCAL_PLACES_MAX {
        return None;
    }
    *bytes += (places * NUMBER_BYTES).next_multiple_of(ALIGNMENT);
    Some(at)
}

/// A value in a register, of one lane or of all lanes of the vector loop.
#[derive(Debug, Clone)]
pub(super) struct Register {
    pub(super) name: String,
    pub(super) lanes: u64,
}

/// A place in memory.
#[derive(Debug)]
pub(super) struct VectorAddress {
    pub(super) pointer: String,
    /// The distance from lane to lane.
    pub(super) stride: u64,
    /// A power of 2 that divides it, in bytes.
    pub(super) alignment: u64,
}
