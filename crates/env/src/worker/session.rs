//! The supervisor's side of a session: batches, and how to find out whose fault a failure is.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::episode_record::EpisodeRecord;
use super::process::{WorkerDeath, WorkerProcess, WorkerTrouble};
use super::supervisor::{RESTARTS_MAX, SharedWorker, demand_free};
use super::wire::{self, Reply, WireStart, WorkerRequest};
use crate::{KeyframeCount, Session, SessionError, Start, Started, Visit};
use steplake_model::{
    ActionIndex, Baselines, EnvironmentSpec, Failure, ObservationIndex, ObservationSpace, Outcome,
    StateId, Step, Value,
};

#[derive(Debug)]
pub(super) struct WorkerSession {
    pub(super) spec: Arc<EnvironmentSpec>,
    pub(super) worker: Arc<SharedWorker>,
    pub(super) number: u32,
    pub(super) generation: u64,
    pub(super) episode: Option<EpisodeRecord>,
    /// How often the worker was ended from outside since its last answer.
    pub(super) ended: u32,
}

/// How a batch ended.
enum BatchEnd {
    /// All actions were played, or the episode is over.
    Done,
    /// The visitor broke off.
    Stopped,
    /// An action, or a check, failed.
    Failed(Suspects),
    /// Somebody else ended the worker.
    Ended(WorkerDeath),
}

/// A failure of one of the next `count` pending actions.
struct Suspects {
    count: usize,
    failure: Failure,
}

impl WorkerSession {
    pub(super) fn new(spec: Arc<EnvironmentSpec>, worker: Arc<SharedWorker>) -> Self {
        Self { spec, worker, number: 0, generation: 0, episode: None, ended: 0 }
    }

    /// Counts a death from outside; fails if there are too many in a row.
    pub(super) fn note_end(&mut self, death: &WorkerDeath) -> Result<(), SessionError> {
        self.ended += 1;
        if self.ended <= RESTARTS_MAX {
            return Ok(());
        }
        Err(SessionError::Machine(format!(
            "a worker was ended from outside {} times in a row, at last by {}: this machine may be \
             short of memory; free some, or use fewer jobs",
            self.ended, death.failure.detail
        )))
    }

    /// Calls `ask` until a worker answers. If a worker dies of the request, asks a fresh one; if
    /// that dies too, returns why. A worker that was ended from outside does not count.
    fn insist(
        &mut self,
        ask: impl Fn(&mut Self) -> Result<Reply, WorkerTrouble>,
    ) -> Result<Result<Reply, Failure>, SessionError> {
        let mut has_failed = false;
        loop {
            match ask(self) {
                Ok(reply) => {
                    self.ended = 0;
                    return Ok(Ok(reply));
                }
                Err(WorkerTrouble::Error(error)) => return Err(error),
                Err(WorkerTrouble::Death(death)) if death.is_from_outside => {
                    self.note_end(&death)?;
                }
                Err(WorkerTrouble::Death(_)) if !has_failed => has_failed = true,
                Err(WorkerTrouble::Death(death)) => return Ok(Err(death.failure)),
            }
        }
    }

    /// Asks about the present state. `failed` is the error if two workers die of it.
    fn ask(
        &mut self,
        request: impl Fn(u32) -> WorkerRequest,
        failed: impl FnOnce(Failure) -> SessionError,
    ) -> Result<Reply, SessionError> {
        demand_free(&self.worker)?;
        self.worker.lock().end_other_announcement(&[]);
        let answer = self.insist(|session| {
            if session.episode.is_some() {
                session.bring_back()?;
            }
            let mut worker = session.worker.lock();
            if session.episode.is_none() {
                worker.process()?;
            }
            let wall_max = worker.config.step_wall_max();
            worker.ask(&request(session.number), wall_max)
        });
        answer?.map_err(failed)
    }

