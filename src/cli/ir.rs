//! Turns the states of a lake into text for an [`Engine`](crate::query::Engine): the query layer
//! knows no compiler, so whoever opens an engine passes these functions in.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::benchmarks::{environment, workers};
use super::failure::Failed;
use crate::lake::Snapshot;
use crate::model::StateId;
use crate::query::{IrRebuilder, IrRenderer, QueryError};
use crate::replay::rebuild::{RebuildError, Rebuilder};

/// Returns the function that shows the states of an environment as text.
pub fn renderer(environment: &str) -> IrRenderer {
    if environment == crate::env::llvm::NAME {
        return Arc::new(|bitcode| {
            crate::env::llvm::disassemble(bitcode).map_err(|error| error.to_string())
        });
    }
    Arc::new(|bytes| Ok(String::from_utf8_lossy(bytes).into_owned()))
}

/// Returns what rebuilds the states that a lake does not store, in worker processes. The
/// environment is opened on the first request; if that fails, every such query reports the reason.
///
/// A worker is this program, executed again: a program other than `steplake` must first call
/// [`be_a_worker`].
pub fn rebuilder(environment: &str) -> Arc<dyn IrRebuilder> {
    Arc::new(Live { environment: environment.to_owned(), rebuilder: OnceLock::new() })
}

/// Serves as a worker if this process was started as one, else returns `None`. Programs that use
/// [`rebuilder`] call this before they parse their arguments.
pub fn be_a_worker() -> Option<ExitCode> {
    let asked = std::env::args_os().nth(1).is_some_and(|argument| argument == "worker");
    asked.then(super::main)
}

#[derive(Debug)]
struct Live {
    environment: String,
    rebuilder: OnceLock<Result<Rebuilder, String>>,
}

impl Live {
    fn open(&self, snapshot: &Snapshot) -> Result<Rebuilder, Failed> {
        let environment = environment(&self.environment)?;
        Ok(Rebuilder::new(Box::new(workers(environment.as_ref(), snapshot.runs()))))
    }
}

impl IrRebuilder for Live {
    fn rebuild(
        &self,
        snapshot: &Snapshot,
        states: &[StateId],
    ) -> Result<Vec<Option<Vec<u8>>>, QueryError> {
        let opened =
            self.rebuilder.get_or_init(|| self.open(snapshot).map_err(|error| error.to_string()));
        let rebuilder = opened.as_ref().map_err(|said| QueryError::NotRebuilt(said.clone()))?;
        aside(|| rebuilder.rebuild(snapshot, states)).map_err(|error| match error {
            RebuildError::Store(error) => QueryError::Store(error),
            other => QueryError::NotRebuilt(Failed::from(other).to_string()),
        })
    }
}

/// Does work that may take long while other threads take over the other tasks of this one: another
/// question, say, after this one was cancelled.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    let has_others = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    if Handle::try_current().is_ok_and(has_others) {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}
