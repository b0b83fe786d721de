//! What the sessions of one worker share: its process, and the means to replace it.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::limits::WorkerConfig;
use super::process::{WorkerProcess, WorkerTrouble};
use super::wire::{Reply, WorkerRequest};
use crate::{Exclusive, SessionError};
use steplake_model::Name;

/// How often in a row a worker is brought back that was ended from outside. If it is ended once
/// more, something on this machine does so on purpose.
pub(super) const RESTARTS_MAX: u32 = 3;

/// A worker process, and what is needed to bring it back.
#[derive(Debug)]
pub(super) struct SupervisedWorker {
    pub(super) environment: Name,
    /// What its workers have to be: see [`wire::build`](super::wire::build).
    pub(super) build: String,
    pub(super) process: Option<WorkerProcess>,
    /// The number of processes so far.
    pub(super) generation: u64,
    pub(super) session_next: u32,
    pub(super) config: WorkerConfig,
    pub(super) repeated_windows: Arc<AtomicU64>,
}

/// A worker that sessions share.
pub(super) type SharedWorker = Exclusive<SupervisedWorker>;

/// Refuses a call from within another one. Whoever waits for a worker asks its interrupt, which may
/// be somebody else's code.
pub(super) fn demand_free(worker: &SharedWorker) -> Result<(), SessionError> {
    if !worker.is_mine() {
        return Ok(());
    }
    Err(SessionError::Broken(
        "this environment shares a compiler with one that is in the middle of a call of this very \
         thread: wait for its end"
            .into(),
    ))
}

impl SupervisedWorker {
    /// Returns the live process, and starts one if there is none.
    pub(super) fn process(&mut self) -> Result<&mut WorkerProcess, SessionError> {
        if self.process.as_mut().is_none_or(|process| !process.is_alive()) {
            let (environment, build) = (&self.environment, &self.build);
            let mut process = WorkerProcess::spawn(environment, build, &self.config);
            for _ in 0..RESTARTS_MAX {
                if process.as_ref().is_err_and(|error| error.kind() == ErrorKind::Interrupted) {
                    process = WorkerProcess::spawn(environment, build, &self.config);
                }
            }
            let process = process.map_err(|error| {
                if error.kind() == ErrorKind::ConnectionAborted {
                    return SessionError::Interrupted;
                }
                let detail = format!("its worker did not come up: {error}");
                SessionError::Unavailable { environment: environment.to_string(), detail }
            })?;
            self.generation += 1;
            self.process = Some(process);
        }
        Ok(self.process.as_mut().expect("it was just put there"))
    }

    /// Returns the last process, alive or not. A caller that relies on the process's sessions must
    /// learn of its death rather than get a fresh one without them.
    pub(super) fn last_process(&mut self) -> Result<&mut WorkerProcess, SessionError> {
        if self.process.is_none() {
            self.process()?;
        }
        Ok(self.process.as_mut().expect("it is there, or was just put there"))
    }

    /// Ends the process, so that the next one is fresh.
    pub(super) fn renew(&mut self) {
        self.process = None;
    }

    /// Whether the last process was sent actions whose answers nobody has heard.
    pub(super) fn is_announced(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.announced.is_some())
    }

    /// Ends the process if it plays announced actions other than `next`: its answers would be taken
    /// for those to another request.
    pub(super) fn end_other_announcement(&mut self, next: &[u32]) {
        let announced = self.process.as_ref().and_then(|process| process.announced.as_ref());
        if announced.is_some_and(|actions| actions != next) {
            self.renew();
        }
    }

    /// Sends a request to the last process and waits for the reply. A process that died is dropped.
    pub(super) fn ask(
        &mut self,
        request: &WorkerRequest,
        wall_max: Duration,
    ) -> Result<Reply, WorkerTrouble> {
        let process = self.last_process()?;
        process.send(request);
        let reply = process.receive(wall_max);
        if reply.is_err() && !process.is_alive() {
            self.renew();
        }
        reply
    }
}