    /// Measures a baseline on request, which may take as long as a start. A worker that was brought
    /// back to a later state of the episode lacks the first state of the program, so it begins the
    /// program once more, in a session of its own.
    fn measure_baseline(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        demand_free(&self.worker)?;
        self.worker.lock().end_other_announcement(&[]);
        let space = space.0;
        let answer = self.insist(|session| {
            session.bring_back()?;
            let later = session.episode.as_ref().filter(|episode| episode.start.steps > 0);
            let first = later.map(|episode| WireStart::clone(&episode.first));
            let mut worker = session.worker.lock();
            let wall_max = worker.config.start_wall_max();
            let Some(start) = first else {
                return worker
                    .ask(&WorkerRequest::Observe { session: session.number, space }, wall_max);
            };
            worker.session_next += 1;
            let session = worker.session_next;
            worker.ask(&WorkerRequest::Start { session, start }, wall_max)?;
            let reply = worker.ask(&WorkerRequest::Observe { session, space }, wall_max);
            // A worker that lives on would keep the program.
            let is_gone = matches!(
                reply,
                Err(WorkerTrouble::Death(_) | WorkerTrouble::Error(SessionError::Interrupted))
            );
            if !is_gone {
                worker.ask(&WorkerRequest::End { session }, wall_max)?;
            }
            reply
        });
        match answer?.map_err(SessionError::Unobservable)? {
            Reply::Value(value) => Ok(value),
            other => Err(unexpected(&other)),
        }
    }

    /// Plays the first `count` pending actions. If the worker is ended from outside, continues in
    /// another.
    fn play(
        &mut self,
        pending: &mut VecDeque<u32>,
        count: usize,
        window: Option<NonZeroU32>,
        visit: &mut Visit<'_>,
    ) -> Result<BatchEnd, SessionError> {
        let left_after = pending.len() - count;
        loop {
            self.bring_back()?;
            let count = pending.len() - left_after;
            match self.batch(pending, count, window, visit)? {
                BatchEnd::Ended(death) => self.note_end(&death)?,
                other => return Ok(other),
            }
        }
    }

    fn steps(&self, actions: Vec<u32>, window: Option<NonZeroU32>) -> WorkerRequest {
        let changes = self.episode.as_ref().map(|episode| episode.count.changes());
        WorkerRequest::Steps { session: self.number, actions, changes, window }
    }

    /// Sends the first `count` pending actions, unless they were announced, and hands the steps to
    /// `visit` as they come. Visited actions are confirmed, and no longer pending.
    fn batch(
        &mut self,
        pending: &mut VecDeque<u32>,
        count: usize,
        window: Option<NonZeroU32>,
        visit: &mut Visit<'_>,
    ) -> Result<BatchEnd, SessionError> {
        let shared = Arc::clone(&self.worker);
        let mut worker = shared.lock();
        let wall_max = worker.config.step_wall_max();
        let actions = pending.iter().copied().take(count).collect();
        let process = worker.last_process()?;
        if process.announced.take().is_none() {
            process.send(&self.steps(actions, window));
        }
        let mut visited = 0;
        let failed = loop {
            // Once the last step is visited, it is taken, and an interrupt must not say otherwise.
            let reply = if visited < count {
                process.receive(wall_max)
            } else {
                process.receive_anyway(wall_max)
            };
            match reply {
                Ok(Reply::Step { step, observed }) => {
                    let outcome = step.outcome.clone();
                    if let Outcome::Crashed(failure) = outcome {
                        break BatchEnd::Failed(Suspects { count: 1, failure });
                    }
                    let flow = visit(step, &mut |space| take(&observed, space));
                    let action = ActionIndex(pending.pop_front().unwrap_or(u32::MAX));
                    (visited, self.ended) = (visited + 1, 0);
                    let before = self.episode.take();
                    self.episode =
                        before.and_then(|one| one.after(action, &outcome, observed, &self.spec));
                    if !matches!(flow, Ok(ControlFlow::Continue(()))) {
                        // Nobody needs the rest of the batch, and the worker is still playing it.
                        worker.renew();
                        return flow.map(|_| BatchEnd::Stopped);
                    }
                }
                Ok(Reply::Done) => return Ok(BatchEnd::Done),
                Ok(Reply::Broken(failure)) => {
                    let count = suspects(process.begun(), visited, count);
                    break BatchEnd::Failed(Suspects { count, failure });
                }
                Err(WorkerTrouble::Error(error)) => {
                    // The worker may be a step ahead of what was reported.
                    if !matches!(error, SessionError::InvalidAction { .. }) {
                        worker.renew();
                    }
                    return Err(error);
                }
                Ok(other) => {
                    worker.renew();
                    return Err(unexpected(&other));
                }
                Err(WorkerTrouble::Death(death)) if death.is_from_outside => {
                    break BatchEnd::Ended(death);
                }
                Err(WorkerTrouble::Death(WorkerDeath { failure, begun, .. })) => {
                    let count = suspects(begun, visited, count);
                    break BatchEnd::Failed(Suspects { count, failure });
                }
            }
        };
        worker.renew();
        Ok(failed)
    }

