//! The hot rows: which of them belong to closed episodes, and in which order they are sealed.

use std::collections::HashSet;

use arrow::array::{Array as _, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, interleave_record_batch};

use super::catalog::{self, PlacedFrame};
use super::decode::{StepColumns, benchmark_uris, episode_ids, order, state_ids};
use super::error::LakeError;
use super::frame::{self, Frame};
use super::handle::Lake;
use super::sqlite::{self, Catalog};
use super::table::Table;
use crate::model::StateId;

/// Rows that are put together before they are written.
const WRITE_ROWS: usize = 16_384;
/// The same for `ir`, whose rows are kilobytes.
const WRITE_IR_ROWS: usize = 256;

/// A frame, read.
pub(crate) struct HotBatch {
    pub(crate) seq: i64,
    pub(crate) table: Table,
    pub(crate) batch: RecordBatch,
    /// Bytes of the frame, decompressed.
    pub(crate) bytes: u64,
}

impl HotBatch {
    /// The frame of those rows for which the mask is true.
    pub(crate) fn filtered(&self, mask: &BooleanArray) -> Frame {
        let rows = filter_record_batch(&self.batch, mask).expect("a mask as long as its batch");
        Frame::encode(self.table, &rows)
    }
}

/// Reads frames.
pub(crate) fn decode(lake: &Lake, frames: Vec<PlacedFrame>) -> Result<Vec<HotBatch>, LakeError> {
    let path = lake.path.join(sqlite::FILE_NAME);
    let decode = |PlacedFrame { seq, frame }: PlacedFrame| {
        let batch = frame.decode(lake.schemas.get(frame.table), seq, &path)?;
        Ok(HotBatch { seq, table: frame.table, batch, bytes: frame.bytes })
    };
    frames.into_iter().map(decode).collect()
}

/// The episodes that have a row among these.
pub(crate) fn closed_episodes<'a>(
    batches: impl Iterator<Item = (Table, &'a RecordBatch)>,
) -> HashSet<i64> {
    let episodes = batches.filter(|(table, _)| *table == Table::Episodes);
    episodes.flat_map(|(_, batch)| episode_ids(batch)).copied().collect()
}

/// The benchmarks that the episodes among these rows are about.
pub(crate) fn closed_benchmarks<'a>(
    batches: impl Iterator<Item = (Table, &'a RecordBatch)>,
) -> HashSet<&'a str> {
    let episodes = batches.filter(|(table, _)| *table == Table::Episodes);
    episodes.flat_map(|(_, batch)| benchmark_uris(batch)).collect()
}

/// For each row of a batch of `benchmarks`, whether it is one of `kept`.
pub(crate) fn benchmark_mask(batch: &RecordBatch, kept: &HashSet<&str>) -> BooleanArray {
    benchmark_uris(batch).map(|uri| Some(kept.contains(uri))).collect()
}

/// For each row of a batch of `observations` or `ir`, whether its state is one of `kept`.
pub(crate) fn state_mask(batch: &RecordBatch, kept: &HashSet<StateId>) -> BooleanArray {
    let is_kept = |state: Option<StateId>| Some(state.is_some_and(|state| kept.contains(&state)));
    state_ids(batch, "state_id").map(is_kept).collect()
}

/// The states of a batch of `steps` that are keyframes of episodes that `count`: their IR belongs
/// to the lake.
pub(crate) fn keyframes<'a>(
    batch: &'a RecordBatch,
    counts: impl Fn(i64) -> bool + 'a,
) -> impl Iterator<Item = StateId> + 'a {
    let steps = StepColumns::of(batch);
    let (keyframes, states) = (steps.keyframes(), steps.states());
    let kept = move |&row: &usize| keyframes.value(row) && counts(steps.episodes[row]);
    (0..steps.rows()).filter(kept).filter_map(move |row| states.get(row))
}

/// For each batch, which of its rows are to be sealed.
pub(crate) fn masks(hot: &[HotBatch]) -> Vec<BooleanArray> {
    let closed = closed_episodes(hot.iter().map(|hot| (hot.table, &hot.batch)));
    let benchmarks = closed_benchmarks(hot.iter().map(|hot| (hot.table, &hot.batch)));
    let (mut states, mut whole) = (HashSet::new(), HashSet::new());
    for hot in hot.iter().filter(|hot| hot.table == Table::Steps) {
        whole.extend(keyframes(&hot.batch, |episode| closed.contains(&episode)));
        let mut last = None;
        for (&episode, state) in
            episode_ids(&hot.batch).iter().zip(state_ids(&hot.batch, "state_id"))
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
            episode_ids(&hot.batch).iter().map(|id| Some(closed.contains(id))).collect()
        }
        Table::Observations => state_mask(&hot.batch, &states),
        Table::Ir => state_mask(&hot.batch, &whole),
        Table::Benchmarks => benchmark_mask(&hot.batch, &benchmarks),
        _ => std::iter::repeat_n(Some(true), hot.batch.num_rows()).collect(),
    };
    hot.iter().map(mask).collect()
}

/// The rows to be sealed, in the order of the table's key, a few at a time.
pub(crate) fn sorted_batches<'a>(
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
            let steps = StepColumns::of(batch);
            steps.episodes.iter().copied().zip(steps.indexes.iter().copied()).collect()
        }),
        Table::Actions => unreachable!("actions are never hot"),
        Table::Episodes => sorted(hot, |batch| episode_ids(batch).to_vec()),
        Table::Observations | Table::Ir => {
            sorted(hot, |batch| state_ids(batch, "state_id").flatten().map(order).collect())
        }
        Table::Benchmarks => {
            sorted(hot, |batch| benchmark_uris(batch).map(str::to_owned).collect())
        }
        Table::StateTransitions | Table::Conflicts | Table::Failures => Vec::new(),
    }
}

/// Reads what a damaged hot log may hold, for the fuzzer: the table's number, the decompressed
/// bytes divided by 256, and the body, under a digest that is right.
#[doc(hidden)]
pub fn fuzz_frame(lake: &Lake, content: &[u8]) {
    let Some((&[table, high, low], body)) = content.split_first_chunk::<3>() else { return };
    let table = Table::ALL[usize::from(table) % Table::ALL.len()];
    let bytes = (u64::from(high) << 16) | (u64::from(low) << 8);
    let digest = frame::digest(table, body);
    for rows in 0..4 {
        let frame = Frame { table, rows, bytes, digest, body: body.to_vec() };
        let _ = frame.decode(lake.schemas.get(table), 1, &lake.path);
    }
}

/// The frames of a lake as [`fuzz_frame`] takes them.
#[doc(hidden)]
pub fn fuzz_frames(lake: &Lake) -> Result<Vec<Vec<u8>>, LakeError> {
    let catalog = Catalog::open_for_reading(lake)?;
    let frames = catalog.reading(catalog::frames)?.into_iter().map(|placed| {
        let units = placed.frame.bytes.div_ceil(256).to_le_bytes();
        let number = u8::try_from(placed.frame.table as usize).expect("few tables");
        [&[number, units[1], units[0]][..], &placed.frame.body].concat()
    });
    Ok(frames.collect())
}
