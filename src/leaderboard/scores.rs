//! How rows are compared and added up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::row::EntryRow;

/// How far a reward may be from the one that was found, relative to the larger of both. The bounds
/// are CompilerGym's.
const REWARD_RELATIVE_MAX: f64 = 1e-5;

/// How far it may be in any case.
const REWARD_ABSOLUTE_MAX: f64 = 1e-10;

/// Returns whether a reward is the one that was found when its row was played again.
pub fn is_reproduced(claimed: f64, found: f64) -> bool {
    let relative = REWARD_RELATIVE_MAX * claimed.abs().max(found.abs());
    (claimed - found).abs() <= relative.max(REWARD_ABSOLUTE_MAX)
}

/// Returns the geometric mean of numbers; as in CompilerGym, 0 if one of them is not above 0, or if
/// there are none.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        if value <= 0.0 {
            return 0.0;
        }
        sum += value.ln();
        count += 1.0;
    }
    if count > 0.0 { f64::exp(sum / count) } else { 0.0 }
}

/// The scores of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scores {
    /// The geometric mean of the rewards of all rows: what CompilerGym's leaderboards publish.
    pub all_rows: f64,
    /// The geometric mean, over the benchmarks, of the best reward of each.
    pub best_of_n: f64,
}

impl Scores {
    /// Returns the scores of rows.
    pub fn of(rows: &[EntryRow]) -> Self {
        let mut best: BTreeMap<&str, f64> = BTreeMap::new();
        for row in rows {
            let best = best.entry(&row.benchmark).or_insert(f64::NEG_INFINITY);
            *best = best.max(row.reward);
        }
        Self {
            all_rows: geometric_mean(rows.iter().map(|row| row.reward)),
            best_of_n: geometric_mean(best.into_values()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaderboard::row::tests::row;

    fn is_close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-12
    }

    #[test]
    fn the_published_score_is_over_all_rows() {
        let rows = [(1, 1.0), (1, 4.0), (2, 2.0), (2, 8.0)].map(|(of, reward)| row(of, reward));
        let Scores { all_rows, best_of_n } = Scores::of(&rows);
        // The fourth root of 64, and the square root of 32.
        assert!(is_close(all_rows, 64_f64.powf(0.25)), "{all_rows}");
        assert!(is_close(best_of_n, 32_f64.sqrt()), "{best_of_n}");
    }

    #[test]
    fn a_reward_that_is_not_above_zero_makes_the_score_zero() {
        let rows = [(1, 0.0), (1, 4.0), (2, -1.0), (2, 1.0)].map(|(of, reward)| row(of, reward));
        let Scores { all_rows, best_of_n } = Scores::of(&rows);
        assert!(all_rows.abs() < 1e-300 && is_close(best_of_n, 2.0));
        assert!(geometric_mean([]).abs() < 1e-300);
    }

    #[test]
    fn rewards_agree_within_compilergyms_bounds() {
        for (claimed, found) in [(1.0, 1.000_009), (0.0, 1e-11), (-2.0, -2.000_01), (3.0, 3.0)] {
            assert!(is_reproduced(claimed, found), "{claimed} {found}");
        }
        for (claimed, found) in [(1.0, 1.000_02), (0.0, 1e-9), (2.0, -2.0), (1.0, f64::NAN)] {
            assert!(!is_reproduced(claimed, found), "{claimed} {found}");
        }
    }
}
