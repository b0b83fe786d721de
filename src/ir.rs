//! Turns the states of a lake into text for an [`Engine`](crate::query::Engine). The query layer
//! knows no compiler, so the program that opens an engine passes these functions in.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::Error;
use crate::compilers;
use crate::env::{Environment, Session, llvm};
use crate::environments::{Environments, environment_of_lake, live};
use crate::lake::Snapshot;
use crate::model::{StateId, Value};
use crate::query::{IrRebuilder, IrRenderer, QueryError};
use crate::replay::rebuild::{RebuildError, Rebuilder};

/// Returns the function that shows the states of an environment as text. A compiler does so in a
/// worker process, so that a state that crashes it ends only the query that asked for it. Idle
/// workers stay, at most one for each core. States of an environment that this program does not
/// have are shown as they are, if they are text.
pub fn renderer(environments: &Environments, environment: &str) -> IrRenderer {
    let (environment, config) = (environment.to_owned(), environments.worker_config());
    let idle = IdleSessions::default();
    let idle_max = std::thread::available_parallelism().map_or(1, usize::from);
    Arc::new(move |state| {
        block_in_place(|| {
            let known = idle.lock().pop();
            let mut session = match known {
                Some(session) => session,
                None => match compilers::open(&environment) {
                    Ok(known) => {
                        live(known, config.clone()).session().map_err(|error| error.to_string())?
                    }
                    Err(_) => return plain_text(&environment, state),
                },
            };
            // A session with an error is not asked again.
            let text = session.text(state).map_err(|error| error.to_string())?;
            let mut idle = idle.lock();
            if idle.len() < idle_max {
                idle.push(session);
            }
            Ok(text)
        })
    })
}

/// Returns the state in which a session is, as text for other tools. That of LLVM has the order of
/// its use-lists, which passes see: `opt` does to it what an action does to the state.
///
/// # Errors
///
/// Those of observing the state.
pub fn exported(environment: &dyn Environment, session: &mut dyn Session) -> Result<String, Error> {
    let spec = environment.spec();
    let is_ours = spec.name == llvm::NAME && environment.served().is_none();
    let shown = spec.observation_index(if is_ours { "Bitcode" } else { "Ir" });
    match session.observe(shown.unwrap_or(spec.state_index()))? {
        Value::Bytes(bitcode) if is_ours => Ok(session.text(&bitcode)?),
        Value::Bytes(state) => Ok(String::from_utf8_lossy(&state).into_owned()),
        Value::Text(text) => Ok(text),
        other => Ok(format!("{other:?}\n")),
    }
}

type IdleSessions = Mutex<Vec<Box<dyn Session>>>;

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
pub fn rebuilder(environments: &Environments) -> Arc<dyn IrRebuilder> {
    Arc::new(LiveRebuilder { environments: environments.clone(), rebuilder: OnceLock::new() })
}

#[derive(Debug)]
struct LiveRebuilder {
    environments: Environments,
    rebuilder: OnceLock<Result<Rebuilder, String>>,
}

fn open(environments: &Environments, snapshot: &Snapshot) -> Result<Rebuilder, Error> {
    let environment = environment_of_lake(snapshot.identity())?;
    Ok(Rebuilder::new(environments.workers(environment.as_ref(), snapshot.runs())))
}

impl IrRebuilder for LiveRebuilder {
    fn rebuild(
        &self,
        snapshot: &Snapshot,
        states: &[StateId],
    ) -> Result<Vec<Option<Vec<u8>>>, QueryError> {
        let open = || open(&self.environments, snapshot).map_err(|error| error.to_string());
        let opened = self.rebuilder.get_or_init(open);
        let rebuilder =
            opened.as_ref().map_err(|message| QueryError::NotRebuilt(message.clone()))?;
        block_in_place(|| rebuilder.rebuild(snapshot, states)).map_err(|error| match error {
            RebuildError::Store(error) => QueryError::Store(error),
            other => QueryError::NotRebuilt(Error::from(other).to_string()),
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
