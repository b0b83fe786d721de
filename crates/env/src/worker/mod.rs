//! Sessions in child processes, so that a compiler that crashes, hangs or eats memory takes nothing
//! else with it.
//!
//! [`WorkerEnvironment`] has the spec of the environment that it wraps. Each session that it opens
//! has a worker of its own (this program, executed again as `steplake worker …`), which it shares
//! with its forks.
//!
//! # Who is at fault
//!
//! A worker may die, exceed a limit or break its module because of the compiler, because of what it
//! did before, or because of the machine. *A failure is the compiler's only if a fresh worker,
//! which has played the confirmed actions again, repeats it under the same limits.* Then it is an
//! [`Outcome::Crashed`](steplake_model::Outcome::Crashed) with the fresh worker's reason or, on a
//! program before there is a state, a [`SessionError::StartFailed`]. If the fresh worker succeeds,
//! its results are used as if nothing had happened, and the event is counted
//! ([`Environment::repeated_windows`]).
//!
//! After an action that is not a pure function of the state, playing the actions again may lead
//! elsewhere. So from such an action on, each state is sent along whole, and a fresh worker begins
//! in the last one.
//!
//! A worker's panic is a defect of steplake: [`SessionError::Defect`]. Nothing is recorded then.
//!
//! A worker that somebody else ended says nothing about the compiler. The supervisor brings it and
//! its sessions back by playing their actions again. If that happens too often in a row, or if no
//! worker can be started at all, the machine is at fault: [`SessionError::Machine`].
//!
//! # Windows
//!
//! Checking each step would cost a quarter of its time. So the steps of a batch are made and
//! checked in *windows*: nobody learns of a window's steps before one check of all that they
//! changed has passed. A window in which anything fails is played again in *careful mode*, which
//! checks and reports each action at once. Only the last state of a window is checked as a whole: a
//! function that one action breaks and a later one of the same window deletes or mends is not
//! noticed. Actions that are known to break programs are therefore windows of their own.
//!
//! # Threads
//!
//! A session and its forks belong to one thread at a time. A batch holds the worker until its last
//! step is visited. So a visitor that waits for another thread's use of a fork, as recorders wait
//! for each other to write the same state, would wait forever.
//!
//! # Limits
//!
//! Limits are on CPU time, since wall time on a busy machine says little about the compiler. A
//! longer limit on wall time, derived from the former, catches workers that sleep; waiting for a
//! core does not count. All limits are in `limits`.

mod child;
mod episode_record;
mod flight_recorder;
mod heap;
mod limits;
mod player;
mod process;
mod session;
mod supervisor;
mod way_back;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The argument with which a program is executed as a worker.
pub const COMMAND: &str = "worker";

pub use child::serve;
pub use heap::heap_holes;
pub use limits::WorkerConfig;
pub(super) use wire::WireFailure;
pub use wire::{fuzz_messages, fuzz_seeds};

use self::session::WorkerSession;
use self::supervisor::{SharedWorker, SupervisedWorker};
use super::{Environment, Session, SessionError};
use steplake_model::EnvironmentSpec;

/// An environment whose sessions live in worker processes.
///
/// It knows only the spec of the environment that it wraps: ask that one about datasets, the front
/// end, choices and keyframes.
#[derive(Debug)]
pub struct WorkerEnvironment {
    spec: Arc<EnvironmentSpec>,
    config: WorkerConfig,
    repeated_windows: Arc<AtomicU64>,
}

impl WorkerEnvironment {
    /// Runs workers for the environment of `spec`, whose name the binary must know.
    pub fn new(spec: EnvironmentSpec, config: WorkerConfig) -> Self {
        Self { spec: Arc::new(spec), config, repeated_windows: Arc::default() }
    }

    /// Opens a session whose worker comes up with its first use.
    fn session_within(
        &self,
        config: WorkerConfig,
        repeated_windows: Arc<AtomicU64>,
    ) -> Box<dyn Session> {
        let worker = SupervisedWorker {
            environment: self.spec.name.clone(),
            build: wire::build(&self.spec),
            process: None,
            generation: 0,
            session_next: 0,
            config,
            repeated_windows,
        };
        let worker = Arc::new(SharedWorker::new(worker));
        Box::new(WorkerSession::new(Arc::clone(&self.spec), worker))
    }
}

impl Environment for WorkerEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(self.session_within(self.config.clone(), Arc::clone(&self.repeated_windows)))
    }

    fn audit_session(&self) -> Result<Option<Box<dyn Session>>, SessionError> {
        let config = self.config.clone().of_an_audit();
        Ok(Some(self.session_within(config, Arc::default())))
    }

    fn repeated_windows(&self) -> u64 {
        self.repeated_windows.load(Ordering::Relaxed)
    }
}
