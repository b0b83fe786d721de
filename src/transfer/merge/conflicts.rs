//! Conflicts between lakes, which none of them has alone.

use std::collections::{BTreeSet, HashMap, HashSet};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};

use super::error::MergeError;
use super::source::Source;
use crate::lake::decode::state_ids;
use crate::lake::{Lake, ScanColumns, Table};
use crate::model::{ActionIndex, StateId};

/// A (state, action) that led to different states.
pub type Conflict = (StateId, ActionIndex);

/// Returns the conflicts of a merged lake that none of its source lakes has alone. The merged lake
/// must have derived tables. Reads the steps of the sources if there are conflicts at all.
///
/// # Errors
///
/// Errors of the store when it reads files.
pub fn new_conflicts(merged: &Lake, lakes: &[Lake]) -> Result<BTreeSet<Conflict>, MergeError> {
    let mut new = BTreeSet::new();
    let columns = ScanColumns::Named(&["state_id", "action"]);
    for batch in merged.snapshot()?.scan(Table::Conflicts, columns) {
        let batch = batch?;
        let actions = batch["action"].as_primitive::<Int32Type>().values().iter();
        let states = state_ids(&batch, "state_id").flatten();
        new.extend(states.zip(actions.map(|&action| index(action))));
    }
    for lake in lakes {
        if new.is_empty() {
            break;
        }
        for known in conflicts_of(&Source::open(lake, false)?, &new)? {
            new.remove(&known);
        }
    }
    Ok(new)
}

fn index(action: i32) -> ActionIndex {
    ActionIndex(u32::try_from(action).unwrap_or(u32::MAX))
}

/// Returns those of the `wanted` conflicts that the closed episodes of one lake have.
fn conflicts_of(source: &Source, wanted: &BTreeSet<Conflict>) -> Result<Vec<Conflict>, MergeError> {
    let mut led: HashMap<Conflict, HashSet<StateId>> = HashMap::new();
    let columns = ScanColumns::Named(&["episode_id", "step_index", "action", "state_id"]);
    let schema = source.snapshot.schema(Table::Steps);
    let schema = schema.project(&columns.places(&schema)).expect("the places are of the schema");
    source.visit(Table::Steps, columns, &std::sync::Arc::new(schema), &mut |batches| {
        let mut before: Option<(i64, Option<StateId>)> = None;
        for batch in batches {
            follow(&batch?, &mut before, &mut |from, action, to| {
                if wanted.contains(&(from, action)) {
                    led.entry((from, action)).or_default().insert(to);
                }
            });
        }
        Ok(())
    })?;
    Ok(led.into_iter().filter(|(_, to)| to.len() > 1).map(|(conflict, _)| conflict).collect())
}

/// Calls `edge` for each step that led from a state to a state. `before` is the last step of the
/// batch before.
fn follow(
    batch: &RecordBatch,
    before: &mut Option<(i64, Option<StateId>)>,
    edge: &mut dyn FnMut(StateId, ActionIndex, StateId),
) {
    let episodes = batch["episode_id"].as_primitive::<Int64Type>().values();
    let actions = batch["action"].as_primitive::<Int32Type>();
    for (row, state) in state_ids(batch, "state_id").enumerate() {
        let episode = episodes[row];
        let from = before.filter(|(last, _)| *last == episode).and_then(|(_, state)| state);
        if let (Some(from), true, Some(to)) = (from, actions.is_valid(row), state) {
            edge(from, index(actions.value(row)), to);
        }
        *before = Some((episode, state));
    }
}
