//! Sealing: rows of closed episodes move from the hot log into segments.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, interleave_record_batch, not};
use arrow::datatypes::{Int32Type, Int64Type};

use super::catalog::{self, Catalog};
use super::frame::Frame;
use super::lock::Lock;
use super::segment::{FinishedSegment, SegmentWriter};
use super::writer::{HotBatch, decode, state_id, state_ids};
use super::{Disk, Lake, Segment, StoreError, Table};
use crate::model::StateId;

/// Rows that are put together before they are written.
const WRITE_ROWS: usize = 16_384;
/// The same for `ir`, whose rows are kilobytes.
const WRITE_IR_ROWS: usize = 256;

/// Prepares seals, on any thread. See [`Writer::sealer`](super::Writer::sealer).
#[derive(Debug)]
pub struct Sealer {
    lake: Lake,
    lock: Arc<Lock>,
}

/// What a seal did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SealReport {
    /// The segments that were added.
    pub segments: Vec<Segment>,
    /// Rows that were moved.
    pub rows: u64,
    /// What [`Writer::hot_bytes`](super::Writer::hot_bytes) says now.
    pub hot_bytes: u64,
}

/// Segments that are durable on disk and not yet part of the lake. Dropped, it leaves files that
/// the next writer removes.
#[derive(Debug)]
pub struct Prepared {
    finished: Vec<FinishedSegment>,
    /// The frames that go, by number.
    pub(super) taken: Vec<i64>,
    /// What those frames hold that stays hot.
    pub(super) leftovers: Vec<Frame>,
    /// Bytes of the frames that stay as they are.
    untouched_bytes: u64,
    disk: Disk,
    _lock: Arc<Lock>,
}

impl Prepared {
    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.finished.iter().map(|finished| &finished.segment)
    }

    /// One line for the list of snapshots.
    pub(super) fn detail(&self) -> String {
        let (rows, files) =
            (self.segments().map(|segment| segment.rows).sum::<u64>(), self.finished.len());
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        format!("{rows} row{} in {files} file{}", plural(rows), plural(files as u64))
    }

    pub(super) fn left_bytes(&self) -> u64 {
        self.untouched_bytes + self.leftovers.iter().map(|frame| frame.bytes).sum::<u64>()
    }

    pub(super) fn report(&self, hot_bytes: u64) -> SealReport {
        let segments = self.segments().cloned().collect::<Vec<_>>();
        let rows = segments.iter().map(|segment| segment.rows).sum();
        SealReport { segments, rows, hot_bytes }
    }

    /// Removes the files.
    pub(super) fn discard(self) {
        for FinishedSegment { segment, fresh } in self.finished {
            if fresh {
                // What cannot be removed now, the next writer removes.
                let _ = self.disk.remove(&segment.path);
            }
        }
    }
}

impl Sealer {
    pub(super) fn new(lake: Lake, lock: Arc<Lock>) -> Self {
        Self { lake, lock }
    }

    /// Writes what is closed at this moment into segments and makes them durable. The writer may
    /// append meanwhile. The hot log is read into memory.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when the hot log is damaged, [`StoreError::DiskFull`] and what else
    /// a disk does. Nothing of the lake is changed in any case.
    pub fn prepare(&self) -> Result<Prepared, StoreError> {
        let frames = {
            let catalog =
                Catalog::open_for_reading(&self.lake.path, &self.lake.identity, &self.lake.disk)?;
            catalog.reading(catalog::frames)?
        };
        let hot = decode(&self.lake, frames)?;
        let disk = self.lake.disk.clone();
        let mut prepared = Prepared {
            finished: Vec::new(),
            taken: Vec::new(),
            leftovers: Vec::new(),
            untouched_bytes: 0,
            disk,
            _lock: Arc::clone(&self.lock),
        };
        let masks = masks(&hot);
        for table in Table::ALL {
            let places = hot.iter().zip(&masks).filter(|(hot, _)| hot.table == table);
            match self.write_segment(table, &places.collect::<Vec<_>>()) {
                Ok(finished) => prepared.finished.extend(finished),
                Err(error) => {
                    prepared.discard();
                    return Err(error);
                }
            }
        }
        for (hot, mask) in hot.iter().zip(&masks) {
            match mask.true_count() {
                0 => prepared.untouched_bytes += hot.bytes,
                taken => {
                    prepared.taken.push(hot.seq);
                    if taken < mask.len() {
                        let stays = not(mask).expect("a mask has no nulls");
                        let batch = filter_record_batch(&hot.batch, &stays)
                            .expect("a mask as long as its batch");
                        prepared.leftovers.push(Frame::encode(hot.table, &batch));
                    }
                }
            }
        }
        Ok(prepared)
    }

