//! Turns sealed steps into edges.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Float64Type, Int16Type, Int32Type, Int64Type};

use super::scatter::Scatter;
use crate::lake::{LakeError, Part, Segment, Snapshot};
use crate::layers::{EdgeHead, EdgeShape, StateWords, rewards_of};
use crate::model::{EpisodeId, StateId};

/// Least rows of a part that a thread reads on its own.
const PART_ROWS_MIN: u64 = 1 << 20;

/// The steps that a pass counts.
pub(super) struct Steps<'a> {
    snapshot: &'a Snapshot,
    columns: Vec<String>,
    /// Retracted actions, which give no edges.
    retracted: &'a [i16],
    parts: Vec<Part>,
    next: AtomicUsize,
    stop: AtomicBool,
}

impl<'a> Steps<'a> {
    /// Plans to read `segments`, which are those of `steps`.
    pub(super) fn new(
        snapshot: &'a Snapshot,
        segments: &[Segment],
        retracted: &'a [i16],
    ) -> Result<Self, LakeError> {
        let mut parts = Vec::new();
        for segment in segments {
            parts.extend(Snapshot::parts(segment, PART_ROWS_MIN)?);
        }
        let mut columns = ["episode_id", "step_index", "action", "state_id", "wall_time_us"]
            .map(str::to_owned)
            .to_vec();
        columns.extend(
            snapshot.identity().rewards.iter().map(|space| format!("reward_{}", space.name)),
        );
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        Ok(Self { snapshot, columns, retracted, parts, next, stop })
    }

    /// Reads parts until no other is left to take, and sends the number of rows read. Returns the
    /// number of steps with an action.
    pub(super) fn scatter(
        &self,
        scatter: &mut Scatter<'_>,
        read: &Sender<u64>,
    ) -> Result<u64, LakeError> {
        let mut steps = 0;
        while let Some(part) = self.parts.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let done = self.scatter_part(part, scatter, read);
            // Makes the other threads stop.
            steps += done.inspect_err(|_| self.stop.store(true, Ordering::Relaxed))?;
        }
        Ok(steps)
    }

    fn scatter_part(
        &self,
        part: &Part,
        scatter: &mut Scatter<'_>,
        read: &Sender<u64>,
    ) -> Result<u64, LakeError> {
        let names = self.columns.iter().map(String::as_str).collect::<Vec<_>>();
        let shape = EdgeShape::new(self.snapshot.identity().rewards.len());
        let mut chain = Chain::new(&part.segment, self.retracted, shape);
        let mut skip = usize::from(part.has_row_before());
        for batch in self.snapshot.scan_part(part, &names)? {
            let batch = batch?;
            let columns = StepColumns::new(&batch, &self.columns[5..]);
            if skip > 0 && !columns.episodes.is_empty() {
                chain.begin_behind(&columns);
            }
            for row in skip..columns.episodes.len() {
                chain.advance(&columns, row, scatter)?;
            }
            // The receiver may be gone.
            let _ = read.send((columns.episodes.len() - skip) as u64);
            skip = 0;
        }
        Ok(chain.steps)
    }
}

/// A batch of steps as slices.
struct StepColumns<'a> {
    episodes: &'a [i64],
    indexes: &'a [i32],
    actions: &'a [i16],
    has_action: Option<&'a NullBuffer>,
    states: &'a [u8],
    has_state: Option<&'a NullBuffer>,
    wall_times: &'a [i64],
    rewards: Vec<(&'a [f64], Option<&'a NullBuffer>)>,
}

fn is_there(nulls: Option<&NullBuffer>, row: usize) -> bool {
    nulls.is_none_or(|nulls| nulls.is_valid(row))
}

impl<'a> StepColumns<'a> {
    fn new(batch: &'a RecordBatch, rewards: &[String]) -> Self {
        let int64 = |name: &str| batch[name].as_primitive::<Int64Type>().values().as_ref();
        let actions = batch["action"].as_primitive::<Int16Type>();
        let states = batch["state_id"].as_fixed_size_binary();
        let reward = |name: &String| {
            let column = batch[name.as_str()].as_primitive::<Float64Type>();
            (column.values().as_ref(), column.nulls().filter(|nulls| nulls.null_count() > 0))
        };
        Self {
            episodes: int64("episode_id"),
            indexes: batch["step_index"].as_primitive::<Int32Type>().values(),
            actions: actions.values(),
            has_action: actions.nulls(),
            states: states.value_data(),
            has_state: states.nulls(),
            wall_times: int64("wall_time_us"),
            rewards: rewards.iter().map(reward).collect(),
        }
    }

    #[inline]
    fn state(&self, row: usize) -> Option<StateWords> {
        let id = &self.states[row * StateId::LEN..][..StateId::LEN];
        is_there(self.has_state, row).then(|| StateWords::of(id))
    }
}

/// Follows the steps of episodes, one after another.
struct Chain<'a> {
    segment: &'a Segment,
    retracted: &'a [i16],
    last: Option<(i64, i32, Option<StateWords>)>,
    row: Vec<u64>,
    steps: u64,
}

impl<'a> Chain<'a> {
    fn new(segment: &'a Segment, retracted: &'a [i16], shape: EdgeShape) -> Self {
        let row = vec![f64::NAN.to_bits(); shape.words()];
        Self { segment, retracted, last: None, row, steps: 0 }
    }

    /// Begins behind the first row, which the part before has counted.
    fn begin_behind(&mut self, columns: &StepColumns<'_>) {
        self.last = Some((columns.episodes[0], columns.indexes[0], columns.state(0)));
    }

    #[inline]
    fn advance(
        &mut self,
        columns: &StepColumns<'_>,
        at: usize,
        scatter: &mut Scatter<'_>,
    ) -> Result<(), LakeError> {
        let (episode, index) = (columns.episodes[at], columns.indexes[at]);
        let to = columns.state(at);
        let last = self.last.replace((episode, index, to));
        if !is_there(columns.has_action, at) {
            return Ok(());
        }
        let from = match last {
            Some((last_episode, last_index, Some(from)))
                if last_episode == episode && last_index.checked_add(1) == Some(index) =>
            {
                from
            }
            _ => return Err(self.does_not_follow(episode, index)),
        };
        let action = columns.actions[at];
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
            wall_time_us: columns.wall_times[at],
            count: 1,
        };
        head.write(&mut self.row);
        for (word, (values, nulls)) in rewards_of(&mut self.row).iter_mut().zip(&columns.rewards) {
            let reward = if is_there(*nulls, at) { values[at] } else { f64::NAN };
            *word = reward.to_bits();
        }
        scatter.add(&self.row)
    }

    #[cold]
    fn does_not_follow(&self, episode: i64, index: i32) -> LakeError {
        let id = EpisodeId(episode);
        let what = format!(
            "step {index} of episode {} of run {} does not follow",
            id.ordinal(),
            id.run().0
        );
        LakeError::Corrupt { path: self.segment.path.clone(), what }
    }
}
