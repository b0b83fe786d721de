//! Sessions in child processes: a compiler that crashes, hangs or eats memory takes nothing else with it.
//!
//! [`WorkerEnvironment`] has the spec of the environment that it wraps; each session that it opens has a
//! worker of its own (this program, executed again as `steplake worker …`), which forks of the session
//! share. A worker that dies over an action is an
//! [`Outcome::Crashed`](crate::model::Outcome::Crashed) with the reason, and one that dies over a program
//! a [`SessionError::StartFailed`]; the next [`Session::start`] brings up another. Sessions that shared
//! the worker are brought back by playing their actions again, and so is the session itself when somebody
//! else killed the worker: that says nothing about the compiler.
//!
//! A session and its forks belong to one thread at a time. A batch holds their worker until its last step is
//! visited: a visitor that waits for something that another thread does with a fork, as recorders wait for
//! who else is writing the same state down, would wait for ever.
//!
//! Limits are on CPU time, since wall time on a busy machine says little about the compiler; a longer
//! limit on wall time catches what sleeps.

mod child;
mod episode;
mod flight;
mod process;
mod wire;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use child::serve;
pub use wire::{fuzz_messages, fuzz_seeds};

use self::episode::Episode;
use self::process::{Death, Process};
use self::wire::{Reply, Request, WireStart, WireValue};
use super::{Environment, KeyframeCount, Session, SessionError, Start, Started, Visit};
use crate::model::{
    ActionIndex, Baselines, EnvironmentSpec, ObservationIndex, StateId, Step, Value,
};

/// How often in a row a worker is brought back that was ended from outside. Beyond it, something on this
/// machine ends it on purpose: a step counts as failed, and a start is an error.
const RESTARTS_MAX: u32 = 3;

/// How workers are run.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The steplake binary.
    pub program: PathBuf,
    /// The CPU time that one step may take, observations included.
    pub step_cpu_max: Duration,
    /// The time that one step may take on the clock, for workers that sleep.
    pub step_wall_max: Duration,
    /// The address space that a worker may have, in bytes.
    pub memory_bytes_max: u64,
}

impl WorkerConfig {
    /// The usual limits for workers that run `program`: 20 s of CPU time, 120 s on the clock, 4 GiB.
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            step_cpu_max: Duration::from_secs(20),
            step_wall_max: Duration::from_mins(2),
            memory_bytes_max: 4 << 30,
        }
    }
}

/// An environment whose sessions live in worker processes.
#[derive(Debug)]
pub struct WorkerEnvironment {
    spec: Arc<EnvironmentSpec>,
    config: WorkerConfig,
}

impl WorkerEnvironment {
    /// Workers for the environment of `spec`, which the binary must know by its name.
    pub fn new(spec: EnvironmentSpec, config: WorkerConfig) -> Self {
        Self { spec: Arc::new(spec), config }
    }
}

impl Environment for WorkerEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        let worker =
            Worker { process: None, generation: 0, session_next: 0, config: self.config.clone() };
        Ok(Box::new(WorkerSession {
            spec: Arc::clone(&self.spec),
            worker: Arc::new(Mutex::new(worker)),
            number: 0,
            generation: 0,
            episode: None,
        }))
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

    fn is_alive(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_alive)
    }

    fn ask(
        &mut self,
        environment: &'static str,
        request: &Request,
    ) -> Result<Reply, WorkerTrouble> {
        let process = self.process(environment)?;
        process.send(request);
        match process.receive() {
            Ok(Reply::Error(error)) => {
                Err(WorkerTrouble::Error(error.into_session_error(environment)))
            }
            Ok(reply) => Ok(reply),
            Err(death) => {
                self.process = None;
                Err(WorkerTrouble::Death(death))
            }
        }
    }
}

/// How the answers to a batch ended.
enum Batch {
    Done,
    Death(Death),
}

enum WorkerTrouble {
    Error(SessionError),
    Death(Death),
}

impl From<SessionError> for WorkerTrouble {
    fn from(error: SessionError) -> Self {
        Self::Error(error)
    }
}

impl From<WorkerTrouble> for SessionError {
    fn from(trouble: WorkerTrouble) -> Self {
        match trouble {
            WorkerTrouble::Error(error) => error,
            WorkerTrouble::Death(death) => Self::Worker(death.failure.detail),
        }
    }
}

#[derive(Debug)]
struct WorkerSession {
    spec: Arc<EnvironmentSpec>,
    worker: Arc<Mutex<Worker>>,
    number: u32,
    generation: u64,
    episode: Option<Episode>,
}

