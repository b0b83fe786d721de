//! Steps that look several steps ahead.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::source::{COMPUTED, StateLink};
use crate::error::LoadError;
use crate::matrices::matrix::Matrix;
use crate::matrices::matrix_builder::MatrixBuilder;
use crate::matrices::matrix_cache::{MatrixCache, MatrixName};

/// Rewards are summed up over so many steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NStep {
    /// The most steps, from 1 on. Sums end with the episode.
    pub steps: u32,
    /// What a reward counts one step later, from 0 to 1.
    pub discount: f64,
}

/// The column with the number of steps that were summed up.
pub(crate) const SUMMED: &str = "n_steps";

/// For each row, the last row that its sum has.
fn last_rows(ends: &[u32], steps: u32) -> impl Iterator<Item = usize> {
    let last = move |(row, &end): (usize, &u32)| {
        let row = u32::try_from(row).expect("rows are counted in 32 bits");
        (row.saturating_add(steps).min(end) - 1) as usize
    };
    ends.iter().enumerate().map(last)
}

impl NStep {
    /// Replaces the columns of steps by those over several steps: rewards by their discounted sums,
    /// the next state and how it ended by those of the last step. Adds the number of steps.
    pub(crate) fn replace(
        self,
        cache: &MatrixCache,
        digest: &str,
        ends: &Matrix,
        columns: &mut BTreeMap<&str, Arc<Matrix>>,
    ) -> Result<(), LoadError> {
        let ends: Vec<u32> = ends.gather_as(0..ends.rows());
        for (name, matrix) in columns.iter_mut() {
            let is_of_last = *name == StateLink::NextState.column() || COMPUTED.contains(name);
            let is_reward = name.starts_with("reward_");
            if !is_of_last && !is_reward && *name != SUMMED {
                continue;
            }
            let entry = MatrixName::of(["n-step", digest, name, &format!("{self:?}")]);
            let made = cache.entry(&entry, || {
                Ok(if is_reward {
                    self.sums(&ends, matrix)
                } else if is_of_last {
                    of_last(&ends, self.steps, matrix)
                } else {
                    counts(&ends, self.steps)
                })
            })?;
            *matrix = made;
        }
        Ok(())
    }

    /// The discounted sum of the rewards of each row and those after it.
    fn sums(self, ends: &[u32], rewards: &Matrix) -> MatrixBuilder {
        let all: Vec<f64> = rewards.gather_as(0..rewards.rows());
        let mut sums = MatrixBuilder::fractions(all.len(), 1);
        for (row, last) in last_rows(ends, self.steps).enumerate() {
            let missing = rewards.missing();
            let next = missing.partition_point(|&missing| (missing as usize) < row);
            if missing.get(next).is_some_and(|&missing| missing as usize <= last) {
                continue;
            }
            let later = all[row..=last].iter().rev();
            let sum = later.fold(0.0, |sum, reward| reward + self.discount * sum);
            sums.set_fractions(row, std::iter::once(sum));
        }
        sums
    }
}

/// The numbers of the last row of each sum.
fn of_last(ends: &[u32], steps: u32, column: &Matrix) -> MatrixBuilder {
    let all: Vec<i64> = column.gather_as(0..column.rows());
    let mut made = MatrixBuilder::integers(all.len(), 1);
    for (row, last) in last_rows(ends, steps).enumerate() {
        made.set_integers(row, std::iter::once(all[last]));
    }
    made
}

/// The number of steps of each sum.
fn counts(ends: &[u32], steps: u32) -> MatrixBuilder {
    let mut made = MatrixBuilder::integers(ends.len(), 1);
    for (row, last) in last_rows(ends, steps).enumerate() {
        let count = i64::try_from(last - row + 1).expect("an episode has fewer steps");
        made.set_integers(row, std::iter::once(count));
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Episodes of three, one and four steps.
    const ENDS: [u32; 8] = [3, 3, 3, 4, 8, 8, 8, 8];

    #[test]
    fn sums_end_with_the_episode() {
        let last: Vec<usize> = last_rows(&ENDS, 2).collect();
        assert_eq!(last, [1, 2, 2, 3, 5, 6, 7, 7]);
        let last: Vec<usize> = last_rows(&ENDS, u32::MAX).collect();
        assert_eq!(last, [2, 2, 2, 3, 7, 7, 7, 7]);
    }
}
