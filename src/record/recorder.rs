//! A session that also writes.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::reservations::Reservation;
use super::shared::{Shared, program_digest};
use crate::env::{KeyframeCount, Observe, Session, SessionError, Start, Started, Visit};
use crate::lake::{
    BenchmarkRow, EpisodeRow, IrRow, KnownBenchmark, ObservationRow, Rows, StepRow, bitcode_sha1,
};
use crate::model::{
    ActionIndex, Benchmark, BenchmarkUri, EpisodeId, EpisodeOutcome, Failure, ObservationIndex,
    Outcome, StateId, Step, Value,
};

/// The compression level of states. On bitcode, level 3 saves a tenth of the bytes of level 1 for
/// half a percent of a step's time; higher levels save little more and cost several times as much.
const IR_COMPRESSION_LEVEL: i32 = 3;

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
}

impl Default for EpisodePlan {
    fn default() -> Self {
        Self { ordinal: None, seed: 0, policy: String::new(), settle: Settle::AtItsEnd }
    }
}

/// A session that records what it does. It returns exactly what the wrapped session returns.
///
/// An episode ends when the environment ends it, when the next one starts, on [`Recorder::finish`],
/// or when the recorder is dropped. A failed start is an episode without steps. A fork is an
/// episode of its own, which names its parent.
pub struct Recorder {
    inner: Box<dyn Session>,
    shared: Arc<Shared>,
    plan: EpisodePlan,
    episode: Option<Open>,
    compressor: zstd::bulk::Compressor<'static>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// An open episode.
#[derive(Debug, Clone)]
struct Open {
    id: EpisodeId,
    plan: EpisodePlan,
    benchmark: BenchmarkUri,
    parent: Option<(EpisodeId, u32)>,
    state: StateId,
    steps: u32,
    count: KeyframeCount,
    end: Option<(EpisodeOutcome, Option<String>)>,
}

impl Recorder {
    pub(super) fn new(inner: Box<dyn Session>, shared: Arc<Shared>) -> Self {
        let compressor = zstd::bulk::Compressor::new(IR_COMPRESSION_LEVEL)
            .expect("zstd takes its own level and an empty dictionary");
        Self { inner, shared, plan: EpisodePlan::default(), episode: None, compressor }
    }

    /// Sets what to record about the episodes that begin from now on.
    pub fn plan(&mut self, plan: EpisodePlan) {
        self.plan = plan;
    }

    /// Ends the open episode. Returns its row if it settles by its caller.
    ///
    /// # Errors
    ///
    /// [`SessionError::Visit`] if the writer has failed.
    pub fn finish(&mut self) -> Result<Option<EpisodeRow>, SessionError> {
        let Some(open) = self.episode.take() else { return Ok(None) };
        let (outcome, detail) = open.end.unwrap_or((EpisodeOutcome::Complete, None));
        let settle = open.plan.settle;
        let row = EpisodeRow {
            id: open.id,
            seed: open.plan.seed,
            benchmark: open.benchmark,
            policy: open.plan.policy,
            parent: open.parent,
            steps: open.steps,
            outcome,
            detail,
        };
        self.close(row, settle)
    }

    /// Records a failed start: an episode that has a row, and no steps. Returns the row if it
    /// settles by its caller.
    ///
    /// [`Session::start`] does this by itself, unless the episode settles by its caller.
    ///
    /// # Errors
    ///
    /// [`SessionError::Visit`] if the writer has failed.
    pub fn fail(
        &mut self,
        benchmark: &BenchmarkUri,
        failure: &Failure,
    ) -> Result<Option<EpisodeRow>, SessionError> {
        let row = EpisodeRow {
            id: self.next_id(),
            seed: self.plan.seed,
            benchmark: benchmark.clone(),
            policy: self.plan.policy.clone(),
            parent: None,
            steps: 0,
            outcome: EpisodeOutcome::Failed(failure.kind),
            detail: Some(failure.detail.clone()),
        };
        self.close(row, self.plan.settle)
    }

    fn close(&self, row: EpisodeRow, settle: Settle) -> Result<Option<EpisodeRow>, SessionError> {
        match settle {
            Settle::ByCaller => Ok(Some(row)),
            Settle::AtItsEnd => Ok(self.shared.settle(vec![row]).map(|()| None)?),
        }
    }

