//! The function `ir_diff`.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray as _};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use similar::{Algorithm, TextDiff};

use super::arguments::state_ids;
use super::ir::{IrSource, texts};
use super::memory::TextBuilder;
use steplake_model::StateId;

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;
/// After this time, the rest of two texts becomes one change.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(5);
/// The bytes that a comparison takes for each byte of its texts, approximately: their lines by
/// position and by content, and the diff.
const SEARCH_BYTES: usize = 6;

/// `ir_diff(before, after)`: the diff of each row; null if the IR of either state is missing.
pub(super) fn diffs(
    sources: &[Arc<IrSource>],
    function: &'static str,
    before: &ArrayRef,
    after: &ArrayRef,
    memory: &MemoryReservation,
) -> Result<ArrayRef> {
    let states = [state_ids(before)?, state_ids(after)?];
    let old = texts(sources, before, function, memory)?;
    let new = texts(sources, after, function, memory)?;
    let texts = old.as_string::<i32>().iter().zip(new.as_string::<i32>());
    let mut diffs = TextBuilder::new(function, memory);
    for (row, texts) in texts.enumerate() {
        match (states[0][row], states[1][row], texts) {
            (Some(from), Some(to), (Some(old), Some(new))) => {
                let search = memory.new_empty();
                search.try_grow((old.len() + new.len()).saturating_mul(SEARCH_BYTES))?;
                diffs.append(Some(diff(from, to, old, new)))?;
            }
            _ => diffs.append(None::<&str>)?,
        }
    }
    Ok(diffs.finish())
}

/// A unified diff, with the state ids as file names; empty if nothing differs.
fn diff(from: StateId, to: StateId, old: &str, new: &str) -> String {
    let mut config = TextDiff::configure();
    config.algorithm(Algorithm::Patience).timeout(SEARCH_TIME_MAX);
    let diff = config.diff_lines(old, new);
    let mut unified = diff.unified_diff();
    unified.context_radius(CONTEXT_LINES).header(&from.to_string(), &to.to_string()).to_string()
}
