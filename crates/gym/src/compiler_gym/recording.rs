//! Where sessions come from, and whether a lake records them.

use std::sync::Arc;

use parking_lot::Mutex;

use steplake::Error;
use steplake::env::{Environment, Session, SessionError};
use steplake::environments::catalogue::Catalogue;
use steplake::generate::ProgramProvider as _;
use steplake::model::{Baselines, Benchmark, BenchmarkUri};
use steplake::recording::SessionRecording;

use crate::cache::{self, Cache};

/// The sessions of an environment, which a lake may record.
#[derive(Debug)]
pub(super) struct RecordedEnvironment {
    environment: Arc<dyn Environment>,
    /// What steplake knows of programs: baselines, and names that belong to its own datasets.
    catalogue: Arc<Catalogue>,
    keeping: Keeping,
}

/// What a lake keeps of sessions.
#[derive(Debug)]
pub(super) enum Keeping {
    /// There is none.
    Nothing,
    /// Their episodes; none after the end.
    Sessions(Mutex<Option<SessionRecording>>),
    /// What it did not know before: it answers all else.
    Misses(Arc<Cache>),
}

impl Keeping {
    pub(super) fn sessions(recording: SessionRecording) -> Self {
        Self::Sessions(Mutex::new(Some(recording)))
    }
}

impl RecordedEnvironment {
    pub(super) fn new(
        environment: Arc<dyn Environment>,
        catalogue: Arc<Catalogue>,
        keeping: Keeping,
    ) -> Self {
        Self { environment, catalogue, keeping }
    }

    /// The cache that answers, if one does.
    pub(super) fn cache(&self) -> Option<&Arc<Cache>> {
        match &self.keeping {
            Keeping::Misses(cache) => Some(cache),
            Keeping::Nothing | Keeping::Sessions(_) => None,
        }
    }

    /// The environment itself, whose sessions nobody records.
    pub(super) fn unrecorded(&self) -> &Arc<dyn Environment> {
        &self.environment
    }

    /// Opens a session, which is recorded or answered if there is a lake.
    ///
    /// # Errors
    ///
    /// If the compiler is not available, or the recording has ended.
    pub(super) fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        match &self.keeping {
            Keeping::Nothing => self.environment.session(),
            Keeping::Misses(cache) => Ok(cache::open(cache)),
            Keeping::Sessions(recording) => {
                let session = self.environment.session()?;
                let recording = recording.lock();
                let run = recording.as_ref().ok_or(SessionError::Interrupted)?;
                Ok(Box::new(run.recording().recorder(session)))
            }
        }
    }

    /// The baselines of a program, if they are known: all rewards of a benchmark in a lake are
    /// scaled by the same ones.
    pub(super) fn baselines(&self, benchmark: &Benchmark) -> Option<Baselines> {
        let of_lake = match &self.keeping {
            Keeping::Nothing => None,
            Keeping::Misses(cache) => cache.baselines(benchmark),
            Keeping::Sessions(recording) => {
                recording.lock().as_ref().and_then(|run| run.recording().baselines(benchmark))
            }
        };
        of_lake.or_else(|| self.catalogue.baselines(benchmark))
    }

    /// Keeps the baselines that a start has measured.
    pub(super) fn keep_baselines(&self, benchmark: &Benchmark, baselines: &Baselines) {
        self.catalogue.keep_baselines(benchmark, baselines);
    }

    /// Returns the benchmark under a name of its own, if a dataset of steplake has its name: the
    /// `csmith-v0` of a client is another one than ours, and its `cbench-v1` may hold any program.
    /// A cache knows by its content a program that its lake has.
    pub(super) fn as_clients(&self, benchmark: Benchmark) -> Benchmark {
        if self.cache().is_some_and(|cache| cache.has(&benchmark)) {
            return benchmark;
        }
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
    pub(super) fn finish(&self) -> Result<(), Error> {
        match &self.keeping {
            Keeping::Nothing => Ok(()),
            Keeping::Misses(cache) => cache.finish(),
            Keeping::Sessions(recording) => {
                let recording = recording.lock().take();
                recording.map_or(Ok(()), |run| run.finish(self.environment.as_ref()).map(drop))
            }
        }
    }
}