    fn next_id(&self) -> EpisodeId {
        match self.plan.ordinal {
            Some(ordinal) => EpisodeId::new(self.shared.run, ordinal),
            None => self.shared.next_episode(),
        }
    }

    fn begin(
        &mut self,
        benchmark: &Benchmark,
        started: &Started,
        parent: Option<(EpisodeId, u32)>,
    ) -> Result<(), SessionError> {
        let id = self.next_id();
        let digest = program_digest(benchmark);
        let shared = Arc::clone(&self.shared);
        let found = KnownBenchmark {
            program_digest: digest.clone(),
            initial_state: Some(started.state),
            baselines: started.baselines.clone(),
        };
        let reservation = shared.reservations.benchmark(benchmark.uri.as_str(), &found)?;
        let row = reservation.is_some().then(|| BenchmarkRow {
            uri: benchmark.uri.clone(),
            program_digest: digest,
            provenance: benchmark.provenance.clone(),
            initial_state: started.state,
            baselines: started.baselines.clone(),
        });
        self.open(id, benchmark.uri.clone(), started.state, parent, row)?;
        if let Some(reservation) = reservation {
            reservation.fulfil();
        }
        Ok(())
    }

    /// Writes step 0 of a new episode.
    fn open(
        &mut self,
        id: EpisodeId,
        benchmark: BenchmarkUri,
        state: StateId,
        parent: Option<(EpisodeId, u32)>,
        benchmark_row: Option<BenchmarkRow>,
    ) -> Result<(), SessionError> {
        let plan = self.plan.clone();
        let count = KeyframeCount::default();
        let open = Open { id, plan, benchmark, parent, state, steps: 0, count, end: None };
        let step = StepRow {
            episode: id,
            index: 0,
            benchmark: open.benchmark.clone(),
            action: None,
            state: Some(state),
            keyframe: self.shared.keyframes.is_some(),
            end_of_episode: false,
            rewards: None,
            wall_time: std::time::Duration::ZERO,
        };
        let inner = &mut self.inner;
        let writing = Writing { shared: &self.shared, compressor: &mut self.compressor };
        writing.write(step, benchmark_row, &mut |space| inner.observe(space))?;
        self.episode = Some(open);
        Ok(())
    }
}

/// What writing a row requires, apart from the session.
struct Writing<'a> {
    shared: &'a Shared,
    compressor: &'a mut zstd::bulk::Compressor<'static>,
}

impl Writing<'_> {
    /// Writes a step and what the lake lacks of its state, together.
    fn write(
        self,
        step: StepRow,
        benchmark: Option<BenchmarkRow>,
        observe: &mut Observe<'_>,
    ) -> Result<(), SessionError> {
        let shared = self.shared;
        let Some(state) = step.state else {
            return put(shared, step, benchmark, Fresh::default());
        };
        let reservation = shared.reservations.state(state, step.keyframe);
        let fresh = self.look(state, &reservation, observe)?;
        put(shared, step, benchmark, fresh)?;
        reservation.fulfil();
        Ok(())
    }

    fn look(
        self,
        state: StateId,
        reservation: &Reservation<'_>,
        observe: &mut Observe<'_>,
    ) -> Result<Fresh, SessionError> {
        let mut observations = None;
        if reservation.observations {
            let values =
                self.shared.observed.iter().map(|space| space.map(&mut *observe).transpose());
            let values = values.collect::<Result<_, _>>()?;
            observations = Some(ObservationRow { state, values });
        }
        if !reservation.ir {
            return Ok(Fresh { observations, ir: None });
        }
        let Value::Bytes(bytes) = observe(self.shared.state_space)? else {
            return Err(SessionError::Visit("a serialised state must be bytes".into()));
        };
        let failed = |error: &dyn std::fmt::Display| {
            SessionError::Visit(format!("a state of {} bytes: {error}", bytes.len()))
        };
        let compressed = self.compressor.compress(&bytes).map_err(|error| failed(&error))?;
        let length = u32::try_from(bytes.len()).map_err(|error| failed(&error))?;
        let bitcode_sha1 = bitcode_sha1(&bytes);
        let ir = Some(IrRow { state, compressed, bytes: length, bitcode_sha1 });
        Ok(Fresh { observations, ir })
    }
}

