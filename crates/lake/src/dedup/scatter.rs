//! Edges on their way into partitions.

use std::sync::Arc;

use super::plan::Plan;
use crate::kernel::{Lake, LakeError};
use crate::layers::{Edge, Scratch, WordRange, absorb};

/// One thread's edges by partition. A partition is a range of the first bits of the state before,
/// so partitions are in the order of edges. What does not fit in memory goes to a temporary file.
pub(super) struct Scatter<'a> {
    lake: &'a Lake,
    plan: Plan,
    partitions: Vec<PartitionBuffer>,
    recent: Vec<u64>,
    scratch: Option<Scratch>,
}

#[derive(Default)]
struct PartitionBuffer {
    rows: Vec<u64>,
    written: Vec<WordRange>,
    /// Edges that were added here, whether in memory or written.
    edges: u64,
}

/// A partition with the edges of all threads.
#[derive(Default)]
pub(super) struct Partition {
    pub(super) rows: Vec<Vec<u64>>,
    pub(super) written: Vec<(Arc<Scratch>, WordRange)>,
    pub(super) edges: u64,
}

impl<'a> Scatter<'a> {
    pub(super) fn new(lake: &'a Lake, plan: Plan) -> Self {
        let partitions = (0..plan.partitions()).map(|_| PartitionBuffer::default()).collect();
        let recent = vec![u64::MAX; plan.recent_slots];
        Self { lake, plan, partitions, recent, scratch: None }
    }

    /// Adds an edge.
    ///
    /// Many edges soon come again. The table of recent edges leads to most of them, so that they
    /// are counted in place. A slot holds the upper half of a hash and the edge's number in its
    /// partition. Slots may be out of date, so the edge found there is compared.
    #[inline]
    pub(super) fn add(&mut self, row: &[u64]) -> Result<(), LakeError> {
        let place = self.plan.partition_of(row[0]);
        let partition = &mut self.partitions[place];
        let (slot, tag) = self.plan.slot(Edge(row));
        let known = self.recent[slot];
        if known & !0xffff_ffff == tag {
            let start = usize::try_from(known & 0xffff_ffff).expect("32 bits") * self.plan.stride;
            if let Some(there) = partition.rows.get_mut(start..start + self.plan.stride)
                && Edge(there).is_same(Edge(row))
            {
                absorb(there, row);
                return Ok(());
            }
        }
        if partition.rows.len() + self.plan.stride > self.plan.buffer_words_max {
            self.write_out(place)?;
        }
        let partition = &mut self.partitions[place];
        if partition.rows.len() == partition.rows.capacity() {
            let more = partition.rows.capacity().max(16 * self.plan.stride);
            let room = self.plan.buffer_words_max.max(self.plan.stride) - partition.rows.len();
            partition.rows.reserve_exact(more.min(room));
        }
        let number = partition.rows.len() / self.plan.stride;
        self.recent[slot] = tag | u64::try_from(number).unwrap_or(u64::MAX).min(0xffff_ffff);
        partition.rows.extend_from_slice(row);
        partition.edges += 1;
        Ok(())
    }

    /// Makes room in a partition. Edges that came again while they lay here will do so again, so
    /// they stay, unless they take more than half of the room.
    #[cold]
    fn write_out(&mut self, place: usize) -> Result<(), LakeError> {
        let scratch = match &mut self.scratch {
            Some(scratch) => scratch,
            none => none.insert(Scratch::create(self.lake)?),
        };
        let partition = &mut self.partitions[place];
        let (stride, rows) = (self.plan.stride, &mut partition.rows);
        // Moves the edges that stay behind the others.
        let (mut once, mut end) = (0, rows.len());
        while once < end {
            if Edge(&rows[once..once + stride]).count() == 1 {
                once += stride;
            } else {
                end -= stride;
                let (front, back) = rows.split_at_mut(end);
                if once < end {
                    front[once..once + stride].swap_with_slice(&mut back[..stride]);
                }
            }
        }
        let written = if once * 2 < rows.len() { rows.len() } else { once };
        partition.written.push(scratch.append(&rows[..written])?);
        rows.drain(..written);
        for (row, number) in rows.chunks_exact(stride).zip(0..) {
            let (slot, tag) = self.plan.slot(Edge(row));
            self.recent[slot] = tag | number;
        }
        Ok(())
    }

    /// Combines the partitions of all threads.
    pub(super) fn gather(scatters: Vec<Self>, plan: &Plan) -> Vec<Partition> {
        let mut all = (0..plan.partitions()).map(|_| Partition::default()).collect::<Vec<_>>();
        for scatter in scatters {
            let scratch = scatter.scratch.map(Arc::new);
            for (partition, gathered) in all.iter_mut().zip(scatter.partitions) {
                partition.edges += gathered.edges;
                partition.rows.push(gathered.rows);
                for stretch in gathered.written {
                    let scratch = scratch.as_ref().expect("something was written to it");
                    partition.written.push((Arc::clone(scratch), stretch));
                }
            }
        }
        all
    }
}
