//! Which rows go into which batch, for any number of ranks.

use std::num::NonZeroU32;
use std::ops::Range;

/// How an order of rows is cut into batches.
///
/// In each round every rank takes one batch, in the order of the ranks: rank 0 has the first
/// `batch_rows` places, rank 1 the next ones, and so on. What is left for the last round does not
/// fill a batch of each rank: it is spread evenly over the ranks, or dropped. So all ranks have
/// equally many batches, each place comes once, and all full rounds together have the same batches
/// in the same order whatever the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPlan {
    /// The number of rows.
    pub rows: u32,
    /// The most rows of a batch.
    pub batch_rows: NonZeroU32,
    /// Whether the last round is left out if it is not full.
    pub drop_last: bool,
    /// The number of processes that take turns.
    pub world_size: NonZeroU32,
}

impl BatchPlan {
    /// The rows of a full round.
    fn round_rows(&self) -> u64 {
        u64::from(self.batch_rows.get()) * u64::from(self.world_size.get())
    }

    /// The number of batches of each rank from a place on: 0 for a whole epoch.
    pub fn rounds(&self, from: u32) -> u64 {
        let rows = u64::from(self.rows.saturating_sub(from));
        if self.drop_last { rows / self.round_rows() } else { rows.div_ceil(self.round_rows()) }
    }

    /// Where a later round begins: so many rounds after the one that begins at `from`.
    pub fn later(&self, from: u32, rounds: u64) -> u32 {
        let whole = |rounds: u64| {
            let later = u64::from(from).saturating_add(rounds.saturating_mul(self.round_rows()));
            u32::try_from(later).unwrap_or(u32::MAX).min(self.rows)
        };
        let last = whole(rounds);
        if rounds > 0 && last < self.rows && self.is_few(self.rows - last) {
            let before = whole(rounds - 1);
            return before + (self.rows - before).div_ceil(2);
        }
        last
    }

    /// Whether so few rows are left that some rank would have none in a round of its own. The last
    /// two rounds then share their rows.
    fn is_few(&self, left: u32) -> bool {
        !self.drop_last && left < self.world_size.get()
    }

    /// The places of a rank's batch in the round that begins at the place `from`, and where the
    /// next round begins; none at the end of the epoch. A rank's batch is empty only if there are
    /// fewer rows than ranks, or batches of one row.
    pub fn batch(&self, from: u32, rank: u32) -> Option<(Range<u32>, u32)> {
        if self.rounds(from) == 0 {
            return None;
        }
        let rows = u64::from(self.later(from, 1) - from);
        let world_size = u64::from(self.world_size.get());
        let place = |rank: u64| {
            let before = rank * rows / world_size;
            from + u32::try_from(before).expect("it is at most the rows that are left")
        };
        let rank = u64::from(rank);
        Some((place(rank)..place(rank + 1), place(world_size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rows: u32, batch_rows: u32, drop_last: bool, world_size: u32) -> BatchPlan {
        let some = |number| NonZeroU32::new(number).unwrap();
        BatchPlan { rows, batch_rows: some(batch_rows), drop_last, world_size: some(world_size) }
    }

    /// The batches of all rounds, each with its rank.
    fn batches(plan: &BatchPlan, mut from: u32) -> Vec<(u32, Range<u32>)> {
        let mut all = Vec::new();
        while plan.batch(from, 0).is_some() {
            let mut next = from;
            for rank in 0..plan.world_size.get() {
                let (batch, end) = plan.batch(from, rank).unwrap();
                all.push((rank, batch));
                next = end;
            }
            from = next;
        }
        all
    }

    #[test]
    fn each_place_comes_once_and_ranks_have_equally_many_batches() {
        for rows in [0, 1, 2, 7, 8, 9, 64, 100] {
            for batch_rows in [1, 3, 8, 200] {
                for world_size in 1..=4 {
                    for drop_last in [false, true] {
                        let plan = plan(rows, batch_rows, drop_last, world_size);
                        let all = batches(&plan, 0);
                        let mut next = 0;
                        for (_, batch) in &all {
                            assert!(batch.start == next && batch.len() <= batch_rows as usize);
                            assert!(!drop_last || batch.len() == batch_rows as usize);
                            let is_small = batch_rows == 1 || rows < world_size;
                            assert!(is_small || !batch.is_empty(), "{plan:?} {all:?}");
                            next = batch.end;
                        }
                        let dropped = if drop_last { rows % (batch_rows * world_size) } else { 0 };
                        assert_eq!(next, rows - dropped, "{plan:?}");
                        for rank in 0..world_size {
                            let of_rank = all.iter().filter(|(one, _)| *one == rank).count();
                            assert_eq!(of_rank as u64, plan.rounds(0), "{plan:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_epoch_goes_on_with_another_number_of_ranks() {
        let one = batches(&plan(1000, 10, false, 1), 0);
        for world_size in 2..=5 {
            let plan = plan(1000, 10, false, world_size);
            for from in [0, 30, 60, 120] {
                let rest = batches(&plan, from);
                let full = plan.rounds(from) - 1;
                let full = usize::try_from(full).unwrap() * world_size as usize;
                let wanted = one.iter().skip(from as usize / 10).map(|(_, batch)| batch);
                let same = rest.iter().map(|(_, batch)| batch).zip(wanted).take(full);
                assert!(same.clone().count() == full && same.clone().all(|(a, b)| a == b));
            }
        }
    }
}