/// What the lake lacked of a state.
#[derive(Debug, Default)]
struct Fresh {
    observations: Option<ObservationRow>,
    ir: Option<IrRow>,
}

/// Buffers rows that must be committed together.
fn put(
    shared: &Shared,
    step: StepRow,
    benchmark: Option<BenchmarkRow>,
    fresh: Fresh,
) -> Result<(), SessionError> {
    let bytes = fresh.ir.as_ref().map_or(0, |ir| ir.compressed.len());
    shared.buffer.push(|rows| {
        let before = count(rows);
        rows.benchmarks.extend(benchmark);
        rows.observations.extend(fresh.observations);
        rows.ir.extend(fresh.ir);
        rows.steps.push(step);
        (count(rows) - before, bytes)
    })?;
    Ok(())
}

fn count(rows: &Rows) -> usize {
    rows.benchmarks.len() + rows.observations.len() + rows.ir.len() + rows.steps.len()
}

impl Open {
    /// Returns the row of the step just made.
    fn advance(&mut self, action: ActionIndex, step: &Step, shared: &Shared) -> StepRow {
        self.steps += 1;
        let keyframe = shared.is_keyframe(&mut self.count, action, &step.outcome);
        match &step.outcome {
            Outcome::State { id, end_of_episode, .. } => {
                self.state = *id;
                if *end_of_episode {
                    self.end = Some((EpisodeOutcome::Ended, None));
                }
            }
            Outcome::Crashed(failure) => {
                let outcome = EpisodeOutcome::Failed(failure.kind);
                self.end = Some((outcome, Some(failure.detail.clone())));
            }
        }
        let state = step.outcome.state();
        StepRow {
            episode: self.id,
            index: self.steps,
            benchmark: self.benchmark.clone(),
            action: Some(action),
            state,
            keyframe,
            end_of_episode: step.outcome.ends_episode(),
            rewards: state.map(|_| {
                let reward = |space: &Option<usize>| space.map_or(f64::NAN, |at| step.rewards[at]);
                shared.rewards.iter().map(reward).collect()
            }),
            wall_time: step.wall_time,
        }
    }
}

impl Session for Recorder {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.finish()?;
        let watch = self.shared.watch(start.watch);
        let started = self.inner.start(&Start { watch: &watch, ..*start });
        if let Err(SessionError::StartFailed { failure, .. }) = &started
            && self.plan.settle == Settle::AtItsEnd
        {
            self.fail(&start.benchmark.uri, failure)?;
        }
        let started = started?;
        self.begin(start.benchmark, &started, None)?;
        Ok(started)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let step = self.inner.apply(action)?;
        let open = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let row = open.advance(action, &step, &self.shared);
        let writing = Writing { shared: &self.shared, compressor: &mut self.compressor };
        let inner = &mut self.inner;
        writing.write(row, None, &mut |space| inner.observe(space))?;
        if step.outcome.ends_episode() && self.plan.settle == Settle::AtItsEnd {
            self.finish()?;
        }
        Ok(step)
    }

    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut Visit<'_>,
    ) -> Result<(), SessionError> {
        let Some(open) = self.episode.as_mut() else {
            return self.inner.multistep(actions, visit);
        };
        let (shared, compressor) = (&self.shared, &mut self.compressor);
        let mut taken = actions.iter();
        self.inner.multistep(actions, &mut |step, observe| {
            let Some(&action) = taken.next() else { return Ok(ControlFlow::Break(())) };
            let row = open.advance(action, &step, shared);
            let writing = Writing { shared, compressor: &mut *compressor };
            writing.write(row, None, observe)?;
            visit(step, observe)
        })?;
        if open.end.is_some() && self.plan.settle == Settle::AtItsEnd {
            self.finish()?;
        }
        Ok(())
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        self.inner.observe(space)
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        self.inner.identify(state)
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let inner = self.inner.fork()?;
        let parent = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        let mut fork = Self::new(inner, Arc::clone(&self.shared));
        fork.plan = EpisodePlan { ordinal: None, ..parent.plan.clone() };
        let (id, benchmark) = (self.shared.next_episode(), parent.benchmark.clone());
        fork.open(id, benchmark, parent.state, Some((parent.id, parent.steps)), None)?;
        Ok(Box::new(fork))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::debug!(%error, "an episode was dropped after its writer");
        }
    }
}
