//! Records single transitions, for a cache that is asked for one at a time.

use std::sync::Arc;

use super::row_writer::{RowWriter, StepRows, note_end};
use super::shared::RecorderContext;
use steplake_env::{KeyframeCount, Session, SessionError, Started, Watch};
use steplake_lake::EpisodeRow;
use steplake_model::{
    ActionIndex, Benchmark, BenchmarkUri, EpisodeOutcome, Failure, ObservationIndex, StateId, Step,
    Value,
};

/// A session of which only chosen steps are recorded, each as an episode of its own.
///
/// The session may play as it likes to come to a state; nothing of that is recorded. A recorded
/// start is a closed episode without actions. A recorded step is a closed episode of one action,
/// whose first state the lake has already. Each lies in one transaction with what the lake lacked
/// of its state, and is durable when the call returns: a crash at any moment leaves all of it or
/// nothing. Calls of several threads share a transaction.
///
/// Since no other step lies between, keyframes at a distance make no sense here: the IR of every
/// new state is stored, or none is.
pub struct TransitionRecorder {
    inner: Box<dyn Session>,
    rows: RowWriter,
    policy: &'static str,
}

/// What was observed of a state because the lake lacked it. The space that serialises a state is
/// among the spaces if its IR was lacking.
pub type NewValues = Vec<(ObservationIndex, Value)>;

impl std::fmt::Debug for TransitionRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransitionRecorder").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl TransitionRecorder {
    pub(super) fn new(
        inner: Box<dyn Session>,
        shared: Arc<RecorderContext>,
        policy: &'static str,
    ) -> Self {
        Self { inner, rows: RowWriter::new(shared), policy }
    }

    /// Returns the session, of which nothing is recorded by itself.
    pub fn session(&mut self) -> &mut dyn Session {
        self.inner.as_mut()
    }

    /// Returns what a start should watch: what the caller `wished`, and what is recorded.
    pub fn watch(&self, wished: &Watch) -> Watch {
        self.rows.shared.watch(wished)
    }

    /// Returns the spaces that are recorded.
    pub fn observed(&self) -> Vec<ObservationIndex> {
        self.rows.shared.observed.iter().flatten().copied().collect()
    }

    /// Records the start of a benchmark, in whose first state the session is.
    ///
    /// # Errors
    ///
    /// [`SessionError::StartFailed`] if the compiler fails on what is recorded of that state: the
    /// start is recorded as a failed one. [`SessionError::Recording`] if the lake knows another
    /// benchmark of that name, or if the writer has failed; those of observations, after which
    /// nothing is recorded.
    pub fn record_start(
        &mut self,
        benchmark: &Benchmark,
        started: &Started,
    ) -> Result<NewValues, SessionError> {
        let (shared, uri) = (Arc::clone(&self.rows.shared), &benchmark.uri);
        let (found, row) = shared.found(benchmark, started);
        let reservation = shared.reservations.benchmark(uri.as_str(), &found)?;
        if reservation.is_some() {
            shared.demand_own_id(uri, started.state, self.inner.as_mut())?;
        }
        let episode = self.episode(uri.clone());
        let keyframe = shared.keyframes.is_some();
        let step = RecorderContext::first_step(episode.id, uri.clone(), started.state, keyframe);
        let benchmark = reservation.is_some().then_some(row);
        let start = Some(shared.needed_at_start(started));
        let rows = StepRows { benchmark, episode: Some(episode), start, ..step.into() };
        let (failed, seen) = self.write(rows)?;
        if let Some(reservation) = reservation {
            reservation.fulfil();
        }
        shared.buffer.flush()?;
        match failed {
            None => Ok(seen),
            Some(failure) => Err(SessionError::StartFailed { uri: uri.to_string(), failure }),
        }
    }

    /// Records that the compiler failed on a program before the first step.
    ///
    /// # Errors
    ///
    /// [`SessionError::Recording`] if the writer has failed.
    pub fn record_failed_start(
        &mut self,
        benchmark: &BenchmarkUri,
        failure: &Failure,
    ) -> Result<(), SessionError> {
        let outcome = EpisodeOutcome::Failed(failure.kind);
        let detail = Some(failure.detail.clone());
        let row = EpisodeRow { outcome, detail, ..self.episode(benchmark.clone()) };
        let shared = &self.rows.shared;
        shared.settle(vec![row])?;
        shared.buffer.flush()
    }

    /// Records the step that the session has just taken, from a state that the lake has. If the
    /// compiler fails on what is recorded of the state to which it led, the step becomes a failed
    /// one.
    ///
    /// # Errors
    ///
    /// [`SessionError::Recording`] if the writer has failed; those of observations, after which
    /// nothing is recorded.
    pub fn record_step(
        &mut self,
        benchmark: &BenchmarkUri,
        from: StateId,
        action: ActionIndex,
        step: &mut Step,
    ) -> Result<NewValues, SessionError> {
        let episode = EpisodeRow { steps: 1, ..self.episode(benchmark.clone()) };
        let mut written = self.write_step(&episode, from, action, step)?;
        if let Some(failure) = written.0 {
            *step = Step::failed(failure, step.rewards.len(), step.wall_time);
            written = self.write_step(&episode, from, action, step)?;
        }
        self.rows.shared.buffer.flush()?;
        Ok(written.1)
    }

    fn write_step(
        &mut self,
        episode: &EpisodeRow,
        from: StateId,
        action: ActionIndex,
        step: &Step,
    ) -> Result<(Option<Failure>, NewValues), SessionError> {
        let (shared, mut episode) = (Arc::clone(&self.rows.shared), episode.clone());
        note_end(&mut episode, &step.outcome);
        let benchmark = &episode.benchmark;
        let first = RecorderContext::first_step(episode.id, benchmark.clone(), from, false);
        let count = &mut KeyframeCount::default();
        // Each change makes one.
        let keyframe = shared.is_keyframe(count, &[], action, &step.outcome);
        let step = shared.taken((episode.id, 1), benchmark.clone(), action, step, keyframe);
        self.write(StepRows { first: Some(first), episode: Some(episode), ..step.into() })
    }

    /// Writes rows as [`RowWriter::write`] does, and returns what was seen meanwhile.
    fn write(&mut self, rows: StepRows) -> Result<(Option<Failure>, NewValues), SessionError> {
        let mut seen = Vec::new();
        let failed = self.rows.write(rows, &mut |space| {
            let value = self.inner.observe(space)?;
            seen.push((space, value.clone()));
            Ok(value)
        })?;
        Ok((failed, seen))
    }

    /// The row of a new episode without steps. It has no parent: its first state may have been
    /// reached in many episodes.
    fn episode(&self, benchmark: BenchmarkUri) -> EpisodeRow {
        EpisodeRow {
            policy: self.policy.to_owned(),
            ..EpisodeRow::new(self.rows.shared.next_episode(), benchmark)
        }
    }
}
