//! Long work: its caller hears how far it is, and can stop it.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;

use super::error::LakeError;

/// Hears how much of how much is done, and says whether to go on. Long work calls it several times
/// a second, in the thread of its caller. At a break it returns [`LakeError::Interrupted`] as soon
/// as it can, and changes nothing.
pub type OnProgress<'a> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'a;

/// An [`OnProgress`] that never stops the work.
pub fn to_the_end(_done: u64, _all: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The interval at which a caller is asked whether to go on, however long a piece of work takes.
pub const ASK_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the error of interrupted work at a break.
///
/// # Errors
///
/// [`LakeError::Interrupted`] if the caller stops.
pub fn demand(go_on: ControlFlow<()>) -> Result<(), LakeError> {
    match go_on {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(LakeError::Interrupted),
    }
}

/// One of the threads that share some work.
#[derive(Debug)]
pub struct Thread<'a> {
    said: Sender<u64>,
    is_stopped: &'a AtomicBool,
}

impl Thread<'_> {
    /// Says how much more is done.
    pub fn did(&self, more: u64) {
        // The receiver may be gone.
        let _ = self.said.send(more);
    }

    /// Has the caller asked whether to go on, though nothing more is done that counts. The threads
    /// hear its answer later.
    ///
    /// # Errors
    ///
    /// [`LakeError::Interrupted`] if the caller has stopped.
    pub fn ask(&self) -> Result<(), LakeError> {
        self.did(0);
        self.demand_go_on()
    }

    /// Returns an error if the work is to end: the caller has stopped it, or it has failed in
    /// another thread.
    ///
    /// # Errors
    ///
    /// [`LakeError::Interrupted`] if the caller has stopped.
    pub fn demand_go_on(&self) -> Result<(), LakeError> {
        if self.is_stopped.load(Ordering::Relaxed) { Err(LakeError::Interrupted) } else { Ok(()) }
    }
}

/// Runs each piece of work in a thread of its own. Calls `hear` in this thread with what they have
/// done since the last call, and at intervals. The results are in the order of the pieces.
///
/// # Errors
///
/// [`LakeError::Interrupted`] after a break, else the first error of a thread.
pub fn in_threads<W: Send, T: Send, E: From<LakeError> + Send>(
    pieces: impl IntoIterator<Item = W>,
    work: impl Fn(W, &Thread<'_>) -> Result<T, E> + Sync,
    hear: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Vec<T>, E> {
    let (said, heard) = channel();
    let (is_stopped, failure) = (AtomicBool::new(false), Mutex::new(None));
    let mut goes_on = ControlFlow::Continue(());
    let done = std::thread::scope(|scope| {
        let (work, is_stopped, failure) = (&work, &is_stopped, &failure);
        let begin = |piece| {
            let thread = Thread { said: said.clone(), is_stopped };
            scope.spawn(move || {
                let fail = |error| {
                    let mut failure = failure.lock();
                    // Only after that do other threads see that they are to stop.
                    failure.get_or_insert(error);
                    is_stopped.store(true, Ordering::Relaxed);
                };
                work(piece, &thread).map_err(fail).ok()
            })
        };
        let threads = pieces.into_iter().map(begin).collect::<Vec<_>>();
        drop(said);
        loop {
            let more = match heard.recv_timeout(ASK_INTERVAL) {
                Ok(more) => more,
                Err(RecvTimeoutError::Timeout) => 0,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if goes_on.is_continue() {
                goes_on = hear(more);
                is_stopped.fetch_or(goes_on.is_break(), Ordering::Relaxed);
            }
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, Option<T>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Option<Vec<T>>>()
    });
    demand(goes_on)?;
    match failure.into_inner() {
        Some(error) => Err(error),
        None => Ok(done.expect("no thread has failed")),
    }
}

/// Calls `work` for each share, several in parallel, and returns the results in the order of the
/// shares.
///
/// # Errors
///
/// That of the first share that failed. No thread begins another share after a failure.
pub fn each_share<S: Sync, T: Send, E: Send>(
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
            done.lock().push((number, made));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.get().min(shares.len()) {
            scope.spawn(run);
        }
        run();
    });
    let mut done = done.into_inner();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_ends_the_other_threads() {
        let work = |fails: bool, thread: &Thread<'_>| {
            if fails {
                return Err(LakeError::corrupt("here".as_ref(), "a bit"));
            }
            loop {
                thread.demand_go_on()?;
                std::thread::yield_now();
            }
        };
        let error =
            in_threads::<_, (), _>([false, true, false], work, &mut |_| ControlFlow::Continue(()));
        assert!(matches!(error, Err(LakeError::Corrupt { .. })), "{error:?}");
    }

    #[test]
    fn a_caller_stops_threads_that_say_nothing() {
        let work = |_, thread: &Thread<'_>| {
            loop {
                thread.demand_go_on()?;
                std::thread::yield_now();
            }
        };
        let mut calls = 0;
        let stopped = in_threads::<_, (), LakeError>([1, 2], work, &mut |more| {
            assert_eq!(more, 0);
            calls += 1;
            if calls < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(matches!(stopped, Err(LakeError::Interrupted)), "{stopped:?}");
        assert_eq!(calls, 3, "after a break nobody asks again");
    }

    #[test]
    fn results_come_in_the_order_of_the_pieces() {
        let mut done = 0;
        let work = |piece: u64, thread: &Thread<'_>| {
            thread.did(piece);
            Ok::<_, LakeError>(piece * 2)
        };
        let results = in_threads([5, 3, 8], work, &mut |more| {
            done += more;
            ControlFlow::Continue(())
        });
        assert_eq!((results.unwrap(), done), (vec![10, 6, 16], 16));
    }
}
