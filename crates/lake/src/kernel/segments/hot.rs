//! The hot rows: which of them a seal moves, and in which order.

use std::collections::HashSet;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, interleave_record_batch};

use super::frame::{self, Frame};
use crate::kernel::error::LakeError;
use crate::kernel::handle::Lake;
use crate::kernel::schema::decode::{StepColumns, benchmark_uris, episode_ids, state_ids, uids};
use crate::kernel::schema::table::{Table, has_large_rows};
use crate::kernel::versions::catalog::{self, PlacedFrame};
use crate::kernel::versions::sqlite::{self, Catalog};
use steplake_model::StateId;

/// Rows of a batch that a seal writes.
const WRITE_ROWS: usize = 16_384;
/// The same where rows may be kilobytes long.
const WRITE_LARGE_ROWS: usize = 256;

/// A frame and its decoded rows.
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

/// Decodes frames.
pub(crate) fn decode(lake: &Lake, frames: Vec<PlacedFrame>) -> Result<Vec<HotBatch>, LakeError> {
    let path = lake.path.join(sqlite::FILE_NAME);
    let decode = |PlacedFrame { seq, frame }: PlacedFrame| {
        let batch = frame.decode(lake.schemas.get(frame.table), seq, &path)?;
        Ok(HotBatch { seq, table: frame.table, batch, bytes: frame.bytes })
    };
    frames.into_iter().map(decode).collect()
}

/// The closed episodes: those with a row in `episodes`.
pub(crate) fn closed_episodes(hot: &[HotBatch]) -> HashSet<i64> {
    let episodes = hot.iter().filter(|hot| hot.table == Table::Episodes);
    episodes.flat_map(|hot| episode_ids(&hot.batch)).copied().collect()
}

/// The states of keyframes in a batch of `steps`, of the episodes that `counts` selects. Only the
/// IR of these states belongs to the lake.
fn keyframes<'a>(
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
    let closed = closed_episodes(hot);
    masks_of(hot, |episode| closed.contains(&episode))
}

/// For each batch, which of its rows belong to closed episodes or to episodes that `counts`
/// selects: steps of the latter, the states of these steps, the IR of their keyframes, and the
/// benchmarks of both.
pub(crate) fn masks_of(hot: &[HotBatch], counts: impl Fn(i64) -> bool + Copy) -> Vec<BooleanArray> {
    let episodes = hot.iter().filter(|hot| hot.table == Table::Episodes);
    let mut benchmarks: HashSet<_> = episodes.flat_map(|hot| benchmark_uris(&hot.batch)).collect();
    let (mut states, mut whole) = (HashSet::new(), HashSet::new());
    for hot in hot.iter().filter(|hot| hot.table == Table::Steps) {
        whole.extend(keyframes(&hot.batch, counts));
        let rows = benchmark_uris(&hot.batch).zip(state_ids(&hot.batch, "state_id"));
        let mut last = None;
        for (&episode, row) in episode_ids(&hot.batch).iter().zip(rows) {
            // Most steps change nothing, so the state of the step before is not inserted again.
            if last != Some(row) && counts(episode) {
                last = Some(row);
                benchmarks.insert(row.0);
                states.extend(row.1);
            }
        }
    }
    let holds = |batch: &RecordBatch, kept: &HashSet<StateId>| -> BooleanArray {
        let is_kept = |state: Option<StateId>| state.is_some_and(|state| kept.contains(&state));
        state_ids(batch, "state_id").map(|state| Some(is_kept(state))).collect()
    };
    let mask = |HotBatch { table, batch, .. }: &HotBatch| match table {
        Table::Steps => episode_ids(batch).iter().map(|&id| Some(counts(id))).collect(),
        Table::Observations => holds(batch, &states),
        Table::Ir => holds(batch, &whole),
        Table::Benchmarks => {
            benchmark_uris(batch).map(|uri| Some(benchmarks.contains(uri))).collect()
        }
        _ => BooleanArray::from(vec![true; batch.num_rows()]),
    };
    hot.iter().map(mask).collect()
}

/// The rows to be sealed, in batches, in the order of the table's key.
pub(crate) fn sorted_batches<'a>(
    table: Table,
    hot: &[(&'a HotBatch, &BooleanArray)],
) -> impl Iterator<Item = RecordBatch> + use<'a> {
    let places = sorted_places(table, hot);
    let batches = hot.iter().map(|(hot, _)| &hot.batch).collect::<Vec<_>>();
    let is_large = batches.iter().any(|batch| has_large_rows(batch.schema_ref()));
    let rows = if is_large { WRITE_LARGE_ROWS } else { WRITE_ROWS };
    let chunks = (0..places.len()).step_by(rows);
    chunks.map(move |from| {
        let places = &places[from..places.len().min(from + rows)];
        interleave_record_batch(&batches, places).expect("the places are of the batches")
    })
}

/// The rows to be sealed, as pairs of batch and row, in the order of the table's key.
fn sorted_places(table: Table, hot: &[(&HotBatch, &BooleanArray)]) -> Vec<(usize, usize)> {
    fn sorted<K: Ord>(
        hot: &[(&HotBatch, &BooleanArray)],
        keys: impl Fn(&RecordBatch) -> Vec<K>,
    ) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        for (batch, (hot, mask)) in hot.iter().enumerate() {
            let keys = keys(&hot.batch).into_iter().enumerate();
            let taken = keys.filter(|&(row, _)| mask.value(row));
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
        Table::Observations | Table::Ir => sorted(hot, |batch| {
            state_ids(batch, "state_id").flatten().map(StateId::order).collect()
        }),
        Table::Benchmarks => {
            sorted(hot, |batch| benchmark_uris(batch).map(str::to_owned).collect())
        }
        Table::Measurements | Table::Miscompilations => sorted(hot, |batch| {
            let states = state_ids(batch, "state_id").flatten().map(StateId::order);
            states.zip(uids(batch).map(str::to_owned)).collect()
        }),
        Table::StateTransitions | Table::Conflicts | Table::Failures => Vec::new(),
    }
}

/// Decodes what a damaged hot log may hold, for the fuzzer. `content` is the number of the table,
/// the decompressed length divided by 256, and the body. The digest of the frame is made to match.
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

/// The frames of a lake in the form that [`fuzz_frame`] takes.
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
