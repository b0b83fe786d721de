//! The consecutive shares of a table, and work on them by several threads.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Calls `work` for each share, several in parallel, and returns the results in the order of the
/// shares.
///
/// # Errors
///
/// That of the first share that failed. No thread begins another share after a failure.
pub(crate) fn each_share<S: Sync, T: Send, E: Send>(
    shares: &[S],
    threads: NonZeroUsize,
    work: impl Fn(&S) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let (turn, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let run = || {
        loop {
            let number = turn.fetch_add(1, Ordering::Relaxed);
            let Some(share) = shares.get(number) else { return };
            let made = work(share);
            if made.is_err() {
                turn.store(shares.len(), Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, made));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.get().min(shares.len()) {
            scope.spawn(run);
        }
        run();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}

/// Divides all keys into `count` ranges of equal width, at least one, in ascending order.
pub(crate) fn key_ranges(count: usize) -> impl Iterator<Item = RangeInclusive<i64>> {
    let count = i128::try_from(count.max(1)).unwrap_or(1);
    let cut = move |number: i128| i128::from(i64::MIN) + ((1_i128 << 64) * number) / count;
    let key = |cut: i128| i64::try_from(cut).expect("cuts are among the keys");
    (0..count).map(move |number| key(cut(number))..=key(cut(number + 1) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_keys_leave_nothing_out() {
        for count in [2, 3, 4, 7, 64] {
            let ranges: Vec<_> = key_ranges(count).collect();
            assert_eq!(ranges.first().map(|range| *range.start()), Some(i64::MIN));
            assert_eq!(ranges.last().map(|range| *range.end()), Some(i64::MAX));
            let adjoin = |pair: &[RangeInclusive<i64>]| {
                pair[0].end().checked_add(1) == Some(*pair[1].start())
            };
            assert!(ranges.windows(2).all(adjoin), "{count}");
        }
    }
}
