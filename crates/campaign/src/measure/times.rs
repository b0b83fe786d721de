//! The times of states that a lake knows already.

use std::collections::HashMap;

use super::MeasuredSpace;
use steplake_lake::{LakeError, Snapshot};
use steplake_model::StateId;

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
    space: MeasuredSpace,
    machine: &str,
    compilation: &str,
) -> Result<HashMap<StateId, f64>, LakeError> {
    let mut first: HashMap<StateId, (i64, String, f64)> = HashMap::new();
    let wanted = (space.as_str(), machine, compilation);
    for row in snapshot.measurements() {
        let row = row?;
        if (row.space.as_str(), row.machine.as_str(), row.compilation.as_str()) != wanted {
            continue;
        }
        let (moment, uid) = (row.measured_at_ms, row.uid);
        let is_first =
            first.get(&row.state).is_none_or(|(known, name, _)| (moment, &uid) < (*known, name));
        if is_first && !row.samples.is_empty() {
            first.insert(row.state, (moment, uid, median(&row.samples)));
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
