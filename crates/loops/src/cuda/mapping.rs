//! How a schedule is dealt to a GPU: what each loop becomes, and where each value lives.
//!
//! # Blocks and threads
//!
//! The blocks that run a nest have one number each, and so have the threads of a block. A loop that
//! is mapped takes its position from that number: the number over the *width* of the mapped loops
//! within, the widest of which counts, and what remains goes to those. So a thread has the same
//! position of a loop wherever it is in the loop's body, and the innermost mapped loop goes over
//! neighbours.
//!
//! A leaf in fewer mapped loops than there are is run by all threads that are left. If its value is
//! a thread's own, each computes it for itself; otherwise the first of them alone does.
//!
//! # Loops that are run one after another after all
//!
//! Blocks cannot wait for each other, and threads only outside of the loops that are dealt to them.
//! Where a value would have to go from one to another in spite of that, or would not have room,
//! loops lose their mark until it need not: the code is right and slow.

use super::super::dag::Dag;
use super::super::outline::{LeafFacts, LoopFacts, LoopNumber, NUMBER_BYTES, Outline};
use super::super::schedule::{BodyItem, LoopKind};
use super::super::state::LoopsState;
use super::super::storage::Storage;

/// The most numbers of an array that is a thread's own.
const LOCAL_PLACES_MAX: u64 = 1024;

/// The bytes of shared memory that any block can have.
pub(super) const SHARED_BYTES_MAX: u64 = 48 << 10;

/// The part of them for values between nodes; what remains is for operands.
const SHARED_VALUE_BYTES_MAX: u64 = 16 << 10;

/// The most bytes of all values between nodes that are in the memory of the device.
const SCRATCH_BYTES_MAX: u64 = 2 << 30;

/// The most blocks of a kernel.
const BLOCKS_MAX: u64 = (1 << 31) - 1;

/// Arrays in the memory of the device begin at multiples of so many numbers.
const ALIGNMENT: u64 = 64;

/// Where a value lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GpuLocation {
    /// In the caller's array of the output with this number.
    Output(usize),
    /// In the memory of the device, from this number on, for all blocks.
    Device(u64),
    /// The same, with so many numbers for each block.
    DeviceOfBlock(u64, u64),
    /// In the shared memory of a block.
    Shared,
    /// In registers or an array of a thread.
    Thread,
}

impl GpuLocation {
    /// Whether all blocks see it.
    pub(super) fn is_of_device(self) -> bool {
        matches!(self, Self::Output(_) | Self::Device(_))
    }
}

/// A root item of a schedule, which is a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Launch {
    /// The number of blocks.
    pub(super) blocks: u64,
    /// The number of threads of each block.
    pub(super) threads: u64,
}

/// A schedule as it is dealt to a GPU.
#[derive(Debug)]
pub(super) struct Mapping {
    /// The schedule laid out flat.
    pub(super) outline: Outline,
    /// How each loop is run on the GPU.
    pub(super) runs: Vec<LoopKind>,
    /// The number of blocks, or of threads, for one iteration of a mapped loop.
    pub(super) within: Vec<u64>,
    /// The kernels, one for each root item.
    pub(super) launches: Vec<Launch>,
    /// The root item of each leaf.
    pub(super) roots: Vec<usize>,
    /// Where the value of each leaf lives.
    pub(super) places: Vec<(GpuLocation, Storage)>,
    /// The numbers in the memory of the device between nodes.
    pub(super) scratch_places: u64,
}

/// Returns the number of leaves in an item.
pub(super) fn leaves_in(item: &BodyItem) -> usize {
    match item {
        BodyItem::Leaf(_) => 1,
        BodyItem::Loop(inner) => inner.body.iter().map(leaves_in).sum(),
    }
}

