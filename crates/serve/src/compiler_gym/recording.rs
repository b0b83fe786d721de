//! Where sessions come from, and whether a lake records them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steplake::assembly::catalogue::Catalogue;
use steplake::assembly::command_error::CommandError;
use steplake::assembly::recording::SessionRecording;
use steplake::env::{Environment, Session, SessionError};
use steplake::generate::Programs as _;
use steplake::model::{Baselines, Benchmark, BenchmarkUri};

/// The sessions of an environment, which a lake may record.
#[derive(Debug)]
pub(super) struct RecordedEnvironment {
    environment: Arc<dyn Environment>,
    /// What steplake knows of programs: baselines, and names that belong to its own datasets.
    catalogue: Catalogue,
    /// None without a lake, and after the end.
    recording: Mutex<Option<SessionRecording>>,
    is_recorded: bool,
}

impl RecordedEnvironment {
    pub(super) fn new(
        environment: Arc<dyn Environment>,
        catalogue: Catalogue,
        recording: Option<SessionRecording>,
    ) -> Self {
        let is_recorded = recording.is_some();
        Self { environment, catalogue, recording: Mutex::new(recording), is_recorded }
    }

    fn recording(&self) -> MutexGuard<'_, Option<SessionRecording>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The environment itself, whose sessions nobody records.
    pub(super) fn unrecorded(&self) -> &Arc<dyn Environment> {
        &self.environment
    }

    /// Opens a session, which is recorded if there is a lake.
    ///
    /// # Errors
    ///
    /// If the compiler is not available, or the recording has ended.
    pub(super) fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        let session = self.environment.session()?;
        match &*self.recording() {
            Some(run) => Ok(Box::new(run.recording().recorder(session))),
            None if self.is_recorded => Err(SessionError::Interrupted),
            None => Ok(session),
        }
    }

    /// The baselines of a program, if they are known: all rewards of a benchmark in a lake are
    /// scaled by the same ones.
    pub(super) fn baselines(&self, benchmark: &Benchmark) -> Option<Baselines> {
        let of_lake =
            self.recording().as_ref().and_then(|run| run.recording().baselines(benchmark));
        of_lake.or_else(|| self.catalogue.baselines(benchmark))
    }

    /// Keeps the baselines that a start has measured.
    pub(super) fn keep_baselines(&self, benchmark: &Benchmark, baselines: &Baselines) {
        self.catalogue.keep_baselines(benchmark, baselines);
    }

    /// Returns the benchmark under a name of its own, if a dataset of steplake has its name: the
    /// `csmith-v0` of a client is another one than ours, and its `cbench-v1` may hold any program.
    pub(super) fn as_clients(&self, benchmark: Benchmark) -> Benchmark {
        let uri = &benchmark.uri;
        if !self.catalogue.has_dataset(uri.dataset_uri()) {
            return benchmark;
        }
        let (scheme, dataset, path) = (uri.scheme(), uri.dataset(), uri.path());
        let other = format!("{scheme}://compiler_gym-{dataset}/{path}").parse::<BenchmarkUri>();
        match other {
            Ok(uri) => Benchmark { uri, ..benchmark },
            Err(_never) => benchmark,
        }
    }

    /// Ends the run: makes it durable, and marks it as finished. Drop all sessions first.
    ///
    /// # Errors
    ///
    /// If the recording has failed, or the disk does.
    pub(super) fn finish(&self) -> Result<(), CommandError> {
        let recording = self.recording().take();
        recording.map_or(Ok(()), |run| run.finish(self.environment.as_ref()).map(drop))
    }
}
