//! The sum of edges, by which tables are compared with steps without sorting either.

use std::ops::ControlFlow;

use super::failed_episodes::FailedEpisodes;
use super::steps::{EdgeSink, StepSource};
use crate::kernel::progress::{Thread, demand, in_threads};
use crate::kernel::{LakeError, Segment, Snapshot};
use crate::layers::Edge;

/// A sum over edges. It is the same for all steps one by one and for the edges that they make, in
/// any order: an edge that stands for so many steps adds as much as they.
///
/// Of two sets of steps with equal sums, each edge has the same count and the same time in both,
/// but for a chance of about 2^-64: each adds its count and its time, multiplied by a hash of its
/// key.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EdgeSum {
    /// How many times something was added.
    edges: u64,
    /// Steps, and failed starts.
    count: u64,
    hashed_count: u64,
    hashed_time: u64,
}

impl EdgeSum {
    /// Adds an edge.
    #[inline]
    pub(super) fn add(&mut self, row: &[u64]) {
        let edge = Edge(row);
        let (hash, count) = (edge.key_hash(), edge.count().cast_unsigned());
        let time = edge.wall_time_us().cast_unsigned();
        self.edges += 1;
        self.count = self.count.wrapping_add(count);
        self.hashed_count = self.hashed_count.wrapping_add(count.wrapping_mul(hash));
        self.hashed_time = self.hashed_time.wrapping_add(time.wrapping_mul(hash));
    }

    fn add_all(mut self, other: Self) -> Self {
        self.edges += other.edges;
        self.count = self.count.wrapping_add(other.count);
        self.hashed_count = self.hashed_count.wrapping_add(other.hashed_count);
        self.hashed_time = self.hashed_time.wrapping_add(other.hashed_time);
        self
    }

    /// How many times something was added.
    pub(super) fn edges(&self) -> u64 {
        self.edges
    }

    /// Compares the sum of tables with that of the steps that they should count. The error says how
    /// they differ.
    pub(super) fn demand_equal(&self, steps: &Self) -> Result<(), String> {
        if self.count != steps.count {
            return Err(format!(
                "they count {} steps, and the lake has {}",
                self.count, steps.count
            ));
        }
        if self.hashed_count != steps.hashed_count {
            return Err("they count as many steps as the lake has, but others".to_owned());
        }
        if self.hashed_time != steps.hashed_time {
            return Err("they have other wall times than the steps of the lake".to_owned());
        }
        Ok(())
    }
}

impl EdgeSink for EdgeSum {
    #[inline]
    fn take(&mut self, row: &[u64]) -> Result<(), LakeError> {
        self.add(row);
        Ok(())
    }
}

/// Adds up the edges of segments of `steps`. Also returns the number of steps with an action. Calls
/// `progress` with the rows read.
pub(super) fn sum_of_steps(
    snapshot: &Snapshot,
    segments: &[Segment],
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(EdgeSum, u64), LakeError> {
    let retracted = snapshot.retracted_actions();
    let mut go_on = || demand(progress(0));
    let failed = FailedEpisodes::read(snapshot, segments, &mut go_on)?;
    let steps = StepSource::new(snapshot, segments, &retracted, &failed, &mut go_on)?;
    let work = |(), thread: &Thread<'_>| {
        let mut sum = EdgeSum::default();
        let count = steps.read(&mut sum, thread)?;
        Ok::<_, LakeError>((sum, count))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut done = 0;
    let sums = in_threads(vec![(); threads], work, &mut |rows| {
        done += rows;
        progress(done)
    })?;
    Ok(sums.into_iter().fold((EdgeSum::default(), 0), |(all, steps), (sum, count)| {
        (all.add_all(sum), steps + count)
    }))
}
