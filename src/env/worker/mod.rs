//! Sessions in child processes: a compiler that crashes, hangs or eats memory takes nothing else
//! with it.
//!
//! [`WorkerEnvironment`] has the spec of the environment that it wraps; each session that it opens
//! has a worker of its own (this program, executed again as `steplake worker …`), which forks of
//! the session share.
//!
//! # Who is at fault
//!
//! A worker that dies, runs past a limit or breaks its module may do so because of the compiler,
//! because of what it did before, or because of the machine. *A failure is the compiler's only if a
//! fresh worker, in which the confirmed actions were played again, shows it once more, under the
//! same limits.* Then it is an [`Outcome::Crashed`](crate::model::Outcome::Crashed) with the reason
//! that the fresh worker gives; over a program, before there is a state, a
//! [`SessionError::StartFailed`]. Where the fresh worker gets on, what it comes to is handed on as
//! if nothing had happened, and is counted ([`Environment::repeated_windows`]).
//!
//! Where an action came before that is not a pure function of the state, playing the actions again
//! may lead elsewhere. So from such an action on, each state is sent along whole, and a fresh
//! worker begins in the last one.
//!
//! A worker that panics has a defect of ours: [`SessionError::Defect`], and nothing is recorded.
//!
//! A worker that somebody else ended says nothing about the compiler. It is brought back, and its
//! sessions with it, by playing their actions again. Where that happens too often in a row, or
//! where a worker cannot be had at all, the machine is at fault: [`SessionError::Machine`].
//!
//! # Windows
//!
//! To check each step costs a quarter of its time. So the steps of a batch are made and checked by
//! *windows*: steps of which nobody is told before one check of all that they changed has passed. A
//! window in which anything is wrong is played again in *careful mode*: each action is checked and
//! reported at once.
//!
//! # Threads
//!
//! A session and its forks belong to one thread at a time. A batch holds their worker until its
//! last step is visited: a visitor that waits for something that another thread does with a fork,
//! as recorders wait for who else is writing the same state down, would wait for ever.
//!
//! # Limits
//!
//! Limits are on CPU time, since wall time on a busy machine says little about the compiler; a
//! longer limit on wall time, which follows from it, catches what sleeps: what waits for a core
//! does not. All of them are in `limits`.

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

/// How often in a row a worker is brought back that was ended from outside. Beyond it, something on
/// this machine ends it on purpose.
const RESTARTS_MAX: u32 = 3;

/// The changes of state after which a window ends, by default.
const WINDOW_CHANGES_MAX: NonZeroU32 = NonZeroU32::new(16).expect("16 is not 0");

/// How workers are run.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The steplake binary.
    pub program: PathBuf,
    /// The CPU time that one step may take; the check of it, or of a window, may take as much, and
    /// so may what is observed of the state. The other limits on time follow from it.
    pub step_cpu_max: Duration,
    /// The address space that a worker may have, in bytes.
    pub memory_bytes_max: u64,
    /// The changes of state after which a window ends; without it, all is played in careful mode.
    pub window_changes_max: Option<NonZeroU32>,
}

impl WorkerConfig {
    /// The usual limits for workers that run `program`: 20 s of CPU time, 4 GiB.
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            step_cpu_max: Duration::from_secs(20),
            memory_bytes_max: 4 << 30,
            window_changes_max: Some(WINDOW_CHANGES_MAX),
        }
    }

    /// The limits that decide whether a program can be started, as text.
    pub fn limits(&self) -> String {
        format!("{} ms of CPU time, {} bytes", self.step_cpu_max.as_millis(), self.memory_bytes_max)
    }

    /// The CPU time that the start of a program may take, with the compiler's own pipelines over
    /// it.
    pub fn start_cpu_max(&self) -> Duration {
        limits::start_cpu(self.step_cpu_max)
    }

    /// The time that one step may take on the clock, for workers that sleep.
    pub fn step_wall_max(&self) -> Duration {
        limits::wall(self.step_cpu_max)
    }

    /// The time that the start of a program may take on the clock.
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
    /// Workers for the environment of `spec`, which the binary must know by its name.
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

/// A worker process and what is needed to bring it back.
#[derive(Debug)]
struct Worker {
    process: Option<Process>,
    /// Counts the processes that there have been.
    generation: u64,
    session_next: u32,
    config: WorkerConfig,
    repeated_windows: Arc<AtomicU64>,
}

impl Worker {
    /// The living process.
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

    /// The process that there was last, alive or not: whoever counts on what it holds is to learn
    /// of its death, and not to get a fresh one that holds nothing.
    fn last_process(&mut self, environment: &'static str) -> Result<&mut Process, SessionError> {
        if self.process.is_none() {
            self.process(environment)?;
        }
        Ok(self.process.as_mut().expect("it is there, or was just put there"))
    }

    /// Ends the process: the next one is a fresh one.
    fn renew(&mut self) {
        self.process = None;
    }

    /// Asks the process that there was last.
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
