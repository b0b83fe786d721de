//! Rows of Arrow batches as values of the model.

use arrow::array::{Array as _, AsArray as _, FixedSizeBinaryArray, RecordBatch};
use arrow::datatypes::Int64Type;

use super::rows::KnownBenchmark;
use crate::model::{Baselines, StateId};

/// The states in a column.
pub(crate) fn state_ids<'a>(
    batch: &'a RecordBatch,
    column: &str,
) -> impl Iterator<Item = Option<StateId>> + 'a {
    let ids: &FixedSizeBinaryArray = batch[column].as_fixed_size_binary();
    (0..ids.len()).map(|row| ids.is_valid(row).then(|| state_id(ids, row)))
}

/// The state in a row, which is not null.
pub(crate) fn state_id(ids: &FixedSizeBinaryArray, row: usize) -> StateId {
    StateId(ids.value(row).try_into().expect("the column holds 20 bytes a row"))
}

/// The order of states in segments: by `state_key`, which is signed, then by the bytes.
pub(crate) fn order(state: StateId) -> (i64, StateId) {
    (state.key(), state)
}

/// The programs of some rows of `benchmarks`, by name.
pub(crate) fn known_benchmarks(
    batch: &RecordBatch,
    names: &[String],
) -> Vec<(String, KnownBenchmark)> {
    let text = |name, row| batch[name].as_string::<i32>().value(row).to_owned();
    let states: Vec<Option<StateId>> = state_ids(batch, "initial_state_id").collect();
    let known = |(row, initial_state)| {
        let baseline = |name: &String| {
            let column = batch[name.as_str()].as_primitive::<Int64Type>();
            column.is_valid(row).then(|| (name.clone(), column.value(row)))
        };
        let baselines = Baselines(names.iter().filter_map(baseline).collect());
        let program_digest = text("program_digest", row);
        (text("benchmark_uri", row), KnownBenchmark { program_digest, initial_state, baselines })
    };
    states.into_iter().enumerate().map(known).collect()
}
