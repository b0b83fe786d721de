//! Work on the consecutive shares of a table, by several threads.

use std::num::NonZeroUsize;
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
