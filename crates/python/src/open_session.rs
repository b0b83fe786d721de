//! A session until it is closed.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::unistd::gettid;
use steplake::env::Session;

use crate::errors::Failure;
use crate::of_process::OfProcess;

/// A session of the library, used by one thread at a time; none after it was closed. A process that
/// was forked does not touch the lock, which a thread may hold that the process lacks.
pub(crate) struct OpenSession(OfProcess<Shared>);

struct Shared {
    session: Mutex<Option<Box<dyn Session>>>,
    /// The thread that uses the session; 0 for none.
    user: AtomicI32,
}

impl OpenSession {
    pub(crate) fn new(session: Box<dyn Session>) -> Self {
        let (session, user) = (Mutex::new(Some(session)), AtomicI32::new(0));
        Self(OfProcess::new(Shared { session, user }))
    }

    /// Runs `work` with the session, after the thread that uses it now. Call it detached from the
    /// interpreter.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut Option<Box<dyn Session>>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let shared = self.0.get().ok_or_else(|| {
            Failure::usage(
                "this environment belongs to the process that this one was forked from: make one \
                 here",
            )
        })?;
        // A Python class, or a signal's handler, may come back to the session that called it.
        let me = gettid().as_raw();
        if shared.user.load(Ordering::Relaxed) == me {
            return Err(Failure::usage(
                "this environment is in the middle of a call of this very thread: wait for its end",
            ));
        }
        let mut session = shared.session.lock().unwrap_or_else(PoisonError::into_inner);
        shared.user.store(me, Ordering::Relaxed);
        let done = work(&mut session);
        shared.user.store(0, Ordering::Relaxed);
        done
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