/// A worker is valid at every instant: a panic of another holder leaves nothing half done.
fn lock(worker: &Mutex<Worker>) -> MutexGuard<'_, Worker> {
    worker.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WorkerSession {
    /// Makes sure that a living worker holds this session's state, again where that one was ended from
    /// outside too.
    fn bring_back(&mut self) -> Result<(), SessionError> {
        let mut restarts = 0;
        loop {
            match self.try_bring_back() {
                Ok(()) => return Ok(()),
                Err(WorkerTrouble::Death(death))
                    if death.from_outside && restarts < RESTARTS_MAX =>
                {
                    restarts += 1;
                }
                Err(trouble) => return Err(trouble.into()),
            }
        }
    }

    fn try_bring_back(&mut self) -> Result<(), WorkerTrouble> {
        let environment = self.spec.name;
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        let mut worker = lock(&self.worker);
        worker.process(environment)?;
        if self.generation == worker.generation {
            return Ok(());
        }
        let mut state = match worker.ask(environment, &episode.start_request(self.number))? {
            Reply::Started { state, .. } => StateId(state),
            other => return Err(unexpected(&other).into()),
        };
        let process = worker.process(environment)?;
        // Whoever watches has seen these states: they are to be new to nobody, and sent to nobody.
        let (session, actions) = (self.number, episode.actions.clone());
        process.send(&Request::Steps { session, actions, changes: None });
        loop {
            match process.receive() {
                Ok(Reply::Step { step, .. }) => {
                    state = Step::from(step).outcome.state().unwrap_or(state);
                }
                Ok(Reply::Done) => break,
                Ok(Reply::Error(error)) => {
                    return Err(error.into_session_error(environment).into());
                }
                Ok(other) => return Err(unexpected(&other).into()),
                Err(death) => {
                    worker.process = None;
                    return Err(WorkerTrouble::Death(death));
                }
            }
        }
        if state != episode.state {
            let wanted = episode.state;
            let detail = format!("playing its actions again led to {state} instead of {wanted}");
            return Err(SessionError::Worker(detail).into());
        }
        self.generation = worker.generation;
        Ok(())
    }

    /// Asks about the present state, again where the worker was ended from outside.
    fn ask(&mut self, request: impl Fn(u32) -> Request) -> Result<Reply, SessionError> {
        let mut restarts = 0;
        loop {
            self.bring_back()?;
            match lock(&self.worker).ask(self.spec.name, &request(self.number)) {
                Ok(reply) => return Ok(reply),
                Err(WorkerTrouble::Death(death))
                    if death.from_outside && restarts < RESTARTS_MAX =>
                {
                    restarts += 1;
                }
                Err(trouble) => return Err(trouble.into()),
            }
        }
    }

    /// Sends what is pending of a batch and hands the steps to `visit` as they come.
    fn batch(
        &mut self,
        pending: &mut VecDeque<u16>,
        visit: &mut Visit<'_>,
    ) -> Result<Batch, SessionError> {
        let environment = self.spec.name;
        let shared = Arc::clone(&self.worker);
        let mut worker = lock(&shared);
        let actions = pending.iter().copied().collect();
        let changes = self.episode.as_ref().map(|episode| episode.count.changes());
        let request = Request::Steps { session: self.number, actions, changes };
        worker.process(environment)?.send(&request);
        while let Some(process) = &mut worker.process {
            match process.receive() {
                Ok(Reply::Step { step, observed }) => {
                    let (step, observed) = (Step::from(step), values(observed));
                    let outcome = step.outcome.clone();
                    let flow = visit(step, &mut |space| take(&observed, space));
                    let action = ActionIndex(pending.pop_front().unwrap_or(u16::MAX));
                    let before = self.episode.take();
                    self.episode = before
                        .and_then(|episode| episode.after(action, &outcome, observed, &self.spec));
                    if !matches!(flow, Ok(ControlFlow::Continue(()))) {
                        // The rest of the batch is of no use, and the worker is still at it.
                        worker.process = None;
                        return flow.map(|_| Batch::Done);
                    }
                }
                Ok(Reply::Done) => break,
                Ok(Reply::Error(error)) => return Err(error.into_session_error(environment)),
                Ok(other) => return Err(unexpected(&other)),
                Err(death) => {
                    worker.process = None;
                    return Ok(Batch::Death(death));
                }
            }
        }
        Ok(Batch::Done)
    }

    /// What the death of the worker means for the step under way.
    fn crashed(&mut self, death: Death) -> Result<Step, SessionError> {
        self.episode = None;
        if !death.note.in_step() {
            return Err(SessionError::Worker(death.failure.detail));
        }
        tracing::debug!(detail = death.failure.detail, "a worker died over an action");
        Ok(Step::failed(death.failure, self.spec.reward_spaces.len(), Duration::ZERO))
    }
}

