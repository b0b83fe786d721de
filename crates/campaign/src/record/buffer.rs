//! The bounded buffer between recorders and the writer thread.
//!
//! Its locks are those of std. The writer waits here for as long as a recording is open, and
//! `parking_lot`'s waiting threads stand in a table of the process: a forked process would inherit
//! their places, without the threads, and hang.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use steplake_env::SessionError;
use steplake_lake::Rows;
use steplake_model::Error;

/// Rows at which the writer commits before the flush interval is over.
const COMMIT_ROWS: usize = 1 << 14;

/// Rows that may wait; beyond this, callers wait for the disk. A step without IR is about 150
/// bytes.
const WAITING_ROWS_MAX: usize = 1 << 18;

/// Bytes of IR and observations at which the writer commits.
const COMMIT_BYTES: usize = 8 << 20;

/// Bytes of IR and observations that may wait.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Rows on their way to the writer.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    waiting: Mutex<Waiting>,
    /// Signals new rows, a flush or the end.
    filled: Condvar,
    /// Signals a commit or a failure.
    drained: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    rows: Rows,
    count: usize,
    bytes: usize,
    since: Option<Instant>,
    closed: bool,
    flush: bool,
    /// The number of batches that the writer has taken; `durable` of them are durable.
    taken: u64,
    durable: u64,
    /// The reason why nothing more can be written.
    failure: Option<Error>,
}

/// What the writer takes from the buffer.
#[derive(Debug)]
pub(super) enum Drained {
    Rows(Rows),
    /// No row came in the whole time.
    Nothing,
    /// Nothing waits and nothing will come.
    Closed,
}

impl Buffer {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rows by `put`, which returns how many rows and how many bytes it added. Waits
    /// while too much is waiting.
    pub(super) fn push(
        &self,
        put: impl FnOnce(&mut Rows) -> (usize, usize),
    ) -> Result<(), SessionError> {
        self.push_after(put, |waiting| {
            self.drained.wait(waiting).unwrap_or_else(PoisonError::into_inner)
        })
    }

    fn push_after<'a>(
        &'a self,
        put: impl FnOnce(&mut Rows) -> (usize, usize),
        wait: impl Fn(MutexGuard<'a, Waiting>) -> MutexGuard<'a, Waiting>,
    ) -> Result<(), SessionError> {
        let mut waiting = self.lock();
        while waiting.failure.is_none()
            && (waiting.count >= WAITING_ROWS_MAX || waiting.bytes >= WAITING_BYTES_MAX)
        {
            waiting = wait(waiting);
        }
        if let Some(reason) = &waiting.failure {
            return Err(SessionError::Recording(reason.clone()));
        }
        let (count, bytes) = put(&mut waiting.rows);
        if count == 0 {
            return Ok(());
        }
        let (before, was_empty) = (waiting.is_due(), waiting.count == 0);
        waiting.count += count;
        waiting.bytes += bytes;
        waiting.since.get_or_insert_with(Instant::now);
        if was_empty || (!before && waiting.is_due()) {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Returns the rows to commit next: when there are many, when the oldest has waited for
    /// `patience`, when someone asked for a flush, or at the end. Returns nothing after `patience`
    /// without rows.
    pub(super) fn take(&self, patience: Duration) -> Drained {
        let mut waiting = self.lock();
        let began = Instant::now();
        loop {
            let age = waiting.since.map(|since| since.elapsed());
            let due = waiting.is_due() || age.is_some_and(|age| age >= patience);
            if waiting.count > 0 && (due || waiting.closed || waiting.flush) {
                waiting.count = 0;
                waiting.bytes = 0;
                waiting.since = None;
                waiting.flush = false;
                waiting.taken += 1;
                return Drained::Rows(std::mem::take(&mut waiting.rows));
            }
            if waiting.closed {
                return Drained::Closed;
            }
            let waited = age.unwrap_or_else(|| began.elapsed());
            let Some(left) = patience.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Drained::Nothing;
            };
            let (guard, _) =
                self.filled.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner);
            waiting = guard;
        }
    }

    /// Marks the rows taken last as durable.
    pub(super) fn committed(&self) {
        let mut waiting = self.lock();
        waiting.durable = waiting.taken;
        self.drained.notify_all();
    }

    /// Records that nothing more can be written.
    pub(super) fn fail(&self, reason: Error) {
        self.lock().failure.get_or_insert(reason);
        self.drained.notify_all();
    }

    /// Waits until everything pushed before this call is durable.
    pub(super) fn flush(&self) -> Result<(), SessionError> {
        let mut waiting = self.lock();
        let goal = waiting.taken + u64::from(waiting.count > 0);
        waiting.flush = waiting.count > 0;
        self.filled.notify_one();
        while waiting.durable < goal && waiting.failure.is_none() {
            waiting = self.drained.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.failure.clone().map_or(Ok(()), |reason| Err(SessionError::Recording(reason)))
    }

    /// Announces that nothing more will come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }
}

impl Waiting {
    fn is_due(&self) -> bool {
        self.count >= COMMIT_ROWS || self.bytes >= COMMIT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};
    use steplake_model::ErrorKind;

    const LONG: Duration = Duration::from_mins(10);

    #[test]
    fn a_flush_takes_what_waits_and_returns_when_it_is_durable() {
        let buffer = Arc::new(Buffer::default());
        buffer.push(|_| (1, 0)).unwrap();
        let writer = std::thread::spawn({
            let buffer = Arc::clone(&buffer);
            move || {
                let taken = buffer.take(LONG);
                buffer.committed();
                taken
            }
        });
        buffer.flush().unwrap();
        assert!(matches!(writer.join().unwrap(), Drained::Rows(_)));
    }

    #[test]
    fn a_full_buffer_holds_its_callers_until_it_is_drained() {
        for full in [(WAITING_ROWS_MAX, 0), (1, WAITING_BYTES_MAX)] {
            let buffer = Buffer::default();
            buffer.push(|_| full).unwrap();
            // The caller says that it waits while it holds the lock, which nobody can take before
            // it really waits. If it ends without waiting, the channel is closed.
            let (waits, waiting) = mpsc::channel();
            std::thread::scope(|scope| {
                let buffer = &buffer;
                let caller = scope.spawn(move || {
                    buffer.push_after(
                        |_| (1, 0),
                        |rows| {
                            waits.send(()).unwrap();
                            buffer.drained.wait(rows).unwrap()
                        },
                    )
                });
                waiting.recv_timeout(LONG).expect("the caller waits");
                assert!(matches!(buffer.take(LONG), Drained::Rows(_)));
                buffer.committed();
                caller.join().unwrap().unwrap();
            });
            buffer.close();
            assert!(matches!(buffer.take(LONG), Drained::Rows(_)));
            assert!(matches!(buffer.take(LONG), Drained::Closed));
        }
    }

    #[test]
    fn a_failed_writer_fails_its_callers() {
        let buffer = Buffer::default();
        buffer.push(|_| (WAITING_ROWS_MAX, 0)).unwrap();
        buffer.fail(Error::new(ErrorKind::Lake, "the disk is full"));
        for result in [buffer.push(|_| (1, 0)), buffer.flush()] {
            assert!(result.unwrap_err().to_string().ends_with("the disk is full"));
        }
    }

    #[test]
    fn old_rows_are_taken_without_being_many() {
        let buffer = Buffer::default();
        assert!(matches!(buffer.take(Duration::ZERO), Drained::Nothing));
        buffer.push(|_| (1, 0)).unwrap();
        assert!(matches!(buffer.take(Duration::ZERO), Drained::Rows(_)));
    }
}