    fn write_segment(
        &self,
        table: Table,
        hot: &[(&HotBatch, &BooleanArray)],
    ) -> Result<Option<FinishedSegment>, StoreError> {
        let mut batches = sorted_batches(table, hot).peekable();
        if batches.peek().is_none() {
            return Ok(None);
        }
        let mut writer =
            SegmentWriter::create(&self.lake.segment_place(), table, self.lake.schemas.get(table))?;
        for batch in batches {
            writer.write(&batch)?;
        }
        writer.finish().map(Some)
    }
}

/// The episodes that have a row among these.
pub(super) fn closed_episodes<'a>(
    batches: impl Iterator<Item = (Table, &'a RecordBatch)>,
) -> HashSet<i64> {
    let episodes = batches.filter(|(table, _)| *table == Table::Episodes);
    let ids = episodes
        .flat_map(|(_, batch)| batch["episode_id"].as_primitive::<Int64Type>().values().iter());
    ids.copied().collect()
}

/// The benchmarks that the episodes among these rows are about.
pub(super) fn closed_benchmarks<'a>(
    batches: impl Iterator<Item = (Table, &'a RecordBatch)>,
) -> HashSet<&'a str> {
    let episodes = batches.filter(|(table, _)| *table == Table::Episodes);
    episodes
        .flat_map(|(_, batch)| batch["benchmark_uri"].as_string::<i32>().iter().flatten())
        .collect()
}

/// For each row of a batch of `benchmarks`, whether it is one of `kept`.
pub(super) fn benchmark_mask(batch: &RecordBatch, kept: &HashSet<&str>) -> BooleanArray {
    let uris = batch["benchmark_uri"].as_string::<i32>();
    uris.iter().map(|uri| Some(uri.is_some_and(|uri| kept.contains(uri)))).collect()
}

/// For each row of a batch of `observations` or `ir`, whether its state is one of `kept`.
pub(super) fn state_mask(batch: &RecordBatch, kept: &HashSet<StateId>) -> BooleanArray {
    let is_kept = |state: Option<StateId>| Some(state.is_some_and(|state| kept.contains(&state)));
    state_ids(batch, "state_id").map(is_kept).collect()
}

/// The states of a batch of `steps` that are keyframes of episodes that `count`: their IR belongs
/// to the lake.
pub(super) fn keyframes<'a>(
    batch: &'a RecordBatch,
    counts: impl Fn(i64) -> bool + 'a,
) -> impl Iterator<Item = StateId> + 'a {
    let keyframes = batch["keyframe"].as_boolean();
    let episodes = batch["episode_id"].as_primitive::<Int64Type>().values();
    let states = state_ids(batch, "state_id").enumerate();
    states
        .filter(move |&(row, _)| keyframes.value(row) && counts(episodes[row]))
        .filter_map(|(_, state)| state)
}

