//! Edges on their way into partitions.

use std::sync::Arc;

use super::plan::Plan;
use crate::store::{Edge, EdgeShape, Lake, Scratch, StoreError, Stretch, absorb};

/// The edges of one thread by partition. A partition is a range of the first bits of the state before,
/// so partitions are in the order of edges. What does not fit goes to a temporary file.
pub(super) struct Scatter<'a> {
    lake: &'a Lake,
    plan: Plan,
    stride: usize,
    partitions: Vec<Gathered>,
    recent: Vec<u64>,
    scratch: Option<Scratch>,
}

#[derive(Default)]
struct Gathered {
    rows: Vec<u64>,
    written: Vec<Stretch>,
    /// Edges that were put here, whether in memory or written.
    edges: u64,
}

/// A partition of all threads.
#[derive(Default)]
pub(super) struct Partition {
    pub(super) rows: Vec<Vec<u64>>,
    pub(super) written: Vec<(Arc<Scratch>, Stretch)>,
    pub(super) edges: u64,
}

impl<'a> Scatter<'a> {
    pub(super) fn new(lake: &'a Lake, plan: Plan, shape: EdgeShape) -> Self {
        let partitions = (0..plan.partitions()).map(|_| Gathered::default()).collect();
        let recent = vec![u64::MAX; plan.recent_slots];
        Self { lake, plan, stride: shape.words(), partitions, recent, scratch: None }
    }

    /// Adds an edge.
    ///
    /// Many edges come again soon: the table of those seen lately leads to most of them, so that they
    /// are counted where they lie. A slot has the upper half of a hash and the edge's number in its
    /// partition; what lies there by now is looked at, so a slot may well be out of date.
    #[inline]
    pub(super) fn add(&mut self, row: &[u64]) -> Result<(), StoreError> {
        let place = self.plan.partition_of(row[0]);
        let partition = &mut self.partitions[place];
        let hash = Edge(row).hash();
        let slots_mask = self.plan.recent_slots as u64 - 1;
        let slot = usize::try_from(hash & slots_mask).expect("a slot is a place in memory");
        let known = self.recent[slot];
        let tag = hash >> 32 << 32;
        if known & !0xffff_ffff == tag {
            let start = usize::try_from(known & 0xffff_ffff).expect("32 bits") * self.stride;
            if let Some(there) = partition.rows.get_mut(start..start + self.stride)
                && Edge(there).is_same(Edge(row))
            {
                absorb(there, row);
                return Ok(());
            }
        }
        if partition.rows.len() + self.stride > self.plan.buffer_words_max {
            let scratch = match &mut self.scratch {
                Some(scratch) => scratch,
                none => none.insert(Scratch::create(self.lake)?),
            };
            partition.written.push(scratch.append(&partition.rows)?);
            partition.rows.clear();
        }
        if partition.rows.len() == partition.rows.capacity() {
            let more = partition.rows.capacity().max(16 * self.stride);
            let room = self.plan.buffer_words_max.max(self.stride) - partition.rows.len();
            partition.rows.reserve_exact(more.min(room));
        }
        let number = partition.rows.len() / self.stride;
        self.recent[slot] = tag | u64::try_from(number).unwrap_or(u64::MAX).min(0xffff_ffff);
        partition.rows.extend_from_slice(row);
        partition.edges += 1;
        Ok(())
    }

    /// Puts the partitions of all threads together.
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
