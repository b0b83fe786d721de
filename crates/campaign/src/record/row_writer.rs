//! Writes the rows of steps to the buffer of a recording.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::audit::Tape;
use super::shared::{RecorderContext, program_digest};
use steplake_env::{Observe, SessionError, Started};
use steplake_lake::{
    BenchmarkRow, EpisodeRow, IrRow, KnownBenchmark, ObservationRow, StepRow, bitcode_sha1,
};
use steplake_model::{
    ActionIndex, Baselines, Benchmark, BenchmarkUri, EpisodeId, EpisodeOutcome, Error, ErrorKind,
    Execution, Failure, ObservationIndex, Outcome, StateId, Step, Value,
};

/// The compression level of states. On bitcode, level 3 saves a tenth of the bytes of level 1 for
/// half a percent of a step's time; higher levels save little more and cost several times as much.
const IR_COMPRESSION_LEVEL: i32 = 3;

/// Writes rows to the buffer of the recording.
pub(super) struct RowWriter {
    pub(super) shared: Arc<RecorderContext>,
    compressor: zstd::bulk::Compressor<'static>,
    /// What the rows of the present episode go to besides, if it is to be played again.
    pub(super) tape: Option<Tape>,
}

/// A step and the rows that are committed with it.
#[derive(Debug)]
pub(super) struct StepRows {
    /// The first step of the episode, if it is written with this one. The lake has its state.
    pub(super) first: Option<StepRow>,
    pub(super) step: StepRow,
    pub(super) benchmark: Option<BenchmarkRow>,
    /// The row of the episode, if it closes with this step.
    pub(super) episode: Option<EpisodeRow>,
    /// A space that is not observed here: see [`EpisodePlan::only`](super::EpisodePlan::only).
    pub(super) left_out: Option<ObservationIndex>,
    /// For a start: the spaces that have to be known of the state besides what is recorded.
    pub(super) start: Option<Vec<ObservationIndex>>,
}

impl From<StepRow> for StepRows {
    fn from(step: StepRow) -> Self {
        let (first, benchmark, episode, left_out) = (None, None, None, None);
        Self { first, step, benchmark, episode, left_out, start: None }
    }
}

impl RowWriter {
    pub(super) fn new(shared: Arc<RecorderContext>) -> Self {
        Self { shared, compressor: ir_compressor(), tape: None }
    }

