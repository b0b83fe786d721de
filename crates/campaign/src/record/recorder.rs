//! A session that also writes.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::audit::Tape;
use super::row_writer::{RowWriter, StepRows, note_end, note_failure};
use super::shared::RecorderContext;
use steplake_env::{
    KeyframeCount, Session, SessionError, Start, Started, Visit, apply_each, forward,
};
use steplake_lake::{BenchmarkRow, EpisodeRow};
use steplake_model::{
    ActionIndex, BenchmarkUri, EpisodeId, EpisodeOutcome, Failure, ObservationIndex, StateId, Step,
    Value,
};

/// When to write an episode's own row, which marks the episode as complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// At the episode's end.
    AtItsEnd,
    /// When the caller says so: [`Recorder::finish`] returns the row.
    ByCaller,
}

/// What to record about the next episodes. Without a plan, episodes are numbered as they begin, and
/// settle at their end.
#[derive(Debug, Clone)]
pub struct EpisodePlan {
    /// The place of the episode in the run; `None` for the next one.
    pub ordinal: Option<u32>,
    /// The seed of its actions.
    pub seed: i64,
    /// The name of the policy that chose its actions.
    pub policy: String,
    /// When its row is written.
    pub settle: Settle,
    /// A space that takes long to observe, and the step after which alone it is recorded: other
    /// states that are new to the lake have null there.
    pub only: Option<(ObservationIndex, u32)>,
}

impl Default for EpisodePlan {
    fn default() -> Self {
        Self { ordinal: None, seed: 0, policy: String::new(), settle: Settle::AtItsEnd, only: None }
    }
}

/// A session that records what it does. It returns exactly what the wrapped session returns, but
/// where the compiler fails on a recorded observation of [what it makes of a
/// state](steplake_model::ObservationSpace::is_compiled): a step that leads to such a state is a
/// failed step, and a start in one a failed start. A null would not say how the compiler failed.
///
/// An episode ends when the environment ends it, when the next one starts, on [`Recorder::finish`],
/// or when the recorder is dropped. A failed start is an episode without steps; if it has a state,
/// that of step 0, the compiler failed on what is recorded of this. A fork is an episode of its
/// own, which names its parent. If a step cannot be written, the episode ends before that step, and
/// the session is left alone until the next start.
pub struct Recorder {
    inner: Box<dyn Session>,
    rows: RowWriter,
    plan: EpisodePlan,
    episode: Option<OpenEpisode>,
    /// Whether the lake has all that the session did since its last start.
    is_written: bool,
    /// Numbers of the present state that were observed apart from its step, to be recorded: a
    /// caller who asks for them does not have them computed again.
    seen: Vec<(ObservationIndex, Value)>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// An open episode.
#[derive(Debug)]
struct OpenEpisode {
    /// Its row, as far as it is known.
    row: EpisodeRow,
    settle: Settle,
    only: Option<(ObservationIndex, u32)>,
    state: StateId,
    count: KeyframeCount,
    has_ended: bool,
    /// The actions of which the session knows that they may lead elsewhere.
    unreplayable: Arc<[ActionIndex]>,
}

impl Recorder {
    pub(super) fn new(inner: Box<dyn Session>, shared: Arc<RecorderContext>) -> Self {
        let rows = RowWriter::new(shared);
        Self {
            inner,
            rows,
            plan: EpisodePlan::default(),
            episode: None,
            is_written: true,
            seen: Vec::new(),
        }
    }

    /// Sets what to record about the episodes that begin from now on.
    pub fn plan(&mut self, plan: EpisodePlan) {
        self.plan = plan;
    }

    /// Records `space` in the next episode after this step only: see [`EpisodePlan::only`].
    pub fn record_only(&mut self, space: ObservationIndex, step: u32) {
        self.plan.only = Some((space, step));
    }

    /// Ends the open episode. Returns its row if it settles by its caller.
    ///
    /// # Errors
    ///
    /// [`SessionError::Recording`] if the writer has failed.
    pub fn finish(&mut self) -> Result<Option<EpisodeRow>, SessionError> {
        let tape = self.rows.tape.take();
        let Some(open) = self.episode.take() else { return Ok(None) };
        if let Some(tape) = tape {
            self.rows.shared.audit.keep(tape, &open.row);
        }
        self.close(open.row, open.settle)
    }