    /// Finds out whose fault a failure is, by playing the suspects in fresh workers in careful
    /// mode. Breaks with the step that failed. Continues if the suspects succeed this time; they
    /// are visited then.
    ///
    /// A failure is believed if a fresh worker fails at the same action as the worker before it. If
    /// it fails at an earlier one, that action becomes the suspect of another fresh worker.
    fn judge(
        &mut self,
        pending: &mut VecDeque<u32>,
        mut suspects: Suspects,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<Option<Step>>, SessionError> {
        let rewards = self.spec.reward_spaces.len();
        let failed =
            |failure| ControlFlow::Break(Some(Step::failed(failure, rewards, Duration::ZERO)));
        if suspects.count == 0 {
            // The worker died after the last action was confirmed.
            return Ok(ControlFlow::Continue(()));
        }
        while suspects.count > 0 {
            tracing::debug!(
                suspects = suspects.count,
                detail = suspects.failure.detail,
                "something failed, and is played again in a fresh worker"
            );
            let before = pending.len();
            match self.play(pending, suspects.count, None, visit)? {
                BatchEnd::Stopped => return Ok(ControlFlow::Break(None)),
                BatchEnd::Failed(again) => {
                    let got_on = before - pending.len();
                    if got_on + 1 == suspects.count {
                        return Ok(failed(again.failure));
                    }
                    suspects = again;
                }
                BatchEnd::Done | BatchEnd::Ended(_) => break,
            }
        }
        self.worker.lock().repeated_windows.fetch_add(1, Ordering::Relaxed);
        let detail = suspects.failure.detail;
        tracing::info!(detail, "a failure did not repeat in a fresh worker");
        Ok(ControlFlow::Continue(()))
    }

    /// Starts an episode in the present worker; if that fails, once more in a fresh one.
    fn ask_for_start(&mut self, start: &Start<'_>) -> Result<Reply, SessionError> {
        let request =
            WorkerRequest::Start { session: self.number, start: WireStart::new(start, &self.spec) };
        let shared = Arc::clone(&self.worker);
        {
            let mut worker = shared.lock();
            worker.end_other_announcement(&[]);
            if worker.process.as_ref().is_some_and(WorkerProcess::is_cluttered) {
                worker.renew();
            }
        }
        let answer = self.insist(|session| {
            let mut worker = shared.lock();
            worker.process()?.forget_output();
            let wall_max = worker.config.start_wall_max();
            let reply = worker.ask(&request, wall_max)?;
            session.generation = worker.generation;
            Ok(reply)
        });
        let uri = start.benchmark.uri.to_string();
        answer?.map_err(|failure| SessionError::StartFailed { uri, failure })
    }
}

impl Session for WorkerSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        demand_free(&self.worker)?;
        self.episode = None;
        wire::demand_sendable(start.benchmark)?;
        let reply = self.ask_for_start(start)?;
        let Reply::Started { state, baselines, observed } = reply else {
            return Err(unexpected(&reply));
        };
        let mut start = WireStart::new(start, &self.spec);
        (start.baselines, start.is_observed) = (Some(baselines.clone()), true);
        let (start, actions) = (Arc::new(start), Vec::new());
        let (first, count) = (Arc::clone(&start), KeyframeCount::default());
        self.episode = Some(EpisodeRecord { first, start, actions, state, count, observed });
        Ok(Started { state, baselines: Baselines(baselines) })
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
        demand_free(&self.worker)?;
        let mut pending: VecDeque<u32> = actions.iter().map(|action| action.0).collect();
        let window = {
            let mut worker = self.worker.lock();
            worker.end_other_announcement(pending.make_contiguous());
            worker.config.window_changes_max
        };
        while !pending.is_empty() {
            let count = pending.len();
            let BatchEnd::Failed(suspects) = self.play(&mut pending, count, window, visit)? else {
                break;
            };
            match self.judge(&mut pending, suspects, visit)? {
                ControlFlow::Continue(()) if self.episode.is_some() => {}
                ControlFlow::Continue(()) | ControlFlow::Break(None) => break,
                ControlFlow::Break(Some(step)) => {
                    self.episode = None;
                    return visit(step, &mut |space| take(&[], space)).map(drop);
                }
            }
        }
        Ok(())
    }

    fn announce(&mut self, actions: &[ActionIndex]) {
        let shared = Arc::clone(&self.worker);
        // This session and this call; no fork that would wait for the worker meanwhile.
        let is_shared = Arc::strong_count(&shared) > 2;
        let Some(mut worker) = shared.try_lock() else { return };
        if actions.is_empty() {
            return worker.end_other_announcement(&[]);
        }
        let (window, generation) = (worker.config.window_changes_max, worker.generation);
        // A worker that has to be brought back first is left to the call that follows.
        let is_ready = self.episode.is_some() && self.generation == generation;
        if let Some(process) = &mut worker.process
            && (is_ready && !is_shared)
            && process.announced.is_none()
        {
            let actions: Vec<u32> = actions.iter().map(|action| action.0).collect();
            process.send(&self.steps(actions.clone(), window));
            process.announced = Some(actions);
        }
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        if let Some(value) = find(&episode.observed, space) {
            return Ok(value);
        }
        let is_baseline = |own: &ObservationSpace| own.of_benchmark && own.on_request;
        if self.spec.observation_space(space).is_some_and(is_baseline) {
            return self.measure_baseline(space);
        }
        let request = |session| WorkerRequest::Observe { session, space: space.0 };
        match self.ask(request, SessionError::Unobservable)? {
            Reply::Value(value) => Ok(value),
            other => Err(unexpected(&other)),
        }
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        match self
            .ask(|session| WorkerRequest::Identify { session, state: state.to_vec() }, lost)?
        {
            Reply::Identified(id) => Ok(id),
            other => Err(unexpected(&other)),
        }
    }

    fn text(&mut self, state: &[u8]) -> Result<String, SessionError> {
        match self.ask(|session| WorkerRequest::Text { session, state: state.to_vec() }, lost)? {
            Reply::Text(text) => Ok(text),
            other => Err(unexpected(&other)),
        }
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        if self.episode.is_none() {
            return Err(SessionError::NoEpisode);
        }
        demand_free(&self.worker)?;
        let number = {
            let mut worker = self.worker.lock();
            worker.session_next += 1;
            worker.session_next
        };
        match self.ask(|session| WorkerRequest::Fork { session, fork: number }, lost)? {
            Reply::Done => Ok(Box::new(Self {
                spec: Arc::clone(&self.spec),
                worker: Arc::clone(&self.worker),
                number,
                generation: self.generation,
                episode: self.episode.as_ref().map(EpisodeRecord::fork),
                ended: 0,
            })),
            other => Err(unexpected(&other)),
        }
    }
}

