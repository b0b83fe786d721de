//! What turns the states of a lake into text for an [`Engine`](crate::query::Engine): the query
//! layer knows no compiler, so whoever opens one hands these in.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use super::benchmarks::{environment, workers};
use super::failure::Failed;
use crate::model::StateId;
use crate::query::{IrRebuilder, IrRenderer, QueryError};
use crate::record::rebuild::{RebuildError, Rebuilder};
use crate::store::Snapshot;

/// How the states of an environment are shown as text.
pub fn renderer(environment: &str) -> IrRenderer {
    if environment == crate::env::llvm::NAME {
        return Arc::new(|bitcode| {
            crate::env::llvm::disassemble(bitcode).map_err(|error| error.to_string())
        });
    }
    Arc::new(|bytes| Ok(String::from_utf8_lossy(bytes).into_owned()))
}

/// Rebuilds the states of an environment that a lake does not store, in worker processes. The
/// environment is opened when the first of them is asked for; where that fails, every such query
/// says why.
///
/// A worker is this program, executed again: a program other than `steplake` calls [`be_a_worker`]
/// first.
pub fn rebuilder(environment: &str) -> Arc<dyn IrRebuilder> {
    Arc::new(Live { environment: environment.to_owned(), rebuilder: OnceLock::new() })
}

/// Serves as a worker, where this process was started as one; `None` where it was not. Programs
/// that use [`rebuilder`] call it before they look at their arguments.
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
        rebuilder.rebuild(snapshot, states).map_err(|error| match error {
            RebuildError::Store(error) => QueryError::Store(error),
            other => QueryError::NotRebuilt(Failed::from(other).to_string()),
        })
    }
}
