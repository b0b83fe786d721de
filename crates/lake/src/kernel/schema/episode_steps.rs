//! The steps of episodes, one after another.
//!
//! Sealed steps are sorted: the steps of an episode follow one another in one segment. Hot steps
//! have no order. [`Snapshot::steps`] and `in_order` return both in the order of their episodes.
//! `EpisodeSteps` says whether a step follows the one before it.

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;

use super::decode::{StepColumns, benchmark_uris};
use super::table::Table;
use crate::kernel::error::LakeError;
use crate::kernel::segments::scan::ScanColumns;
use crate::kernel::snapshot::Snapshot;
use steplake_model::{ActionIndex, EpisodeId, StateId};

/// Rows of a sorted batch.
const BATCH_ROWS: usize = 16_384;

/// The step that was visited last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastStep<S> {
    pub(crate) episode: i64,
    pub(crate) index: i32,
    /// None if the compiler failed.
    pub(crate) state: Option<S>,
}

/// How a step relates to the step that was visited before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepLink<S> {
    /// It is step 0, and its episode begins here.
    First,
    /// It is the next step of the same episode. Its action was applied in this state.
    Next(S),
    /// Neither: the step before it is missing or was a failure.
    Broken,
}

/// A walk along the steps of episodes. `S` stands for a state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EpisodeSteps<S> {
    last: Option<LastStep<S>>,
}

impl<S> Default for EpisodeSteps<S> {
    fn default() -> Self {
        Self { last: None }
    }
}

impl<S: Copy> EpisodeSteps<S> {
    /// Goes to the next step.
    #[inline]
    pub(crate) fn advance(&mut self, episode: i64, index: i32, state: Option<S>) -> StepLink<S> {
        match self.last.replace(LastStep { episode, index, state }) {
            Some(last) if last.episode == episode => match last.state {
                Some(from) if last.index.checked_add(1) == Some(index) => StepLink::Next(from),
                _ => StepLink::Broken,
            },
            _ if index == 0 => StepLink::First,
            _ => StepLink::Broken,
        }
    }

    /// The step that was visited last.
    pub(crate) fn last(&self) -> Option<LastStep<S>> {
        self.last
    }

    /// Ends the walk. The next step begins a new one.
    pub(crate) fn end(&mut self) -> Option<LastStep<S>> {
        self.last.take()
    }
}

/// Sorts hot rows of `steps` by episode and step. Each batch has the requested columns in the
/// table's order. `episode_id` and `step_index` must be among them.
pub(crate) fn in_order(
    hot: &[&RecordBatch],
    columns: ScanColumns<'_>,
) -> impl Iterator<Item = RecordBatch> + use<> {
    let project = |batch: &RecordBatch| {
        let columns = columns.places(batch.schema_ref());
        batch.project(&columns).expect("the places are of the schema")
    };
    let batches = hot.iter().map(|batch| project(batch)).collect::<Vec<_>>();
    let mut rows = Vec::new();
    for (place, batch) in batches.iter().enumerate() {
        let steps = StepColumns::of(batch);
        let keys = steps.episodes.iter().zip(steps.indexes).enumerate();
        rows.extend(keys.map(|(row, (&episode, &index))| (episode, index, place, row)));
    }
    rows.sort_unstable();
    let starts = (0..rows.len()).step_by(BATCH_ROWS);
    starts.map(move |start| {
        let rows = rows[start..].iter().take(BATCH_ROWS);
        let places = rows.map(|&(_, _, place, row)| (place, row)).collect::<Vec<_>>();
        let batches = batches.iter().collect::<Vec<_>>();
        interleave_record_batch(&batches, &places).expect("the places are of the batches")
    })
}

/// Some steps, one after another.
#[derive(Debug)]
pub struct Steps {
    batch: RecordBatch,
    /// The walk along the steps before these.
    walk: EpisodeSteps<StateId>,
}

