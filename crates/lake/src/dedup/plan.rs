//! The division of memory.

use super::options::DedupOptions;
use crate::layers::Edge;

/// Bytes of a word.
const WORD: u64 = 8;
/// Logarithm of the most partitions: each takes a buffer and a piece of a temporary file.
const PARTITION_BITS_MAX: u32 = 10;
/// Bytes of a partition that sort quickly: a few times the second-level cache of a core.
const PARTITION_BYTES: u64 = 8 << 20;
/// Most rows of a partition that are sorted at once: row numbers have 24 bits.
const SORT_ROWS_MAX: u64 = (1 << 24) - 1;
/// Approximate memory of Parquet per thread: pages that are read, row groups that are written.
const PARQUET_BYTES: u64 = 50 << 20;
/// Most slots of the table of recent edges.
const RECENT_SLOTS_MAX: u64 = 1 << 21;

/// Limits for each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// Words of an edge.
    pub(super) stride: usize,
    /// Threads that read steps, and later write ranges of states.
    pub(super) threads: usize,
    /// States are partitioned by this many first bits of their place.
    pub(super) bits: u32,
    /// Words of a partition that a thread buffers before it writes them out.
    pub(super) buffer_words_max: usize,
    /// Most rows of a partition that a thread sorts at once.
    pub(super) sort_rows_max: usize,
    /// Slots of a thread's table of recent edges.
    pub(super) recent_slots: usize,
}

impl Plan {
    /// Plans for at most `edges` new edges.
    ///
    /// Half of the memory holds edges not yet sorted, a quarter edges being sorted. The last
    /// quarter is for Parquet: pages that are read, row groups that are written.
    pub(super) fn new(edges: u64, stride: usize, options: &DedupOptions) -> Self {
        let row_bytes = stride as u64 * WORD;
        let bytes = edges.saturating_mul(row_bytes);
        let memory = options.memory_bytes_max;
        // Edges that fit many times over do not justify a second thread; one thread writes fewer
        // files.
        let threads = if bytes <= memory / 16 { 1 } else { options.threads.get() as u64 };
        let threads = threads.min(memory / 4 / PARQUET_BYTES).max(1);
        let gathered = memory / 2 / threads;
        let wanted = (bytes / PARTITION_BYTES).max(1).next_power_of_two();
        // Small buffers would make small writes.
        let afforded = (gathered / (16 * row_bytes)).max(1);
        let bits = wanted.ilog2().min(afforded.ilog2()).min(PARTITION_BITS_MAX);
        let buffer_rows = (gathered >> bits) / row_bytes;
        let sorted = memory / 4 / threads;
        let recent = edges.next_power_of_two().min(RECENT_SLOTS_MAX).min(gathered / 128);
        Self {
            stride,
            threads: small(threads),
            bits,
            buffer_words_max: small(buffer_rows.max(1)) * stride,
            sort_rows_max: small((sorted / (row_bytes + WORD)).clamp(2, SORT_ROWS_MAX)),
            recent_slots: 1 << small(recent.max(1)).ilog2(),
        }
    }

    pub(super) fn partitions(&self) -> usize {
        1 << self.bits
    }

    /// Returns the smallest place of a partition's states.
    pub(super) fn first_place(&self, partition: usize) -> u64 {
        (partition as u64).checked_shl(u64::BITS - self.bits).unwrap_or(0)
    }

    /// Returns the largest place of a partition's states.
    pub(super) fn last_place(&self, partition: usize) -> u64 {
        self.first_place(partition) | u64::MAX.checked_shr(self.bits).unwrap_or(0)
    }

    /// Returns an edge's slot in the table of recent edges, and its tag there: the upper half of a
    /// word.
    #[inline]
    pub(super) fn slot(&self, edge: Edge<'_>) -> (usize, u64) {
        let hash = edge.hash();
        let slot = hash & (self.recent_slots as u64 - 1);
        (usize::try_from(slot).expect("a slot is a place in memory"), hash >> 32 << 32)
    }

    /// Returns the partition of the edges from the state at this place.
    #[inline]
    pub(super) fn partition_of(&self, place: u64) -> usize {
        let first_bits = place.checked_shr(u64::BITS - self.bits).unwrap_or(0);
        usize::try_from(first_bits).expect("there are few partitions")
    }
}

fn small(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    /// Words of an edge with four rewards.
    const STRIDE: usize = 13;

    fn options(memory_bytes_max: u64) -> DedupOptions {
        let threads = NonZeroUsize::new(2).unwrap();
        DedupOptions { memory_bytes_max, threads, ..DedupOptions::default() }
    }

    #[test]
    fn no_thread_holds_more_than_its_share() {
        for memory in [0, 1, 1000, 1 << 20, 1 << 26, 1 << 30, 1 << 40] {
            for edges in [0, 1, 1000, 1_000_000, 100_000_000, 10_000_000_000] {
                let plan = Plan::new(edges, STRIDE, &options(memory));
                let row = STRIDE as u64 * WORD;
                let gathered = plan.partitions() * plan.buffer_words_max * plan.threads;
                let floor = row * plan.threads as u64;
                assert!(gathered as u64 * WORD <= (memory / 2).max(floor), "{memory} {plan:?}");
                let sorted = plan.sort_rows_max as u64 * (row + WORD) * plan.threads as u64;
                assert!(sorted <= (memory / 4).max(4 * floor), "{memory} {plan:?}");
                assert!(plan.recent_slots as u64 * WORD * plan.threads as u64 <= memory / 16 + 16);
            }
        }
    }

    #[test]
    fn a_hundred_million_steps_are_cut_so_that_each_partition_is_sorted_in_memory() {
        let plan = Plan::new(100_000_000, STRIDE, &options(1 << 30));
        assert!(100_000_000 / plan.partitions() * 2 < plan.sort_rows_max, "{plan:?}");
        assert_eq!(plan.threads, 2);
    }
}