    /// Writes a step and what the lake lacks of its state, to be committed together.
    ///
    /// If the compiler fails on what is recorded of the state and [is what it makes of
    /// it](steplake_model::ObservationSpace::is_compiled), says how. Then nothing is written of a
    /// step that an action led to: it has failed. That of a start is written, since no action is at
    /// fault: with null where there is no value, and the failure in the row of the episode that is
    /// written with it. Such spaces are looked at whenever a session starts, also if the lake has
    /// them, so that equal starts fail alike. A step to the state of a failed start has failed too,
    /// though the lake has the state: one with null is looked at once in each recording.
    pub(super) fn write(
        &mut self,
        rows: StepRows,
        observe: &mut Observe<'_>,
    ) -> Result<Option<Failure>, SessionError> {
        let Self { shared, compressor, tape } = self;
        let StepRows { first, step, benchmark, mut episode, left_out, start } = rows;
        let reserve = |state| shared.reservations.state(state, step.keyframe);
        let reservation = step.state.map(reserve);
        let (mut observations, mut ir, mut failed) = (None, None, None);
        if let (Some(state), Some(lacks)) = (step.state, &reservation) {
            let is_known_step = start.is_none() && !lacks.observations;
            if is_known_step
                && let Some((space, failure)) = shared.reservations.failed(state)
                && left_out != Some(space)
            {
                return Ok(Some(failure));
            }
            let is_doubted = is_known_step && shared.reservations.is_doubted(state);
            let looks = lacks.observations || is_doubted;
            let looked = shared.look(start.as_ref(), left_out, looks, observe)?;
            failed = looked.failed;
            if (start.is_some() || is_doubted) && (failed.is_some() || left_out.is_none()) {
                shared.reservations.note(state, looked.failed_recorded);
            }
            if failed.is_some() && start.is_none() {
                return Ok(failed);
            }
            if lacks.observations {
                shared.unobserved.fetch_add(looked.is_unobserved.into(), Ordering::Relaxed);
                observations = Some(ObservationRow { state, values: looked.values });
            }
            if let (Some(failure), Some(episode)) = (&failed, &mut episode) {
                note_failure(episode, failure);
            }
            if lacks.ir {
                ir = Some(packed(state, observe(shared.state_space)?, compressor)?);
            }
        }
        let bytes = ir.as_ref().map_or(0, |ir| ir.compressed.len())
            + observations.as_ref().map_or(0, ObservationRow::bytes);
        let beside = [
            first.is_some(),
            benchmark.is_some(),
            observations.is_some(),
            ir.is_some(),
            episode.is_some(),
        ];
        let taped = tape.as_ref().map(|_| {
            let values = observations.as_ref().map(|row| row.values.clone());
            (step.clone(), values)
        });
        let count = 1 + beside.into_iter().filter(|&is_there| is_there).count();
        shared.buffer.push(|rows| {
            rows.benchmarks.extend(benchmark);
            rows.observations.extend(observations);
            rows.ir.extend(ir);
            rows.steps.extend(first);
            rows.steps.push(step);
            rows.episodes.extend(episode);
            (count, bytes)
        })?;
        if let Some(reservation) = reservation {
            reservation.fulfil();
        }
        if let (Some(tape), Some((step, values))) = (tape, taped) {
            tape.push(step, values);
        }
        Ok(failed)
    }
}

/// What was observed of a state.
struct Looked {
    /// For each observation column of the lake, its value.
    values: Vec<Option<Value>>,
    /// How the compiler failed on what it must not fail on.
    failed: Option<Failure>,
    /// The same of what is recorded, with the space.
    failed_recorded: Option<(ObservationIndex, Failure)>,
    /// Whether it failed on another observation.
    is_unobserved: bool,
}

impl RecorderContext {
    /// Looks at a state: at all that is recorded if the lake `lacks` it, and for a `start` at least
    /// at what the compiler must not fail on.
    fn look(
        &self,
        start: Option<&Vec<ObservationIndex>>,
        left_out: Option<ObservationIndex>,
        lacks: bool,
        observe: &mut Observe<'_>,
    ) -> Result<Looked, SessionError> {
        let (mut failed, mut failed_recorded, mut is_unobserved) = (None, None, false);
        let mut value = |space: ObservationIndex| match observe(space) {
            Err(SessionError::Unobservable(failure)) => {
                tracing::debug!(%failure, "the compiler failed on an observation");
                let is_recorded = self.compiled.contains(&space);
                if is_recorded {
                    failed_recorded.get_or_insert_with(|| (space, failure.clone()));
                }
                if is_recorded || start.is_some_and(|needed| needed.contains(&space)) {
                    failed.get_or_insert(failure);
                } else if self.apart.contains(&space) {
                    is_unobserved = true;
                } else {
                    return Err(SessionError::Unobservable(failure));
                }
                Ok(None)
            }
            value => value.map(Some),
        };
        for &space in start.into_iter().flatten() {
            value(space)?;
        }
        let is_looked_at = |space: &ObservationIndex| {
            let is_wanted = lacks || start.is_some() && self.compiled.contains(space);
            is_wanted && Some(*space) != left_out
        };
        let spaces = self.observed.iter().map(|space| space.filter(is_looked_at));
        let values = spaces.map(|space| space.map_or(Ok(None), &mut value));
        let values = values.collect::<Result<_, SessionError>>()?;
        Ok(Looked { values, failed, failed_recorded, is_unobserved })
    }

