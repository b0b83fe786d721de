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
//! [`Outcome::Crashed`](crate::model::Outcome::Crashed) with the fresh worker's reason or, on a
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
//! checks and reports each action at once.
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
mod episode;
mod flight;
mod limits;
mod player;
mod process;
mod session;
mod way_back;
mod wire;

use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use child::serve;
pub use wire::{fuzz_messages, fuzz_seeds};

use self::process::{Blame, Death, Process};
use self::session::WorkerSession;
use self::wire::{Reply, Request};
use super::{Environment, Session, SessionError};
use crate::model::EnvironmentSpec;

/// How often in a row a worker is brought back that was ended from outside. If it is ended once
/// more, something on this machine does so on purpose.
const RESTARTS_MAX: u32 = 3;

/// The default number of changes of state after which a window ends.
const WINDOW_CHANGES_MAX: NonZeroU32 = NonZeroU32::new(16).expect("16 is not 0");

/// How workers are run.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The path of the steplake binary.
    pub program: PathBuf,
    /// The CPU time that one step may take. The check of a step or a window may take as much, and
    /// so may the observation of a state. The other limits on time follow from it.
    pub step_cpu_max: Duration,
    /// The address space of a worker, in bytes.
    pub memory_bytes_max: u64,
    /// The number of changes of state after which a window ends. If none, everything is played in
    /// careful mode.
    pub window_changes_max: Option<NonZeroU32>,
}

impl WorkerConfig {
    /// Returns the usual limits for workers that run `program`: 20 s of CPU time, 4 GiB.
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            step_cpu_max: Duration::from_secs(20),
            memory_bytes_max: 4 << 30,
            window_changes_max: Some(WINDOW_CHANGES_MAX),
        }
    }

    /// Returns the limits that decide whether a program can be started, as text.
    pub fn limits(&self) -> String {
        format!("{} ms of CPU time, {} bytes", self.step_cpu_max.as_millis(), self.memory_bytes_max)
    }

    /// The CPU time that the start of a program may take, with the compiler's own pipelines over
    /// it.
    pub fn start_cpu_max(&self) -> Duration {
        limits::start_cpu(self.step_cpu_max)
    }

    /// Returns the wall time that one step may take, a limit for workers that sleep.
    pub fn step_wall_max(&self) -> Duration {
        limits::wall(self.step_cpu_max)
    }

    /// Returns the wall time that the start of a program may take.
    pub fn start_wall_max(&self) -> Duration {
        limits::wall(self.start_cpu_max())
    }
}

/// An environment whose sessions live in worker processes.
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
}

impl Environment for WorkerEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        let worker = Worker {
            process: None,
            generation: 0,
            session_next: 0,
            config: self.config.clone(),
            repeated_windows: Arc::clone(&self.repeated_windows),
        };
        let worker = Arc::new(Mutex::new(worker));
        Ok(Box::new(WorkerSession::new(Arc::clone(&self.spec), worker)))
    }

    fn repeated_windows(&self) -> u64 {
        self.repeated_windows.load(Ordering::Relaxed)
    }
}

/// A worker process, and what is needed to bring it back.
#[derive(Debug)]
struct Worker {
    process: Option<Process>,
    /// The number of processes so far.
    generation: u64,
    session_next: u32,
    config: WorkerConfig,
    repeated_windows: Arc<AtomicU64>,
}

impl Worker {
    /// Returns the live process, and starts one if there is none.
    fn process(&mut self, environment: &'static str) -> Result<&mut Process, SessionError> {
        if self.process.as_mut().is_none_or(|process| !process.is_alive()) {
            let mut process = Process::spawn(environment, &self.config);
            for _ in 0..RESTARTS_MAX {
                if process.as_ref().is_err_and(|error| error.kind() == ErrorKind::Interrupted) {
                    process = Process::spawn(environment, &self.config);
                }
            }
            let process = process.map_err(|error| {
                let detail = format!("its worker did not come up: {error}");
                SessionError::Unavailable { environment, detail }
            })?;
            self.generation += 1;
            self.process = Some(process);
        }
        Ok(self.process.as_mut().expect("it was just put there"))
    }

    /// Returns the last process, alive or not. A caller that relies on the process's sessions must
    /// learn of its death rather than get a fresh one without them.
    fn last_process(&mut self, environment: &'static str) -> Result<&mut Process, SessionError> {
        if self.process.is_none() {
            self.process(environment)?;
        }
        Ok(self.process.as_mut().expect("it is there, or was just put there"))
    }

    /// Ends the process, so that the next one is fresh.
    fn renew(&mut self) {
        self.process = None;
    }

    /// Sends a request to the last process and waits for the reply.
    fn ask(
        &mut self,
        environment: &'static str,
        request: &Request,
        wall_max: Duration,
    ) -> Result<Reply, WorkerTrouble> {
        let process = self.last_process(environment)?;
        process.send(request);
        match process.receive(wall_max) {
            Ok(Reply::Error(error)) => {
                Err(WorkerTrouble::Error(error.into_session_error(environment)))
            }
            Ok(reply) => Ok(reply),
            Err(death) => {
                self.renew();
                Err(death.into())
            }
        }
    }
}

enum WorkerTrouble {
    Error(SessionError),
    Death(Death),
}

impl From<Death> for WorkerTrouble {
    fn from(death: Death) -> Self {
        match death.blame {
            Blame::Ourselves => Self::Error(SessionError::Defect(death.failure.detail)),
            Blame::Compiler | Blame::Outside => Self::Death(death),
        }
    }
}

impl From<SessionError> for WorkerTrouble {
    fn from(error: SessionError) -> Self {
        Self::Error(error)
    }
}
