//! `Recording`: a run of sessions in a lake.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use steplake::record::EpisodePlan;
use steplake::recording::{AUDIT_EVERY, Keyframes, SessionOptions, record_sessions};

use crate::compilers::environment::Environment;
use crate::compilers::run::Run;
use crate::compilers::session::Session;
use crate::interpreter::errors::{PendingException, raise};

/// Which states' programs are stored.
#[derive(FromPyObject)]
pub(crate) enum Stored {
    /// After so many changes of state, or none.
    Every(Option<u32>),
    /// `"usual"`: those that the environment says.
    Word(String),
}

impl Stored {
    /// Returns which they are; none for the environment's.
    pub(crate) fn keyframes(self) -> PyResult<Option<Keyframes>> {
        match self {
            Self::Every(every) => Ok(Some(Keyframes(every.and_then(NonZeroU32::new)))),
            Self::Word(word) if word == USUAL => Ok(None),
            Self::Word(word) => Err(raise(PendingException::usage(format!(
                "`{word}` is no number of keyframes: give a number, None, or \"{USUAL}\""
            )))),
        }
    }

    /// Returns those that the environment says.
    pub(crate) fn usual() -> Self {
        Self::Word(USUAL.to_owned())
    }
}

/// Stands for the environment's own choice.
const USUAL: &str = "usual";

/// A run of sessions that is recorded in a lake, with the right to write to it.
#[pyclass(frozen, module = "steplake._steplake")]
pub(crate) struct Recording {
    environment: Py<Environment>,
    run: Arc<Run>,
}

#[pymethods]
impl Recording {
    #[new]
    #[pyo3(signature = (
        lake, environment, *, action_space=None, keyframes=Stored::usual(), observe=None,
        rewards=None, audit=None, seal=true,
    ))]
    #[expect(clippy::too_many_arguments, reason = "as many as `record` has")]
    fn new(
        py: Python<'_>,
        lake: PathBuf,
        environment: Py<Environment>,
        action_space: Option<String>,
        keyframes: Stored,
        observe: Option<Vec<String>>,
        rewards: Option<Vec<String>>,
        audit: Option<u32>,
        seal: bool,
    ) -> PyResult<Self> {
        let of = environment.get();
        of.demand_compiler().map_err(raise)?;
        let (step_cpu_seconds, worker_memory_mib) = of.limits();
        let keyframes = keyframes.keyframes()?;
        let every = keyframes.and_then(|Keyframes(every)| every);
        if of.is_own() && every.is_some_and(|every| every > NonZeroU32::MIN) {
            return Err(raise(PendingException::usage(
                "states of a compiler of your own cannot be rebuilt: store all of them, with \
                 `keyframes=1`, or none, with `keyframes=None`",
            )));
        }
        let options = SessionOptions {
            action_space,
            keyframes,
            observe,
            rewards,
            step_cpu_seconds,
            worker_memory_mib,
            audit: audit.map_or(Some(AUDIT_EVERY), NonZeroU32::new),
            seal,
        };
        let begun = py.detach(|| record_sessions(&lake, of.live.as_ref(), &options));
        let run = begun.map_err(|error| raise(error.into()))?;
        Ok(Self { environment, run: Arc::new(Run::new(run)) })
    }

    /// Opens a session whose episodes are recorded.
    #[pyo3(signature = (policy="", seed=0))]
    fn session(&self, policy: &str, seed: i64) -> PyResult<Session> {
        let environment = self.environment.get();
        let session = environment.live.session().map_err(|error| raise(error.into()))?;
        let mut recorder =
            self.run.with(|run| Ok(run.recording().recorder(session))).map_err(raise)?;
        recorder.plan(EpisodePlan { policy: policy.to_owned(), seed, ..EpisodePlan::default() });
        let (spec, machine) = (environment.spec(), environment.machine());
        let (catalogue, run) = (environment.catalogue()?, Arc::clone(&self.run));
        Ok(Session::of(Box::new(recorder), spec, machine, catalogue, Some(run)))
    }

    /// Waits until everything recorded so far is durable.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.run.with(|run| Ok(run.recording().flush()?))).map_err(raise)
    }

    /// Ends the run, makes it durable and, if it was asked to, seals it. Its sessions can record no
    /// more.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let environment = self.environment.get().live.as_ref();
        // A session may be in use by a thread that waits for the interpreter.
        py.detach(|| self.run.end(environment)).map_err(raise)
    }
}