    /// Records a failed start: an episode that has a row, and no steps with an action. Returns the
    /// row if it settles by its caller.
    ///
    /// [`Session::start`] does this by itself, unless the episode settles by its caller.
    ///
    /// # Errors
    ///
    /// [`SessionError::Recording`] if the writer has failed.
    pub fn fail(
        &mut self,
        benchmark: &BenchmarkUri,
        failure: &Failure,
    ) -> Result<Option<EpisodeRow>, SessionError> {
        self.rows.tape = None;
        // Step 0 may have been written, if the compiler failed on its state.
        let begun = self.episode.take().map(|open| open.row);
        let mut row = begun.unwrap_or_else(|| self.next_row(benchmark.clone()));
        note_failure(&mut row, failure);
        self.close(row, self.plan.settle)
    }

    /// Returns the state of the open episode, or of a failed start that has one.
    pub fn state(&self) -> Option<StateId> {
        self.episode.as_ref().map(|open| open.state)
    }

    /// Refuses to take a step that would be missing in the lake.
    fn demand_written(&self) -> Result<(), SessionError> {
        if self.is_written { Ok(()) } else { Err(SessionError::NoEpisode) }
    }

    /// Ends an episode whose last step could not be written, with the steps before it.
    fn settle_what_was_written(&mut self) {
        self.is_written = false;
        self.rows.tape = None;
        let Some(open) = self.episode.take() else { return };
        if open.settle == Settle::ByCaller {
            return;
        }
        // If it was the writer that failed, the caller learns that from the step.
        if let Err(error) = self.close(open.row, open.settle) {
            tracing::debug!(%error, "an episode was not settled");
        }
    }

    fn close(&self, row: EpisodeRow, settle: Settle) -> Result<Option<EpisodeRow>, SessionError> {
        match settle {
            Settle::ByCaller => Ok(Some(row)),
            Settle::AtItsEnd => {
                let (shared, episode) = (&self.rows.shared, row.id);
                shared.settle(vec![row])?;
                shared.audit.hand_in(episode);
                Ok(None)
            }
        }
    }

    /// Returns the row of the next episode, without steps.
    fn next_row(&self, benchmark: BenchmarkUri) -> EpisodeRow {
        let shared = &self.rows.shared;
        let id = match self.plan.ordinal {
            Some(ordinal) => EpisodeId::new(shared.run, ordinal),
            None => shared.next_episode(),
        };
        EpisodeRow {
            seed: self.plan.seed,
            policy: self.plan.policy.clone(),
            ..EpisodeRow::new(id, benchmark)
        }
    }

    /// Returns how the compiler failed on what is recorded of the first state, if it did.
    fn begin(
        &mut self,
        begun: &Start<'_>,
        started: &Started,
    ) -> Result<Option<Failure>, SessionError> {
        let benchmark = begun.benchmark;
        let row = self.next_row(benchmark.uri.clone());
        let shared = Arc::clone(&self.rows.shared);
        let (found, benchmark_row) = shared.found(benchmark, started);
        let reservation = shared.reservations.benchmark(benchmark.uri.as_str(), &found)?;
        if reservation.is_some() {
            shared.demand_own_id(&benchmark.uri, started.state, self.inner.as_mut())?;
        }
        let benchmark_row = reservation.is_some().then_some(benchmark_row);
        let start = Some(shared.needed_at_start(started));
        self.rows.tape = shared.audit.wants(row.id).then(|| Tape::new(begun, started));
        let unreplayable = Arc::clone(&begun.watch.unreplayable);
        let failed = self.open(row, started.state, benchmark_row, start, unreplayable)?;
        if let Some(reservation) = reservation {
            reservation.fulfil();
        }
        Ok(failed)
    }

