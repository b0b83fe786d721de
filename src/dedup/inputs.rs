//! The steps of closed episodes, each with the state before it.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use arrow::array::{
    Array as _, AsArray as _, FixedSizeBinaryArray, Float64Array, Int16Array, Int32Array,
    Int64Array, RecordBatch,
};
use arrow::datatypes::{Float64Type, Int16Type, Int32Type, Int64Type};

use super::edges::BYTES_PER_EDGE;
use crate::model::{EpisodeId, EpisodeOutcome, FailureKind, StateId};
use crate::store::{ScanColumns, Segment, Snapshot, StoreError, Table};

/// Changes when the same steps would give other tables.
const VERSION: u32 = 1;

/// The states that a pass takes: a range of their first two bytes, in the order of `state_key`.
pub(super) type Pass = RangeInclusive<u16>;

/// A step with an action, and the state before it.
pub(super) struct EdgeStep<'a> {
    pub(super) from: StateId,
    pub(super) action: i16,
    pub(super) to: Option<StateId>,
    pub(super) episode: i64,
    pub(super) index: i32,
    pub(super) wall_time_us: i64,
    batch: &'a StepBatch,
    row: usize,
}

impl EdgeStep<'_> {
    /// The step's rewards, NaN for none.
    pub(super) fn rewards(&self) -> impl Iterator<Item = f64> + '_ {
        let value = |column: &Float64Array| {
            if column.is_valid(self.row) { column.value(self.row) } else { f64::NAN }
        };
        self.batch.rewards.iter().map(value)
    }
}

/// How the compiler failed at the end of an episode.
pub(super) struct Failed {
    pub(super) kind: FailureKind,
    pub(super) detail: Option<String>,
}

/// What dedup reads.
pub(super) struct Inputs<'a> {
    snapshot: &'a Snapshot,
    columns: Vec<String>,
    digest: String,
    closed_hot: HashSet<i64>,
    failed: HashMap<i64, Failed>,
}

impl<'a> Inputs<'a> {
    /// Reads the episodes.
    pub(super) fn read(snapshot: &'a Snapshot) -> Result<Self, StoreError> {
        let mut closed = Vec::new();
        let mut failed = HashMap::new();
        for batch in
            snapshot.scan(Table::Episodes, ScanColumns::Named(&["episode_id", "outcome", "detail"]))
        {
            let batch = batch?;
            let ids = batch["episode_id"].as_primitive::<Int64Type>();
            let outcomes = batch["outcome"].as_string::<i32>();
            let details = batch["detail"].as_string::<i32>();
            closed.extend_from_slice(ids.values());
            for (row, outcome) in outcomes.iter().enumerate() {
                if let Some(Ok(EpisodeOutcome::Failed(kind))) = outcome.map(str::parse) {
                    let detail = details.is_valid(row).then(|| details.value(row).to_owned());
                    failed.insert(ids.value(row), Failed { kind, detail });
                }
            }
        }
        closed.sort_unstable();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&VERSION.to_le_bytes());
        for id in &closed {
            hasher.update(&id.to_le_bytes());
        }
        let hot = snapshot.hot(Table::Episodes).iter();
        let closed_hot = hot.flat_map(|batch| {
            batch["episode_id"].as_primitive::<Int64Type>().values().iter().copied()
        });
        let mut columns = ["episode_id", "step_index", "action", "state_id", "wall_time_us"]
            .map(str::to_owned)
            .to_vec();
        columns.extend(snapshot.identity().rewards.iter().map(|name| format!("reward_{name}")));
        let digest = hasher.finalize().to_hex().to_string();
        Ok(Self { snapshot, columns, digest, closed_hot: closed_hot.collect(), failed })
    }

    /// The digest of the closed episodes. An episode's steps never change once it is closed, so
    /// their names are enough.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    /// How the compiler failed at the end of an episode.
    pub(super) fn failed(&self, episode: i64) -> Option<&Failed> {
        self.failed.get(&episode)
    }

    /// Rows that every pass reads.
    pub(super) fn rows(&self) -> u64 {
        self.snapshot.rows(Table::Steps)
    }

    /// Refuses damaged files: no Parquet reader notices a flipped bit.
    pub(super) fn check_segments(&self) -> Result<(), StoreError> {
        self.snapshot.segments(Table::Steps).iter().try_for_each(Segment::check)
    }

    /// Cuts the states into ranges with so few steps each that their edges fit.
    pub(super) fn passes(&self, memory_bytes_max: u64) -> Result<Vec<Pass>, StoreError> {
        let rewards = 16 * self.snapshot.identity().rewards.len() as u64;
        let steps_max = (memory_bytes_max / (BYTES_PER_EDGE + rewards)).max(1);
        if self.rows() <= steps_max {
            return Ok(vec![0..=u16::MAX]);
        }
        // Each state is counted where it comes up: at most one edge leaves from there.
        let mut counts = vec![0_u64; 1 << 16];
        for batch in self.snapshot.scan(Table::Steps, ScanColumns::Named(&["state_id"])) {
            let batch = batch?;
            let ids = batch["state_id"].as_fixed_size_binary();
            for row in (0..ids.len()).filter(|&row| ids.is_valid(row)) {
                counts[usize::from(place(&state_at(ids, row)))] += 1;
            }
        }
        let mut passes = Vec::new();
        let (mut first, mut steps) = (0, 0);
        for (place, count) in (0..=u16::MAX).zip(counts) {
            if steps > 0 && steps + count > steps_max {
                passes.push(first..=place - 1);
                (first, steps) = (place, 0);
            }
            steps += count;
        }
        passes.push(first..=u16::MAX);
        Ok(passes)
    }

    /// Shows every step of a pass, and says after each batch how many rows were read.
    pub(super) fn visit(
        &self,
        pass: &Pass,
        visit: &mut dyn FnMut(&EdgeStep<'_>),
        read: &mut dyn FnMut(u64),
    ) -> Result<(), StoreError> {
        let names = self.columns.iter().map(String::as_str).collect::<Vec<_>>();
        for segment in self.snapshot.segments(Table::Steps) {
            let mut chain = Chain::new(&segment.path);
            for batch in self.snapshot.scan_segment(segment, ScanColumns::Named(&names)) {
                let batch = StepBatch::new(&batch?, &self.columns);
                for row in 0..batch.rows() {
                    chain.advance(&batch, row, pass, visit)?;
                }
                read(batch.rows() as u64);
            }
        }
        let batches = self.snapshot.hot(Table::Steps).iter();
        let batches = batches.map(|batch| StepBatch::new(batch, &self.columns)).collect::<Vec<_>>();
        let mut places = Vec::new();
        for (number, batch) in batches.iter().enumerate() {
            for row in 0..batch.rows() {
                let episode = batch.episodes.value(row);
                if self.closed_hot.contains(&episode) {
                    places.push((episode, batch.indexes.value(row), number, row));
                }
            }
        }
        let log = self.snapshot.path().join("hot.sqlite");
        let mut chain = Chain::new(&log);
        places.sort_unstable();
        for (_, _, batch, row) in places {
            chain.advance(&batches[batch], row, pass, visit)?;
        }
        read(batches.iter().map(|batch| batch.rows() as u64).sum());
        Ok(())
    }
}

