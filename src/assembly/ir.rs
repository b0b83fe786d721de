//! Turns the states of a lake into text for an [`Engine`](crate::query::Engine). The query layer
//! knows no compiler, so the program that opens an engine passes these functions in.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::command_error::CommandError;
use super::environments::{environment_of_lake, live, worker_config, workers};
use crate::env::{self, Session};
use crate::lake::Snapshot;
use crate::model::StateId;
use crate::query::{IrRebuilder, IrRenderer, QueryError};
use crate::replay::rebuild::{RebuildError, Rebuilder};

/// Returns the function that shows the states of an environment as text. A compiler does so in a
/// worker process, so that a state that crashes it ends only the query that asked for it. Idle
/// workers stay, at most one for each core. States of an environment that this program does not
/// have are shown as they are, if they are text.
pub fn renderer(environment: &str) -> IrRenderer {
    let environment = environment.to_owned();
    let idle = Idle::default();
    let idle_max = std::thread::available_parallelism().map_or(1, usize::from);
    Arc::new(move |state| {
        block_in_place(|| {
            let known = lock(&idle).pop();
            let mut session = match known {
                Some(session) => session,
                None => match env::open(&environment) {
                    Ok(known) => {
                        live(known, worker_config()).session().map_err(|error| error.to_string())?
                    }
                    Err(_) => return plain_text(&environment, state),
                },
            };
            // A session with an error is not asked again.
            let text = session.text(state).map_err(|error| error.to_string())?;
            let mut idle = lock(&idle);
            if idle.len() < idle_max {
                idle.push(session);
            }
            Ok(text)
        })
    })
}

type Idle = Mutex<Vec<Box<dyn Session>>>;

fn lock(idle: &Idle) -> MutexGuard<'_, Vec<Box<dyn Session>>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a state of an environment that this program does not have, if it is text.
fn plain_text(environment: &str, state: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(state).map(str::to_owned);
    text.map_err(|_no_text| {
        format!(
            "the states of `{environment}` are no text, and this environment is not part of steplake"
        )
    })
}

/// Returns the rebuilder of states that a lake does not store. It uses worker processes, and opens
/// the environment on the first request; if that fails, every such query reports the reason.
///
/// A worker is this program, executed again: a program other than `steplake` must first call
/// [`worker::serve_if_worker`](super::worker::serve_if_worker).
pub fn rebuilder() -> Arc<dyn IrRebuilder> {
    Arc::new(LiveRebuilder { rebuilder: OnceLock::new() })
}

#[derive(Debug)]
struct LiveRebuilder {
    rebuilder: OnceLock<Result<Rebuilder, String>>,
}

fn open(snapshot: &Snapshot) -> Result<Rebuilder, CommandError> {
    let environment = environment_of_lake(snapshot.identity())?;
    Ok(Rebuilder::new(workers(environment.as_ref(), snapshot.runs())))
}

impl IrRebuilder for LiveRebuilder {
    fn rebuild(
        &self,
        snapshot: &Snapshot,
        states: &[StateId],
    ) -> Result<Vec<Option<Vec<u8>>>, QueryError> {
        let opened =
            self.rebuilder.get_or_init(|| open(snapshot).map_err(|error| error.to_string()));
        let rebuilder =
            opened.as_ref().map_err(|message| QueryError::NotRebuilt(message.clone()))?;
        block_in_place(|| rebuilder.rebuild(snapshot, states)).map_err(|error| match error {
            RebuildError::Store(error) => QueryError::Store(error),
            other => QueryError::NotRebuilt(CommandError::from(other).to_string()),
        })
    }
}

/// Runs work that may take long. Meanwhile, other threads take over the other tasks of this thread,
/// such as the next question after this one was cancelled.
fn block_in_place<T>(work: impl FnOnce() -> T) -> T {
    let has_others = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    if Handle::try_current().is_ok_and(has_others) {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}