impl Session for WorkerSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.episode = None;
        let environment = self.spec.name;
        let mut worker = lock(&self.worker);
        let request = Request::Start { session: self.number, start: WireStart::new(start) };
        let mut restarts = 0;
        let reply = loop {
            let has_a_past = worker.is_alive();
            worker.process(environment)?.forget_output();
            match worker.ask(environment, &request) {
                Ok(reply) => break reply,
                Err(WorkerTrouble::Error(error)) => return Err(error),
                Err(WorkerTrouble::Death(death)) if death.from_outside => {
                    restarts += 1;
                    if restarts > RESTARTS_MAX {
                        return Err(WorkerTrouble::Death(death).into());
                    }
                }
                // It may have died of an earlier episode: only a fresh worker tells about the program.
                Err(WorkerTrouble::Death(_)) if has_a_past => {}
                Err(WorkerTrouble::Death(Death { failure, .. })) => {
                    let uri = start.benchmark.uri.to_string();
                    return Err(SessionError::StartFailed { uri, failure });
                }
            }
        };
        let Reply::Started { state, baselines, observed } = reply else {
            return Err(unexpected(&reply));
        };
        self.generation = worker.generation;
        let (state, baselines) = (StateId(state), Baselines(baselines));
        self.episode = Some(Episode {
            benchmark: start.benchmark.clone(),
            action_space: start.action_space.to_owned(),
            baselines: baselines.clone(),
            watch: start.watch.clone(),
            actions: Vec::new(),
            state,
            count: KeyframeCount::default(),
            observed: values(observed),
        });
        Ok(Started { state, baselines })
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let mut taken = None;
        self.multistep(&[action], &mut |step, _| {
            taken = Some(step);
            Ok(ControlFlow::Continue(()))
        })?;
        taken.ok_or_else(|| SessionError::Worker("an action was not answered".into()))
    }

    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut Visit<'_>,
    ) -> Result<(), SessionError> {
        let mut pending: VecDeque<u16> = actions.iter().map(|action| action.0).collect();
        let mut restarts = 0;
        while !pending.is_empty() {
            self.bring_back()?;
            let left = pending.len();
            match self.batch(&mut pending, visit)? {
                Batch::Done => break,
                Batch::Death(death) if death.from_outside && restarts < RESTARTS_MAX => {
                    restarts = if pending.len() < left { 0 } else { restarts + 1 };
                }
                Batch::Death(death) => {
                    let step = self.crashed(death)?;
                    return visit(step, &mut |space| take(&[], space)).map(drop);
                }
            }
        }
        Ok(())
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        if let Some((_, value)) = episode.observed.iter().find(|(known, _)| *known == space) {
            return Ok(value.clone());
        }
        match self.ask(|session| Request::Observe { session, space: space.0 })? {
            Reply::Value(value) => Ok(value.into()),
            other => Err(unexpected(&other)),
        }
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let number = {
            let mut worker = lock(&self.worker);
            worker.session_next += 1;
            worker.session_next
        };
        match self.ask(|session| Request::Fork { session, fork: number })? {
            Reply::Done => Ok(Box::new(Self {
                spec: Arc::clone(&self.spec),
                worker: Arc::clone(&self.worker),
                number,
                generation: self.generation,
                episode: self.episode.as_ref().map(Episode::fork),
            })),
            other => Err(unexpected(&other)),
        }
    }
}

impl Drop for WorkerSession {
    fn drop(&mut self) {
        let mut worker = lock(&self.worker);
        if self.generation == worker.generation
            && let Some(process) = &mut worker.process
            && process.is_alive()
        {
            process.send(&Request::End { session: self.number });
            if process.receive().is_err() {
                worker.process = None;
            }
        }
    }
}

fn unexpected(reply: &Reply) -> SessionError {
    SessionError::Worker(format!("a reply out of turn: {reply:?}"))
}

fn values(observed: Vec<(u8, WireValue)>) -> Vec<(ObservationIndex, Value)> {
    observed.into_iter().map(|(space, value)| (ObservationIndex(space), value.into())).collect()
}

/// Gives out a value that came along with a step.
fn take(
    observed: &[(ObservationIndex, Value)],
    space: ObservationIndex,
) -> Result<Value, SessionError> {
    let found = observed.iter().find(|(known, _)| *known == space);
    found.map(|(_, value)| value.clone()).ok_or_else(|| {
        SessionError::Worker("the value did not come along and its state has passed".into())
    })
}
