//! A session until it is closed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use steplake::env::Session;

use crate::errors::Failure;
use crate::of_process::OfProcess;

/// A session of the library, used by one thread at a time; none after it was closed. A process that
/// was forked does not touch the lock, which a thread may hold that the process lacks.
pub(crate) struct OpenSession(OfProcess<Mutex<Option<Box<dyn Session>>>>);

impl OpenSession {
    pub(crate) fn new(session: Box<dyn Session>) -> Self {
        Self(OfProcess::new(Mutex::new(Some(session))))
    }

    /// Waits for the thread that uses the session. Call it detached from the interpreter.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Option<Box<dyn Session>>>, Failure> {
        let session = self.0.get().ok_or_else(|| {
            Failure::usage(
                "this environment belongs to the process that this one was forked from: make one \
                 here",
            )
        })?;
        Ok(session.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the session. Call it detached from the interpreter.
    pub(crate) fn close(&self) {
        if let Ok(mut session) = self.lock() {
            drop(session.take());
        }
    }
}
