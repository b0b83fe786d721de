//! Episodes that were played: what becomes of their rows, and what their steps show.

use std::collections::HashMap;
use std::time::Duration;

use super::observed::Columns;
use steplake_env::KeyframeCount;
use steplake_lake::{EpisodeRow, IrRow, ObservationRow, StepRow};
use steplake_model::{EpisodeOutcome, Failure, Outcome, Rewards, StateId, Step};

/// What a step shows of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    /// It is the recorded one by its IR.
    ByIr,
    /// It is the recorded one by its values.
    ByValues,
    /// The old lake has nothing to compare.
    Unproven,
    /// The compiler failed again.
    FailedAgain,
    /// It is another one; or the compiler fails, and did not, or the reverse.
    Elsewhere,
    /// An earlier step of the episode led elsewhere.
    NotCompared,
}

/// A step that was played.
#[derive(Debug)]
pub(super) struct ConvertedStep {
    pub(super) row: StepRow,
    /// The state in the old lake.
    pub(super) old: Option<StateId>,
    pub(super) comparison: Comparison,
}

/// An episode that was played, with the rows of its states that have what was not written yet.
#[derive(Debug)]
pub(super) struct ConvertedEpisode {
    pub(super) row: EpisodeRow,
    pub(super) steps: Vec<ConvertedStep>,
    /// Each with the columns in which the state was observed.
    pub(super) observations: Vec<(Columns, ObservationRow)>,
    pub(super) ir: Vec<IrRow>,
    /// The first state of its program, if the episode shows it.
    pub(super) initial: Option<StateId>,
}

/// What a live session came to.
pub(super) struct LiveStep {
    pub(super) outcome: Result<StateId, Failure>,
    pub(super) ends: bool,
    pub(super) rewards: Option<Rewards>,
    pub(super) wall_time: Duration,
}

impl LiveStep {
    pub(super) fn first(state: StateId) -> Self {
        Self { outcome: Ok(state), ends: false, rewards: None, wall_time: Duration::ZERO }
    }

    pub(super) fn of(step: Step) -> Self {
        let (ends, wall_time) = (step.outcome.ends_episode(), step.wall_time);
        let (outcome, rewards) = match step.outcome {
            Outcome::State { id, .. } => (Ok(id), Some(step.rewards)),
            Outcome::Crashed(failure) => (Err(failure), None),
        };
        Self { outcome, ends, rewards, wall_time }
    }
}

/// An episode that is being played.
pub(super) struct Playing {
    pub(super) done: ConvertedEpisode,
    /// The state before.
    pub(super) before: Option<StateId>,
    pub(super) has_strayed: bool,
    /// The new ids that the values of the episode's states prove.
    pub(super) proven: HashMap<StateId, StateId>,
    /// Whether IR of the episode is stored.
    pub(super) stores_ir: bool,
    /// The changes of state since the last keyframe, once it has strayed.
    pub(super) count: KeyframeCount,
}

/// Notes in the row of an episode how a step ended it, or that it does not end it as it did.
pub(super) fn note_outcome(row: &mut EpisodeRow, old: &StepRow, live: &LiveStep) {
    match &live.outcome {
        Err(failure) => note_failure(row, failure.clone()),
        Ok(_) if live.ends => (row.outcome, row.detail) = (EpisodeOutcome::Ended, None),
        Ok(_) if old.state.is_none() => {
            (row.outcome, row.detail) = (EpisodeOutcome::Complete, None);
        }
        Ok(_) => {}
    }
}

pub(super) fn note_failure(row: &mut EpisodeRow, failure: Failure) {
    row.outcome = EpisodeOutcome::Failed(failure.kind);
    row.detail = Some(failure.detail);
}
