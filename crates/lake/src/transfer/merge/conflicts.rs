//! Conflicts between lakes, which none of them has alone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::error::MergeError;
use super::source::SourceLake;
use crate::kernel::schema::decode::{EdgeColumns, StepColumns};
use crate::kernel::schema::episode_steps::{EpisodeSteps, StepLink};
use crate::kernel::{Lake, ScanColumns, Table};
use steplake_model::{ActionIndex, StateId};

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
    for batch in merged.snapshot()?.scan(Table::Conflicts, ScanColumns::All) {
        let batch = batch?;
        let edges = EdgeColumns::of(&batch, Table::Conflicts);
        let conflict = |row| (StateId::from_slice(edges.states.value(row)), edges.action(row));
        new.extend((0..edges.rows()).map(conflict));
    }
    for lake in lakes {
        if new.is_empty() {
            break;
        }
        for known in conflicts_of(&SourceLake::open(lake, false)?, &new)? {
            new.remove(&known);
        }
    }
    Ok(new)
}

/// Returns those of the `wanted` conflicts that the closed episodes of one lake have.
fn conflicts_of(
    source: &SourceLake,
    wanted: &BTreeSet<Conflict>,
) -> Result<Vec<Conflict>, MergeError> {
    let mut led: HashMap<Conflict, HashSet<StateId>> = HashMap::new();
    let columns = ScanColumns::Named(&["episode_id", "step_index", "action", "state_id"]);
    let schema = source.snapshot.schema(Table::Steps);
    let schema = schema.project(&columns.places(&schema)).expect("the places are of the schema");
    source.visit(Table::Steps, columns, &Arc::new(schema), &mut |_, batches| {
        let mut walk = EpisodeSteps::default();
        for batch in batches {
            let batch = batch?;
            let steps = StepColumns::of(&batch);
            let (actions, states) = (steps.actions(), steps.states());
            for row in 0..steps.rows() {
                let state = states.get(row);
                let link = walk.advance(steps.episodes[row], steps.indexes[row], state);
                if let (StepLink::Next(from), Some(action), Some(to)) =
                    (link, actions.get(row), state)
                    && wanted.contains(&(from, action))
                {
                    led.entry((from, action)).or_default().insert(to);
                }
            }
        }
        Ok(())
    })?;
    Ok(led.into_iter().filter(|(_, to)| to.len() > 1).map(|(conflict, _)| conflict).collect())
}
