//! Occupancy: how many of the warps that a multiprocessor can have at once have room there.
//!
//! The limits are those of compute capability 9.0 (H100; CUDA C++ Programming Guide, *Technical
//! Specifications per Compute Capability*). What a kernel needs of registers is known only when it
//! has been compiled, so without that it is an estimate.

use super::emitter::{Emitter, REGISTER_PLACES_MAX};
use super::mapping::GpuLocation;
use crate::schedule::LoopKind;

/// The threads of a warp.
const WARP_THREADS: u64 = 32;

/// The most warps and the most blocks of a multiprocessor.
const WARPS_MAX: u64 = 64;
const BLOCKS_MAX: u64 = 32;

/// The registers of a multiprocessor, the most of a thread, and how many a warp is given at a time.
const REGISTERS: u64 = 1 << 16;
const THREAD_REGISTERS_MAX: u64 = 255;
const REGISTERS_AT_A_TIME: u64 = 256;

/// The parts of a multiprocessor, each of which has its warps and their registers.
const QUARTERS: u64 = 4;

/// The bytes of shared memory of a multiprocessor, and how many a block is given at a time.
const SHARED_BYTES: u64 = 228 << 10;
const SHARED_AT_A_TIME: u64 = 128;

/// What the system takes of them for each block.
pub const SYSTEM_BYTES: u64 = 1 << 10;

/// The registers of any thread: addresses, positions and what else is not the program's.
const THREAD_REGISTERS_MIN: u64 = 20;

/// What a block of a kernel needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockNeeds {
    /// The number of threads.
    pub threads: u64,
    /// The registers of each thread.
    pub registers: u64,
    /// The bytes of shared memory, without those that the [system takes](SYSTEM_BYTES).
    pub shared_bytes: u64,
}

impl BlockNeeds {
    /// The *theoretical occupancy*: the part of a multiprocessor's 64 warps that have room at once.
    /// It does not depend on the number of blocks of the grid.
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    pub fn occupancy(self) -> f64 {
        let warps = self.threads.div_ceil(WARP_THREADS).max(1);
        let of_warp = (self.registers.max(1) * WARP_THREADS).next_multiple_of(REGISTERS_AT_A_TIME);
        // Each quarter of the multiprocessor has its own registers.
        let by_registers = REGISTERS / QUARTERS / of_warp * QUARTERS / warps;
        let shared_bytes = (self.shared_bytes + SYSTEM_BYTES).next_multiple_of(SHARED_AT_A_TIME);
        let by_memory = SHARED_BYTES / shared_bytes;
        let blocks = BLOCKS_MAX.min(WARPS_MAX / warps).min(by_registers).min(by_memory);
        (blocks * warps) as f64 / WARPS_MAX as f64
    }
}

impl Emitter<'_> {
    /// What a block of the kernel needs, its registers by an estimate: the tiles and arrays that a
    /// thread has for itself, its share of what is copied for the next iteration, and a vector for
    /// each operand.
    pub(super) fn needs(&self) -> BlockNeeds {
        let (outline, places) = (&self.mapping.outline, &self.mapping.places);
        let own = (0..places.len()).filter(|&leaf| self.mapping.roots[leaf] == self.root);
        let own = own.collect::<Vec<_>>();
        let held = |count: u64| if count <= REGISTER_PLACES_MAX { count } else { 0 };
        let tile = |&leaf: &usize| {
            let facts = &outline.leaves[leaf];
            let cached = outline.cached(self.dag, facts);
            let tile = cached.map(|cached| outline.tile(self.dag, facts, cached));
            tile.map_or(0, |tile| held(self.tile_places(&tile)))
        };
        let array = |&leaf: &usize| match &places[leaf] {
            (GpuLocation::Thread, storage) if !storage.axes.is_empty() => held(storage.places()),
            _ => 0,
        };
        let vectors = |&leaf: &usize| {
            let facts = &outline.leaves[leaf];
            let operands = self.dag.node(facts.node).operands().count() as u64;
            operands * outline.product(facts, LoopKind::Vector)
        };
        let registers = THREAD_REGISTERS_MIN
            + own.iter().map(tile).sum::<u64>()
            + own.iter().map(array).sum::<u64>()
            + own.iter().map(vectors).max().unwrap_or(0)
            + self.staged.iter().map(|part| self.held_places(part)).sum::<u64>();
        let threads = self.mapping.launches[self.root].threads;
        // The compiler is told the number of threads, and has one block fit.
        let of_all = threads.next_multiple_of(QUARTERS * WARP_THREADS);
        let most = THREAD_REGISTERS_MAX.min(REGISTERS / of_all / 8 * 8);
        BlockNeeds { threads, registers: registers.min(most), shared_bytes: self.shared_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::BlockNeeds;

    #[test]
    fn occupancy_is_that_of_nvidias_calculator() {
        // Threads, registers, bytes: warps of 64.
        let known = [
            (256, 32, 0, 64),
            (256, 126, 16_640, 16),
            (256, 173, 33_280, 8),
            (512, 80, 33_280, 16),
            (128, 154, 25_088, 12),
            (1024, 64, 0, 32),
            (32, 255, 0, 8),
            (1, 16, 0, 32),
            (96, 40, 100 << 10, 6),
            (32, 100, 0, 16),
            (32, 173, 0, 8),
            (512, 128, 0, 16),
        ];
        for (threads, registers, shared_bytes, warps) in known {
            let needs = BlockNeeds { threads, registers, shared_bytes };
            let found = needs.occupancy() * 64.0;
            assert!((found - f64::from(warps)).abs() < 1e-9, "{needs:?}: {found}");
        }
    }
}
