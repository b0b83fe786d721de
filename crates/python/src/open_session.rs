//! A session until it is closed.

use steplake::env::{Exclusive, Session};

use crate::errors::Failure;
use crate::of_process::OfProcess;

/// A session of the library, used by one thread at a time; none after it was closed. A process that
/// was forked does not touch the lock, which a thread may hold that the process lacks.
pub(crate) struct OpenSession(OfProcess<Exclusive<Option<Box<dyn Session>>>>);

impl OpenSession {
    pub(crate) fn new(session: Box<dyn Session>) -> Self {
        Self(OfProcess::new(Exclusive::new(Some(session))))
    }

    /// Runs `work` with the session, after the thread that uses it now. Call it detached from the
    /// interpreter.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut Option<Box<dyn Session>>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let session = self.0.get().ok_or_else(|| {
            Failure::usage(
                "this environment belongs to the process that this one was forked from: make one \
                 here",
            )
        })?;
        // A Python class, or a signal's handler, may come back to the session that called it.
        if session.is_mine() {
            return Err(Failure::usage(
                "this environment is in the middle of a call of this very thread: wait for its end",
            ));
        }
        work(&mut session.lock())
    }

    /// Returns whether the session is one of this process.
    pub(crate) fn is_here(&self) -> bool {
        self.0.get().is_some()
    }

    /// Ends the session. Call it detached from the interpreter.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        self.with(|session| {
            drop(session.take());
            Ok(())
        })
    }
}
