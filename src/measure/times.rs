//! The times of states that a lake knows already.

use std::collections::HashMap;

use arrow::array::AsArray as _;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use super::Space;
use crate::lake::decode::state_ids;
use crate::lake::{LakeError, ScanColumns, Snapshot, Table};
use crate::model::StateId;

/// Returns the median of samples; of an even number, the mean of the two in the middle.
///
/// # Panics
///
/// If there are none.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [low, high] = [(sorted.len() - 1) / 2, sorted.len() / 2].map(|place| sorted[place]);
    f64::midpoint(low, high)
}

/// Returns the medians, in a space, of those states of a lake that were measured on this machine
/// with code that was made in this way. Of several measurements of a state, the first one counts:
/// a search that is resumed learns what it learnt before.
///
/// # Errors
///
/// [`LakeError::Corrupt`] with a file that is damaged.
pub fn measured_times(
    snapshot: &Snapshot,
    space: Space,
    machine: &str,
    compilation: &str,
) -> Result<HashMap<StateId, f64>, LakeError> {
    let mut first: HashMap<StateId, (i64, String, f64)> = HashMap::new();
    let wanted = [("space", space.as_str()), ("machine", machine), ("compilation", compilation)];
    for batch in snapshot.scan(Table::Measurements, ScanColumns::All) {
        let batch = batch?;
        // Texts that repeat are stored as dictionaries.
        let column = |name| cast(&batch[name], &DataType::Utf8).expect("it is a column of texts");
        let texts = wanted.map(|(name, text)| (column(name), text));
        let (uids, samples) = (batch["uid"].as_string::<i32>(), batch["samples"].as_list::<i32>());
        let moments = batch["measured_at_ms"].as_primitive::<Int64Type>();
        for (row, state) in state_ids(&batch, "state_id").enumerate() {
            let Some(state) = state else { continue };
            if texts.iter().any(|(column, text)| column.as_string::<i32>().value(row) != *text) {
                continue;
            }
            let values = samples.value(row);
            let values = values.as_primitive::<Float64Type>().values();
            let (moment, uid) = (moments.value(row), uids.value(row));
            let is_first = first
                .get(&state)
                .is_none_or(|(known, name, _)| (moment, uid) < (*known, name.as_str()));
            if is_first && !values.is_empty() {
                first.insert(state, (moment, uid.to_owned(), median(values)));
            }
        }
    }
    Ok(first.into_iter().map(|(state, (.., seconds))| (state, seconds)).collect())
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians() {
        for (samples, middle) in [(&[3.0][..], 3.0), (&[4.0, 1.0], 2.5), (&[9.0, 1.0, 2.0], 2.0)] {
            assert!((median(samples) - middle).abs() < 1e-12, "{samples:?}");
        }
    }
}
