//! Turns sealed steps into edges.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;

use super::failed_episodes::FailedEpisodes;
use super::scatter::Scatter;
use crate::kernel::progress::Thread;
use crate::kernel::schema::decode::{
    Actions, NO_ACTION, RewardColumn, StateColumn, StepColumns, reward_column,
};
use crate::kernel::schema::episode_steps::{EpisodeSteps, StepLink};
use crate::kernel::{LakeError, Part, Segment, Snapshot};
use crate::layers::{EdgeHead, StateWords, edge_words, rewards_of};
use steplake_model::{ActionIndex, EpisodeId};

/// Least rows of a part that a thread reads on its own.
const PART_ROWS_MIN: u64 = 1 << 20;

/// The steps that a pass counts.
pub(super) struct StepSource<'a> {
    snapshot: &'a Snapshot,
    columns: Vec<String>,
    /// Words of an edge.
    stride: usize,
    /// Retracted actions, which give no edges.
    retracted: &'a [ActionIndex],
    failed: &'a FailedEpisodes,
    parts: Vec<Part>,
    next: AtomicUsize,
}

impl<'a> StepSource<'a> {
    /// Plans to read `segments`, which are those of `steps`. Asks `go_on` at each of them.
    pub(super) fn new(
        snapshot: &'a Snapshot,
        segments: &[Segment],
        retracted: &'a [ActionIndex],
        failed: &'a FailedEpisodes,
        go_on: &mut dyn FnMut() -> Result<(), LakeError>,
    ) -> Result<Self, LakeError> {
        let mut parts = Vec::new();
        for segment in segments {
            go_on()?;
            parts.extend(Snapshot::parts(segment, PART_ROWS_MIN)?);
        }
        let mut columns = ["episode_id", "step_index", "action", "state_id", "wall_time_us"]
            .map(str::to_owned)
            .to_vec();
        let rewards = snapshot.identity().rewards.iter();
        columns.extend(rewards.map(|space| reward_column(&space.name)));
        let stride = edge_words(snapshot.identity().rewards.len());
        Ok(Self { snapshot, columns, stride, retracted, failed, parts, next: AtomicUsize::new(0) })
    }

    /// Scatters the edges of parts until no other is left to take, and says the number of rows
    /// read. Returns the number of steps with an action.
    pub(super) fn read(
        &self,
        scatter: &mut Scatter<'_>,
        thread: &Thread<'_>,
    ) -> Result<u64, LakeError> {
        let mut steps = 0;
        while let Some(part) = self.parts.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            steps += self.read_part(part, scatter, thread)?;
        }
        Ok(steps)
    }

    fn read_part(
        &self,
        part: &Part,
        scatter: &mut Scatter<'_>,
        thread: &Thread<'_>,
    ) -> Result<u64, LakeError> {
        let names = self.columns.iter().map(String::as_str).collect::<Vec<_>>();
        let mut chain = EdgeBuilder::new(self, &part.segment);
        let mut skip = usize::from(part.has_row_before());
        for batch in self.snapshot.scan_part(part, &names)? {
            thread.demand_go_on()?;
            let batch = batch?;
            let columns = EdgeInputs::of(&batch);
            let rows = columns.steps.rows();
            // The part before has counted these rows.
            for row in 0..skip.min(rows) {
                let (episode, index) = (columns.steps.episodes[row], columns.steps.indexes[row]);
                chain.walk.advance(episode, index, columns.state(row));
            }
            for row in skip..rows {
                chain.advance(&columns, row, scatter)?;
            }
            thread.did(rows.saturating_sub(skip) as u64);
            skip = 0;
        }
        Ok(chain.steps)
    }
}

/// The columns of a batch of steps.
struct EdgeInputs<'a> {
    steps: StepColumns<'a>,
    actions: Actions<'a>,
    states: StateColumn<'a>,
    wall_times: &'a [i64],
    rewards: Vec<RewardColumn<'a>>,
}

impl<'a> EdgeInputs<'a> {
    fn of(batch: &'a RecordBatch) -> Self {
        let steps = StepColumns::of(batch);
        Self {
            steps,
            actions: steps.actions(),
            states: steps.states(),
            wall_times: steps.wall_times(),
            rewards: steps.rewards(),
        }
    }

    #[inline]
    fn state(&self, row: usize) -> Option<StateWords> {
        self.states.bytes(row).map(StateWords::of)
    }
}

/// Makes an edge of each step of episodes, one after another.
struct EdgeBuilder<'a> {
    segment: &'a Segment,
    retracted: &'a [ActionIndex],
    failed: &'a FailedEpisodes,
    walk: EpisodeSteps<StateWords>,
    row: Vec<u64>,
    steps: u64,
}

impl<'a> EdgeBuilder<'a> {
    fn new(steps: &StepSource<'a>, segment: &'a Segment) -> Self {
        let StepSource { retracted, failed, stride, .. } = *steps;
        let (row, walk) = (vec![f64::NAN.to_bits(); stride], EpisodeSteps::default());
        Self { segment, retracted, failed, walk, row, steps: 0 }
    }

    #[inline]
    fn advance(
        &mut self,
        columns: &EdgeInputs<'_>,
        row: usize,
        scatter: &mut Scatter<'_>,
    ) -> Result<(), LakeError> {
        let (episode, index) = (columns.steps.episodes[row], columns.steps.indexes[row]);
        let to = columns.state(row);
        let link = self.walk.advance(episode, index, to);
        let Some(action) = columns.actions.get(row) else {
            return match to {
                Some(state) if self.failed.is_start(episode) => {
                    self.failed_start(episode, state, scatter)
                }
                _ => Ok(()),
            };
        };
        let StepLink::Next(from) = link else { return Err(self.does_not_follow(episode, index)) };
        if self.retracted.contains(&action) {
            return Ok(());
        }
        self.steps += 1;
        let head = EdgeHead {
            from,
            action,
            to,
            first_episode: episode,
            first_index: index,
            wall_time_us: columns.wall_times[row],
            count: 1,
        };
        head.write(&mut self.row);
        for (word, rewards) in rewards_of(&mut self.row).iter_mut().zip(&columns.rewards) {
            *word = rewards.get(row).to_bits();
        }
        scatter.add(&self.row)
    }

    /// Makes an edge of an episode on whose first state the compiler failed.
    #[cold]
    fn failed_start(
        &mut self,
        episode: i64,
        state: StateWords,
        scatter: &mut Scatter<'_>,
    ) -> Result<(), LakeError> {
        let head = EdgeHead {
            from: state,
            action: NO_ACTION,
            to: None,
            first_episode: episode,
            first_index: 0,
            wall_time_us: 0,
            count: 1,
        };
        head.write(&mut self.row);
        rewards_of(&mut self.row).fill(f64::NAN.to_bits());
        scatter.add(&self.row)
    }

    #[cold]
    fn does_not_follow(&self, episode: i64, index: i32) -> LakeError {
        let what = format!("step {index} of {} does not follow", EpisodeId(episode));
        LakeError::Corrupt { path: self.segment.path.clone(), what }
    }
}