/// The place of a state in the order of `state_key`, by its first two bytes.
fn place(state: &StateId) -> u16 {
    // The key is signed: ids with the top bit set come first.
    ((u16::from(state.0[0]) << 8) | u16::from(state.0[1])) ^ 0x8000
}

fn state_at(ids: &FixedSizeBinaryArray, row: usize) -> StateId {
    StateId(ids.value(row).try_into().expect("the column holds 20 bytes a row"))
}

/// Columns of a batch of steps.
struct StepBatch {
    episodes: Int64Array,
    indexes: Int32Array,
    actions: Int16Array,
    states: FixedSizeBinaryArray,
    wall_times: Int64Array,
    rewards: Vec<Float64Array>,
}

impl StepBatch {
    /// `columns` are those that [`Inputs`] reads, rewards last.
    fn new(batch: &RecordBatch, columns: &[String]) -> Self {
        let rewards = columns.iter().filter(|name| name.starts_with("reward_"));
        Self {
            episodes: batch["episode_id"].as_primitive::<Int64Type>().clone(),
            indexes: batch["step_index"].as_primitive::<Int32Type>().clone(),
            actions: batch["action"].as_primitive::<Int16Type>().clone(),
            states: batch["state_id"].as_fixed_size_binary().clone(),
            wall_times: batch["wall_time_us"].as_primitive::<Int64Type>().clone(),
            rewards: rewards
                .map(|name| batch[name.as_str()].as_primitive::<Float64Type>().clone())
                .collect(),
        }
    }

    fn rows(&self) -> usize {
        self.episodes.len()
    }
}

/// Goes along the steps of episodes, one after another.
struct Chain {
    path: PathBuf,
    last: Option<(i64, i32, Option<StateId>)>,
}

impl Chain {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), last: None }
    }

    fn advance(
        &mut self,
        batch: &StepBatch,
        row: usize,
        pass: &Pass,
        visit: &mut dyn FnMut(&EdgeStep<'_>),
    ) -> Result<(), StoreError> {
        let (episode, index) = (batch.episodes.value(row), batch.indexes.value(row));
        let to = batch.states.is_valid(row).then(|| state_at(&batch.states, row));
        let last = self.last.replace((episode, index, to));
        if batch.actions.is_null(row) {
            return Ok(());
        }
        match last {
            Some((last_episode, last_index, Some(from)))
                if last_episode == episode && last_index + 1 == index =>
            {
                if pass.contains(&place(&from)) {
                    let (action, wall_time_us) =
                        (batch.actions.value(row), batch.wall_times.value(row));
                    visit(&EdgeStep { from, action, to, episode, index, wall_time_us, batch, row });
                }
                Ok(())
            }
            _ => {
                let id = EpisodeId(episode);
                let what = format!(
                    "step {index} of episode {} of run {} does not follow",
                    id.ordinal(),
                    id.run().0
                );
                Err(StoreError::Corrupt { path: self.path.clone(), what })
            }
        }
    }
}