impl Drop for WorkerSession {
    fn drop(&mut self) {
        // A worker at work is not waited for: who drops this session may be who waits for it. It
        // keeps the session until its own end.
        let Some(mut worker) = self.worker.try_lock() else { return };
        worker.end_other_announcement(&[]);
        let wall_max = worker.config.step_wall_max();
        if self.generation == worker.generation
            && let Some(process) = &mut worker.process
            && process.is_alive()
        {
            process.send(&WorkerRequest::End { session: self.number });
            if process.receive_anyway(wall_max).is_err() {
                worker.renew();
            }
        }
    }
}

/// Returns how many of the actions not yet visited may have failed, for a request of `count`
/// actions of which `begun` were begun.
fn suspects(begun: u64, visited: usize, count: usize) -> usize {
    let begun = usize::try_from(begun).unwrap_or(usize::MAX);
    begun.clamp((visited + 1).min(count), count) - visited
}

/// The error for a worker that dies of a question that runs no compiler.
fn lost(failure: Failure) -> SessionError {
    SessionError::Worker(failure.detail)
}

pub(super) fn unexpected(reply: &Reply) -> SessionError {
    SessionError::Worker(format!("a reply out of turn: {reply:?}"))
}

fn find(observed: &[(u8, Value)], space: ObservationIndex) -> Option<Value> {
    let found = observed.iter().find(|(known, _)| *known == space.0);
    found.map(|(_, value)| value.clone())
}

/// Returns a value that was sent along with a step.
fn take(observed: &[(u8, Value)], space: ObservationIndex) -> Result<Value, SessionError> {
    find(observed, space).ok_or_else(|| {
        SessionError::Worker("the value did not come along and its state has passed".into())
    })
}
