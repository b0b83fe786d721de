//! A run that sessions record into.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use steplake::env::Environment;
use steplake::model::{Baselines, Benchmark};
use steplake::recording::SessionRecording;

use crate::compilers::open_session::OpenSession;
use crate::interpreter::errors::PendingException;
use crate::interpreter::of_process::OfProcess;

/// A run that is being recorded, with the sessions that record it.
pub(crate) struct Run(OfProcess<Mutex<RunState>>);

struct RunState {
    /// `None` after the end.
    recording: Option<SessionRecording>,
    sessions: Vec<Weak<OpenSession>>,
}

impl Run {
    pub(crate) fn new(recording: SessionRecording) -> Self {
        let state = RunState { recording: Some(recording), sessions: Vec::new() };
        Self(OfProcess::new(Mutex::new(state)))
    }

    /// Notes a session that records into the run.
    pub(crate) fn has_session(&self, session: &Arc<OpenSession>) {
        if let Some(state) = self.0.get() {
            let mut state = state.lock();
            state.sessions.retain(|session| session.strong_count() > 0);
            state.sessions.push(Arc::downgrade(session));
        }
    }

    /// Returns whether the run has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.get().is_some_and(|state| state.lock().recording.is_none())
    }

    /// Closes the sessions, which settles their episodes, and ends the run; does nothing if it has
    /// ended, or belongs to another process. Call it detached from the interpreter.
    pub(crate) fn end(&self, environment: &dyn Environment) -> Result<(), PendingException> {
        let Some(state) = self.0.get() else { return Ok(()) };
        let (recording, sessions) = {
            let mut state = state.lock();
            (state.recording.take(), std::mem::take(&mut state.sessions))
        };
        // A step that is under way looks up baselines, so the state is not locked here.
        let closed = sessions.iter().filter_map(Weak::upgrade).try_for_each(|one| one.close());
        if let Err(busy) = closed {
            // The run goes on, and can be ended later.
            let mut state = state.lock();
            (state.recording, state.sessions) = (recording, sessions);
            return Err(busy);
        }
        if let Some(recording) = recording {
            recording.finish(environment)?;
        }
        Ok(())
    }

    /// Returns the lake's baselines of a program, if it has them.
    pub(crate) fn baselines(&self, benchmark: &Benchmark) -> Option<Baselines> {
        let state = self.0.get()?.lock();
        state.recording.as_ref()?.recording().baselines(benchmark)
    }

    /// Does something with the recording.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&SessionRecording) -> Result<T, PendingException>,
    ) -> Result<T, PendingException> {
        let other = "this recording belongs to the process that this one was forked from: record \
                     into another lake here, and merge the two with `steplake merge`";
        let state = self.0.get().ok_or_else(|| PendingException::usage(other))?;
        let state = state.lock();
        let ended = || PendingException::usage("this recording has ended: begin another one");
        work(state.recording.as_ref().ok_or_else(ended)?)
    }
}