/// A step of an episode.
#[derive(Debug, Clone, Copy)]
pub struct EpisodeStep<'a> {
    /// The episode.
    pub episode: EpisodeId,
    /// The position in the episode. Step 0 is the state after the start.
    pub index: u32,
    /// The canonical name of the program.
    pub benchmark: &'a str,
    /// The state in which the action was applied; none at the beginning of an episode, and where
    /// the step before is missing or was a failure.
    pub from: Option<StateId>,
    /// The action; none exactly at step 0.
    pub action: Option<ActionIndex>,
    /// The state; none if the compiler failed.
    pub state: Option<StateId>,
    /// Whether the IR of the state is stored because of this step.
    pub keyframe: bool,
}

impl Steps {
    /// The columns that are read.
    const COLUMNS: [&str; 6] =
        ["episode_id", "step_index", "benchmark_uri", "action", "state_id", "keyframe"];

    /// The steps in their order.
    pub fn iter(&self) -> impl Iterator<Item = EpisodeStep<'_>> {
        let (steps, mut walk) = (StepColumns::of(&self.batch), self.walk);
        let (actions, states, keyframes) = (steps.actions(), steps.states(), steps.keyframes());
        benchmark_uris(&self.batch).enumerate().map(move |(row, benchmark)| {
            let (episode, index, state) =
                (steps.episodes[row], steps.indexes[row], states.get(row));
            let from = match walk.advance(episode, index, state) {
                StepLink::Next(from) => Some(from),
                StepLink::First | StepLink::Broken => None,
            };
            EpisodeStep {
                episode: EpisodeId(episode),
                index: index.cast_unsigned(),
                benchmark,
                from,
                action: actions.get(row),
                state,
                keyframe: keyframes.value(row),
            }
        })
    }
}

impl Snapshot {
    /// Reads the steps of all episodes, including open ones: first the sealed steps, then the hot
    /// ones, each in the order of their episodes.
    pub fn steps(&self) -> impl Iterator<Item = Result<Steps, LakeError>> {
        let columns = ScanColumns::Named(&Steps::COLUMNS);
        let segments = self.segments(Table::Steps).iter();
        let sealed = segments.flat_map(move |segment| self.scan_segment(segment, columns));
        let mut walk = EpisodeSteps::default();
        sealed.chain(self.hot_steps(columns).map(Ok)).map(move |batch| {
            let (batch, before) = (batch?, walk);
            if let Some(row) = batch.num_rows().checked_sub(1) {
                let steps = StepColumns::of(&batch);
                walk.advance(steps.episodes[row], steps.indexes[row], steps.states().get(row));
            }
            Ok(Steps { batch, walk: before })
        })
    }

    /// The hot part of [`steps`](Self::steps).
    pub(crate) fn hot_steps(
        &self,
        columns: ScanColumns<'_>,
    ) -> impl Iterator<Item = RecordBatch> + use<> {
        in_order(&self.hot(Table::Steps).iter().collect::<Vec<_>>(), columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_follows_on_the_one_before_it_in_its_episode_alone() {
        let mut walk = EpisodeSteps::default();
        assert_eq!(walk.advance(1, 0, Some('a')), StepLink::First);
        assert_eq!(walk.advance(1, 1, Some('b')), StepLink::Next('a'));
        assert_eq!(walk.advance(1, 3, Some('c')), StepLink::Broken, "a step is missing");
        assert_eq!(walk.advance(1, 4, None), StepLink::Next('c'));
        assert_eq!(walk.advance(1, 5, Some('d')), StepLink::Broken, "nothing follows on a failure");
        assert_eq!(walk.advance(2, 1, Some('e')), StepLink::Broken, "the first step is missing");
        assert_eq!(walk.advance(3, 0, Some('f')), StepLink::First);
        assert_eq!(walk.advance(3, 0, Some('f')), StepLink::Broken, "it is there twice");
        assert_eq!(walk.end().map(|last| (last.episode, last.index)), Some((3, 0)));
        assert_eq!(walk.advance(3, 1, Some('g')), StepLink::Broken);
    }
}