    /// Returns what a start found a benchmark to be, and its row.
    pub(super) fn found(
        &self,
        benchmark: &Benchmark,
        started: &Started,
    ) -> (KnownBenchmark, BenchmarkRow) {
        // A cache may know more of the program than this run records.
        let recorded = &self.recorded_baselines;
        let baselines = started.baselines.0.iter().filter(|(name, _)| recorded.contains(name));
        let found = KnownBenchmark {
            program_digest: program_digest(benchmark),
            initial_state: Some(started.state),
            baselines: Baselines(baselines.cloned().collect()),
        };
        let row = BenchmarkRow {
            uri: benchmark.uri.clone(),
            program_digest: found.program_digest.clone(),
            provenance: benchmark.provenance.clone(),
            initial_state: started.state,
            execution: benchmark.execution.as_ref().map(to_json),
            baselines: found.baselines.clone(),
        };
        (found, row)
    }

    /// Returns step 0 of an episode.
    pub(super) fn first_step(
        episode: EpisodeId,
        benchmark: BenchmarkUri,
        state: StateId,
        keyframe: bool,
    ) -> StepRow {
        StepRow { state: Some(state), keyframe, ..StepRow::new(episode, 0, benchmark) }
    }

    /// Returns the row of a step that was taken as the `index`-th one of `episode`.
    pub(super) fn taken(
        &self,
        (episode, index): (EpisodeId, u32),
        benchmark: BenchmarkUri,
        action: ActionIndex,
        step: &Step,
        keyframe: bool,
    ) -> StepRow {
        let state = step.outcome.state();
        StepRow {
            episode,
            index,
            benchmark,
            action: Some(action),
            state,
            keyframe,
            end_of_episode: step.outcome.ends_episode(),
            rewards: state.map(|_| {
                let reward = |space: &Option<usize>| space.map_or(f64::NAN, |at| step.rewards[at]);
                self.rewards.iter().map(reward).collect()
            }),
            wall_time: step.wall_time,
        }
    }
}

/// Notes in the row of an episode how a step ended it, if it did.
pub(super) fn note_end(row: &mut EpisodeRow, outcome: &Outcome) {
    match outcome {
        Outcome::State { end_of_episode: true, .. } => row.outcome = EpisodeOutcome::Ended,
        Outcome::State { .. } => {}
        Outcome::Crashed(failure) => note_failure(row, failure),
    }
}

/// Notes in the row of an episode how the compiler failed.
pub(super) fn note_failure(row: &mut EpisodeRow, failure: &Failure) {
    row.outcome = EpisodeOutcome::Failed(failure.kind);
    row.detail = Some(failure.detail.clone());
}

/// How a program is built and run, for the column `execution`.
fn to_json(execution: &Execution) -> String {
    serde_json::to_string(execution).expect("texts and numbers serialise")
}

/// Returns what compresses states.
pub(crate) fn ir_compressor() -> zstd::bulk::Compressor<'static> {
    zstd::bulk::Compressor::new(IR_COMPRESSION_LEVEL)
        .expect("zstd takes its own level and an empty dictionary")
}

/// Returns the row of a serialised state.
pub(crate) fn packed(
    state: StateId,
    value: Value,
    compressor: &mut zstd::bulk::Compressor<'static>,
) -> Result<IrRow, SessionError> {
    let Value::Bytes(bytes) = value else {
        return Err(SessionError::Defect("a serialised state is not bytes".into()));
    };
    let failed = |error: &dyn std::fmt::Display| {
        let said = format!("a state of {} bytes: {error}", bytes.len());
        SessionError::Recording(Error::new(ErrorKind::Failed, said))
    };
    let compressed = compressor.compress(&bytes).map_err(|error| failed(&error))?;
    let length = u32::try_from(bytes.len()).map_err(|error| failed(&error))?;
    Ok(IrRow { state, compressed, bytes: length, bitcode_sha1: bitcode_sha1(&bytes) })
}