impl Mapping {
    /// Deals the schedule of a state.
    pub(super) fn of(state: &LoopsState) -> Self {
        let (outline, dag) = (state.outline(), &*state.dag);
        let items = state.schedule.0.iter().enumerate();
        let roots = items.flat_map(|(root, item)| std::iter::repeat_n(root, leaves_in(item)));
        let of_leaf = |leaf| (GpuLocation::Thread, Storage::of(&outline, dag, leaf));
        let mut mapping = Self {
            runs: outline.loops.iter().map(|facts| facts.run).collect(),
            within: vec![1; outline.loops.len()],
            launches: vec![Launch { blocks: 1, threads: 1 }; state.schedule.0.len()],
            roots: roots.collect(),
            places: outline.leaves.iter().map(of_leaf).collect(),
            scratch_places: 0,
            outline,
        };
        loop {
            mapping.measure();
            let conflict = mapping.too_many_blocks().or_else(|| mapping.conflict(dag));
            let Some(number) = conflict.or_else(|| mapping.put(dag).err()) else { return mapping };
            mapping.runs[number] = match mapping.runs[number] {
                LoopKind::Parallel => LoopKind::Grid,
                _ => LoopKind::Serial,
            };
        }
    }

    /// The loops around a loop, innermost first.
    fn around(&self, number: LoopNumber) -> impl Iterator<Item = LoopNumber> + '_ {
        let parent = |&at: &LoopNumber| self.outline.loops[at].parent;
        std::iter::successors(self.outline.loops[number].parent, parent)
    }

    /// Computes the widths, and the blocks and threads of the kernels.
    fn measure(&mut self) {
        self.within.fill(1);
        self.launches.fill(Launch { blocks: 1, threads: 1 });
        for number in (0..self.runs.len()).rev() {
            let (run, extent) = (self.runs[number], self.outline.loops[number].extent());
            let width = extent.saturating_mul(self.within[number]);
            let outer = self.around(number).find(|&outer| self.runs[outer] == run);
            let root = self.root_of(number);
            let launch = &mut self.launches[root];
            match (run, outer) {
                (LoopKind::Grid | LoopKind::Block, Some(outer)) => {
                    self.within[outer] = width.max(self.within[outer]);
                }
                (LoopKind::Grid, None) => launch.blocks = width.max(launch.blocks),
                (LoopKind::Block, None) => launch.threads = width.max(launch.threads),
                (LoopKind::Parallel, _) => {
                    launch.threads = threads_of(extent);
                    launch.blocks = extent.div_ceil(launch.threads);
                }
                _ => {}
            }
        }
    }

    fn root_of(&self, number: LoopNumber) -> usize {
        let leaf = self.outline.leaves.iter().position(|leaf| leaf.path.contains(&number));
        self.roots[leaf.expect("a loop has a leaf")]
    }

    /// The innermost loop of a path that is run in one of some ways.
    pub(super) fn innermost(&self, path: &[LoopNumber], runs: &[LoopKind]) -> Option<LoopNumber> {
        path.iter().rev().copied().find(|&number| runs.contains(&self.runs[number]))
    }

    /// A loop that is run in a way within another one.
    fn nested(&self, outer: LoopNumber, run: LoopKind) -> Option<LoopNumber> {
        let is_nested = |number: &LoopNumber| self.around(*number).any(|at| at == outer);
        (outer + 1..self.runs.len()).find(|number| self.runs[*number] == run && is_nested(number))
    }

    fn too_many_blocks(&self) -> Option<LoopNumber> {
        let root = self.launches.iter().position(|launch| launch.blocks > BLOCKS_MAX)?;
        let is_of_root = |&number: &LoopNumber| self.root_of(number) == root;
        (0..self.runs.len()).rev().filter(|&at| self.runs[at] == LoopKind::Grid).find(is_of_root)
    }

    /// Whether a value is for all blocks: an output, or used by another kernel.
    fn is_of_device(&self, leaf: usize) -> bool {
        self.places[leaf].1.is_output || self.places[leaf].1.shared == 0
    }

    /// Whether each thread can have a value of its own: no other thread computes a part of it.
    fn is_of_thread(&self, leaf: usize) -> bool {
        let (storage, path) = (&self.places[leaf].1, &self.outline.leaves[leaf].path);
        let is_dealt = self.innermost(&path[storage.shared..], &[LoopKind::Block]).is_some();
        !self.is_of_device(leaf) && !is_dealt && storage.places() <= LOCAL_PLACES_MAX
    }

    /// The uses of a leaf in its own kernel, each with the number of loops that both share.
    pub(super) fn uses<'a>(
        &'a self,
        dag: &'a Dag,
        leaf: usize,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let made = &self.outline.leaves[leaf];
        let users = self.outline.leaves.iter().enumerate();
        let uses = move |user: &LeafFacts| dag.node(user.node).operands().any(|id| id == made.node);
        let users = users.filter(move |(_, user)| uses(user));
        let users = users.filter(move |(place, _)| self.roots[*place] == self.roots[leaf]);
        users.map(move |(place, user)| (place, Outline::shared(made, user)))
    }

    /// A loop that keeps a value from where it is used.
    fn conflict(&self, dag: &Dag) -> Option<LoopNumber> {
        for (place, leaf) in self.outline.leaves.iter().enumerate() {
            for (_, shared) in self.uses(dag, place) {
                let (around, own) = leaf.path.split_at(shared);
                if let Some(grid) = self.innermost(own, &[LoopKind::Grid]) {
                    return Some(grid);
                }
                let nested = |run: LoopKind| {
                    let innermost = self.innermost(around, &[run]);
                    innermost.and_then(|outer| self.nested(outer, run))
                };
                let among_blocks =
                    self.is_of_device(place).then(|| nested(LoopKind::Grid)).flatten();
                let among_threads =
                    (!self.is_of_thread(place)).then(|| nested(LoopKind::Block)).flatten();
                if let Some(number) = among_blocks.or(among_threads) {
                    return Some(number);
                }
            }
        }
        None
    }

    /// Puts each value into a place, or returns a loop that makes too many of one.
    fn put(&mut self, dag: &Dag) -> Result<(), LoopNumber> {
        self.scratch_places = 0;
        let mut shared_bytes = vec![0; self.launches.len()];
        for leaf in 0..self.places.len() {
            let path = &self.outline.leaves[leaf].path;
            let storage = &self.places[leaf].1;
            let places = storage.places();
            let aligned = places.next_multiple_of(ALIGNMENT);
            let output = dag.outputs().iter().position(|output| output.node == storage.node);
            let place = if let Some(output) = output {
                GpuLocation::Output(output)
            } else if self.is_of_device(leaf) {
                let place = GpuLocation::Device(self.scratch_places);
                self.scratch_places += aligned;
                place
            } else if self.is_of_thread(leaf) {
                GpuLocation::Thread
            } else {
                let threads = [LoopKind::Block, LoopKind::Parallel];
                if let Some(dealt) = self.innermost(&path[..storage.shared], &threads) {
                    return Err(dealt);
                }
                let used = &mut shared_bytes[self.roots[leaf]];
                let bytes = aligned * NUMBER_BYTES;
                if *used + bytes <= SHARED_VALUE_BYTES_MAX {
                    *used += bytes;
                    GpuLocation::Shared
                } else {
                    let place = GpuLocation::DeviceOfBlock(self.scratch_places, aligned);
                    let blocks = self.launches[self.roots[leaf]].blocks;
                    let all = aligned.saturating_mul(blocks);
                    self.scratch_places = self.scratch_places.saturating_add(all);
                    place
                }
            };
            if self.scratch_places.saturating_mul(NUMBER_BYTES) > SCRATCH_BYTES_MAX
                && let Some(grid) = self.innermost(path, &[LoopKind::Grid])
            {
                return Err(grid);
            }
            self.places[leaf].0 = place;
        }
        Ok(())
    }

    /// The facts of a loop.
    pub(super) fn facts(&self, number: LoopNumber) -> &LoopFacts {
        &self.outline.loops[number]
    }
}

/// The threads of a block of a parallel loop: as many as there is work for, with blocks for most of
/// the processors first.
fn threads_of(extent: u64) -> u64 {
    let full = if extent < 1 << 15 { 32 } else { 128 };
    full.min(extent)
}