    /// Writes the rows of the step that led to the session's state, as [`RowWriter::write`] does.
    fn write(&mut self, rows: StepRows) -> Result<Option<Failure>, SessionError> {
        let Self { inner, rows: writer, seen, .. } = self;
        let shared = Arc::clone(&writer.shared);
        writer.write(rows, &mut |space| {
            let value = inner.observe(space)?;
            let is_number = matches!(value, Value::Int(_) | Value::Float(_));
            if is_number && shared.apart.contains(&space) {
                seen.push((space, value.clone()));
            }
            Ok(value)
        })
    }

    /// Writes step 0 of a new episode, which is open then. If the compiler fails on what is
    /// recorded of its state, the step is written only for a `start`, and there is no episode
    /// without it.
    fn open(
        &mut self,
        row: EpisodeRow,
        state: StateId,
        benchmark_row: Option<BenchmarkRow>,
        start: Option<Vec<ObservationIndex>>,
        unreplayable: Arc<[ActionIndex]>,
    ) -> Result<Option<Failure>, SessionError> {
        let keyframe = self.rows.shared.keyframes.is_some();
        let step = RecorderContext::first_step(row.id, row.benchmark.clone(), state, keyframe);
        let EpisodePlan { settle, only, .. } = self.plan;
        let count = KeyframeCount::default();
        let has_ended = false;
        let open = OpenEpisode { row, settle, only, state, count, has_ended, unreplayable };
        let left_out = open.left_out();
        let is_start = start.is_some();
        let rows = StepRows { benchmark: benchmark_row, left_out, start, ..step.into() };
        let failed = self.write(rows)?;
        if failed.is_none() || is_start {
            self.episode = Some(open);
        }
        Ok(failed)
    }

    /// Writes a step that the session has taken. Returns it as it is recorded.
    fn take_down(&mut self, action: ActionIndex, step: Step) -> Result<Step, SessionError> {
        let open = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let before = open.place();
        let rows = open.advance(action, &step, &self.rows.shared);
        let written = match self.write(rows) {
            Ok(Some(failure)) => {
                let failed = Step::failed(failure, step.rewards.len(), step.wall_time);
                let open = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
                open.go_back(before);
                let rows = open.advance(action, &failed, &self.rows.shared);
                // The session within has an episode that nobody may go on with.
                self.is_written = false;
                self.write(rows).map(|_| failed)
            }
            written => written.map(|_| step),
        };
        written.inspect_err(|_| {
            if let Some(open) = &mut self.episode {
                open.go_back(before);
            }
            self.settle_what_was_written();
        })
    }
}

/// Where an open episode is.
type RollbackPoint = (u32, StateId, KeyframeCount);

impl OpenEpisode {
    fn place(&self) -> RollbackPoint {
        (self.row.steps, self.state, self.count)
    }

    /// Takes back the last step, which was not written.
    fn go_back(&mut self, before: RollbackPoint) {
        (self.row.steps, self.state, self.count) = before;
        (self.row.outcome, self.row.detail) = (EpisodeOutcome::Complete, None);
        self.has_ended = false;
    }

    /// Returns the space that is not recorded after the last step.
    fn left_out(&self) -> Option<ObservationIndex> {
        self.only.filter(|&(_, step)| self.row.steps != step).map(|(space, _)| space)
    }