/// For each batch, which of its rows are to be sealed.
pub(super) fn masks(hot: &[HotBatch]) -> Vec<BooleanArray> {
    let closed = closed_episodes(hot.iter().map(|hot| (hot.table, &hot.batch)));
    let benchmarks = closed_benchmarks(hot.iter().map(|hot| (hot.table, &hot.batch)));
    let episodes = |batch: &RecordBatch| batch["episode_id"].as_primitive::<Int64Type>().clone();
    let (mut states, mut whole) = (HashSet::new(), HashSet::new());
    for hot in hot.iter().filter(|hot| hot.table == Table::Steps) {
        whole.extend(keyframes(&hot.batch, |episode| closed.contains(&episode)));
        let mut last = None;
        for (&episode, state) in
            episodes(&hot.batch).values().iter().zip(state_ids(&hot.batch, "state_id"))
        {
            // Most steps change nothing: the state of the step before need not be looked up again.
            if state != last && closed.contains(&episode) {
                last = state;
                states.extend(state);
            }
        }
    }
    let mask = |hot: &HotBatch| match hot.table {
        _ if closed.is_empty() => BooleanArray::new_null(0),
        Table::Steps => {
            episodes(&hot.batch).values().iter().map(|id| Some(closed.contains(id))).collect()
        }
        Table::Observations => state_mask(&hot.batch, &states),
        Table::Ir => state_mask(&hot.batch, &whole),
        Table::Benchmarks => benchmark_mask(&hot.batch, &benchmarks),
        _ => std::iter::repeat_n(Some(true), hot.batch.num_rows()).collect(),
    };
    hot.iter().map(mask).collect()
}

/// The rows to be sealed, in the order of the table's key, a few at a time.
pub(super) fn sorted_batches<'a>(
    table: Table,
    hot: &[(&'a HotBatch, &BooleanArray)],
) -> impl Iterator<Item = RecordBatch> + use<'a> {
    let places = sorted_places(table, hot);
    let batches = hot.iter().map(|(hot, _)| &hot.batch).collect::<Vec<_>>();
    let rows = if table == Table::Ir { WRITE_IR_ROWS } else { WRITE_ROWS };
    let chunks = (0..places.len()).step_by(rows);
    chunks.map(move |from| {
        let places = &places[from..places.len().min(from + rows)];
        interleave_record_batch(&batches, places).expect("the places are of the batches")
    })
}

/// The rows to be sealed, as batch and row, in the order of the table's key.
fn sorted_places(table: Table, hot: &[(&HotBatch, &BooleanArray)]) -> Vec<(usize, usize)> {
    fn sorted<K: Ord>(
        hot: &[(&HotBatch, &BooleanArray)],
        keys: impl Fn(&RecordBatch) -> Vec<K>,
    ) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        for (batch, (hot, mask)) in hot.iter().enumerate() {
            let keys = keys(&hot.batch).into_iter().enumerate();
            let taken = keys.filter(|&(row, _)| row < mask.len() && mask.value(row));
            places.extend(taken.map(|(row, key)| (key, batch, row)));
        }
        places.sort_unstable();
        places.into_iter().map(|(_, batch, row)| (batch, row)).collect()
    }
    match table {
        Table::Steps => sorted(hot, |batch| {
            let indexes = batch["step_index"].as_primitive::<Int32Type>().values().iter();
            batch["episode_id"]
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .copied()
                .zip(indexes.copied())
                .collect()
        }),
        Table::Episodes => {
            sorted(hot, |batch| batch["episode_id"].as_primitive::<Int64Type>().values().to_vec())
        }
        Table::Observations | Table::Ir => sorted(hot, |batch| {
            let ids = batch["state_id"].as_fixed_size_binary();
            (0..ids.len()).map(|row| order(state_id(ids, row))).collect()
        }),
        Table::Benchmarks => sorted(hot, |batch| {
            batch["benchmark_uri"]
                .as_string::<i32>()
                .iter()
                .map(|uri| uri.unwrap_or("").to_owned())
                .collect()
        }),
        Table::StateTransitions | Table::Conflicts | Table::Failures => Vec::new(),
    }
}

/// The order of states in segments: by `state_key`, which is signed, then by the bytes.
pub(super) fn order(state: StateId) -> (i64, StateId) {
    (state.key(), state)
}
