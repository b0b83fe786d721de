//! A session until it is closed.

use steplake::env::{Exclusive, Session};
use steplake::model::{ObservationIndex, Value};

use crate::compilers::machine::Machine;
use crate::interpreter::errors::PendingException;
use crate::interpreter::of_process::OfProcess;

/// A session of the library, and what this machine does with its program.
pub(crate) struct Opened {
    pub(crate) session: Box<dyn Session>,
    pub(crate) machine: Machine,
}

impl Opened {
    /// Looks at the present state, in the space of the environment or of the machine at a place.
    pub(crate) fn observe(&mut self, place: u8) -> Result<Value, PendingException> {
        match self.machine.space(place) {
            Some(space) => self.machine.observe(space, self.session.as_mut()),
            None => Ok(self.session.observe(ObservationIndex(place))?),
        }
    }
}

/// A session, used by one thread at a time; none after it was closed. A process that was forked
/// does not touch the lock, which a thread may hold that the process lacks.
pub(crate) struct OpenSession(OfProcess<Exclusive<Option<Opened>>>);

impl OpenSession {
    pub(crate) fn new(opened: Opened) -> Self {
        Self(OfProcess::new(Exclusive::new(Some(opened))))
    }

    /// Runs `work` with the session, after the thread that uses it now. Call it detached from the
    /// interpreter.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut Option<Opened>) -> Result<T, PendingException>,
    ) -> Result<T, PendingException> {
        let session = self.0.get().ok_or_else(|| {
            PendingException::usage(
                "this environment belongs to the process that this one was forked from: make one \
                 here",
            )
        })?;
        // A Python class, or a signal's handler, may come back to the session that called it.
        if session.is_mine() {
            return Err(PendingException::usage(
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
    pub(crate) fn close(&self) -> Result<(), PendingException> {
        self.with(|session| {
            drop(session.take());
            Ok(())
        })
    }
}
