//! A run that sessions record into.

use std::sync::{Mutex, PoisonError};

use steplake::assembly::recording::SessionRecording;
use steplake::model::{Baselines, Benchmark};

use crate::errors::Failure;
use crate::of_process::OfProcess;

/// A run that is being recorded; `None` after its end.
#[derive(Debug)]
pub(crate) struct Run(Mutex<Option<OfProcess<SessionRecording>>>);

impl Run {
    pub(crate) fn new(run: SessionRecording) -> Self {
        Self(Mutex::new(Some(OfProcess::new(run))))
    }

    /// Takes the recording, to end it; `None` if it has ended, or belongs to another process.
    pub(crate) fn take(&self) -> Option<SessionRecording> {
        let run = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        run.and_then(OfProcess::take)
    }

    /// Returns the lake's baselines of a program, if it has them.
    pub(crate) fn baselines(&self, benchmark: &Benchmark) -> Option<Baselines> {
        let run = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        run.as_ref()?.get()?.recording().baselines(benchmark)
    }

    /// Does something with the recording.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&SessionRecording) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let run = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = || Failure::usage("this recording has ended: begin another one");
        let run = run.as_ref().ok_or_else(ended)?;
        let other = "this recording belongs to the process that this one was forked from: record \
                     into another lake here, and merge the two with `steplake merge`";
        work(run.get().ok_or_else(|| Failure::usage(other))?)
    }
}