    /// Returns the rows of the step just made.
    fn advance(&mut self, action: ActionIndex, step: &Step, shared: &RecorderContext) -> StepRows {
        self.row.steps += 1;
        self.has_ended |= step.outcome.ends_episode();
        if let Some(state) = step.outcome.state() {
            self.state = state;
        }
        note_end(&mut self.row, &step.outcome);
        let doubted = &self.unreplayable;
        let keyframe = shared.is_keyframe(&mut self.count, doubted, action, &step.outcome);
        let place = (self.row.id, self.row.steps);
        let taken = shared.taken(place, self.row.benchmark.clone(), action, step, keyframe);
        StepRows { left_out: self.left_out(), ..taken.into() }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Session for Recorder {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        // Until it is written that the session begins, it must not take steps.
        self.is_written = false;
        self.seen.clear();
        self.finish()?;
        let mut watch = self.rows.shared.watch(start.watch);
        if let Some((only, _)) = self.plan.only {
            watch.spaces.retain(|&space| space != only);
        }
        let begun = Start { watch: &watch, ..*start };
        let started = self.inner.start(&begun);
        if let Err(SessionError::StartFailed { failure, .. }) = &started
            && self.plan.settle == Settle::AtItsEnd
        {
            self.fail(&start.benchmark.uri, failure)?;
        }
        self.is_written = started.is_err();
        let started = started?;
        let Some(failure) = self.begin(&begun, &started)? else {
            self.is_written = true;
            return Ok(started);
        };
        let uri = &start.benchmark.uri;
        if self.plan.settle == Settle::AtItsEnd {
            self.fail(uri, &failure)?;
        }
        Err(SessionError::StartFailed { uri: uri.to_string(), failure })
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        self.demand_written()?;
        self.seen.clear();
        let step = self.inner.apply(action)?;
        let step = self.take_down(action, step)?;
        if step.outcome.ends_episode() && self.plan.settle == Settle::AtItsEnd {
            self.finish()?;
        }
        Ok(step)
    }

    /// A step is written at once, so it has to be checked before.
    fn apply_unchecked(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        self.apply(action)
    }

    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut Visit<'_>,
    ) -> Result<(), SessionError> {
        self.demand_written()?;
        // What is observed apart from steps has to be observed between them.
        if !self.rows.shared.apart.is_empty() {
            return apply_each(self, actions, visit);
        }
        self.seen.clear();
        let Some(open) = self.episode.as_mut() else {
            return self.inner.multistep(actions, visit);
        };
        let (rows, mut taken) = (&mut self.rows, actions.iter());
        let (mut is_whole, mut is_over) = (true, false);
        let played = self.inner.multistep(actions, &mut |step, observe| {
            let Some(&action) = taken.next() else { return Ok(ControlFlow::Break(())) };
            let before = open.place();
            let written = open.advance(action, &step, &rows.shared);
            let written = rows.write(written, observe).and_then(|failed| {
                let Some(failure) = failed else { return Ok(step) };
                let failed = Step::failed(failure, step.rewards.len(), step.wall_time);
                open.go_back(before);
                is_over = true;
                rows.write(open.advance(action, &failed, &rows.shared), observe).map(|_| failed)
            });
            match written {
                Ok(step) => visit(step, observe),
                Err(error) => {
                    open.go_back(before);
                    is_whole = false;
                    Err(error)
                }
            }
            .map(|flow| if is_over { ControlFlow::Break(()) } else { flow })
        });
        // The session within has an episode that nobody may go on with.
        self.is_written &= !is_over;
        if !is_whole {
            self.settle_what_was_written();
            return played;
        }
        played?;
        if open.has_ended && self.plan.settle == Settle::AtItsEnd {
            self.finish()?;
        }
        Ok(())
    }

    fn announce(&mut self, actions: &[ActionIndex]) {
        if self.is_written && self.rows.shared.apart.is_empty() {
            self.inner.announce(actions);
        }
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        match self.seen.iter().find(|(seen, _)| *seen == space) {
            Some((_, value)) => Ok(value.clone()),
            None => self.inner.observe(space),
        }
    }

    forward!(self => self.inner; check, identify, text);

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let inner = self.inner.fork()?;
        let parent = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        let mut fork = Self::new(inner, Arc::clone(&self.rows.shared));
        let (seed, policy) = (parent.row.seed, parent.row.policy.clone());
        fork.plan = EpisodePlan { ordinal: None, seed, policy, settle: parent.settle, only: None };
        let parent_step = Some((parent.row.id, parent.row.steps));
        let row = fork.next_row(parent.row.benchmark.clone());
        let row = EpisodeRow { parent: parent_step, ..row };
        let unreplayable = Arc::clone(&parent.unreplayable);
        match fork.open(row, parent.state, None, None, unreplayable)? {
            None => Ok(Box::new(fork)),
            Some(failure) => Err(SessionError::Unobservable(failure)),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::debug!(%error, "an episode was dropped after its writer");
        }
    }
}
