//! What the settled episodes of an interrupted beam search did.

use std::collections::{BTreeMap, HashMap};

use super::beam::Taken;
use super::past::Past;
use super::past_costs::read_costs;
use super::plan::Plan;
use super::settled::Settled;
use crate::lake::decode::StepColumns;
use crate::lake::{LakeError, ScanColumns, Snapshot};
use crate::model::{EpisodeId, StateId};

/// What came of the actions of each benchmark's settled episodes, with what the lake says that the
/// states cost.
pub(super) type PastTrials = Past<(Vec<Taken>, HashMap<StateId, f64>)>;

/// Reads the settled episodes of a beam search.
pub(super) fn past_trials(
    snapshot: &Snapshot,
    settled: &Settled,
    plan: &Plan,
) -> Result<PastTrials, LakeError> {
    let mut episodes: BTreeMap<u32, Vec<Taken>> = BTreeMap::new();
    let columns = ["episode_id", "step_index", "state_id", "action"];
    for batch in snapshot.steps(ScanColumns::Named(&columns)) {
        let batch = batch?;
        let steps = StepColumns::of(&batch);
        let (actions, states) = (steps.actions(), steps.states());
        for (row, &episode) in steps.episodes.iter().enumerate() {
            let id = EpisodeId(episode);
            if !settled.has(id) {
                continue;
            }
            let taken = episodes.entry(id.ordinal()).or_default();
            // Step 0 has no action.
            taken.extend(actions.get(row).map(|action| (action, states.get(row))));
        }
    }
    let states = episodes.values().flatten().filter_map(|(_, state)| *state);
    let mut costs: HashMap<StateId, Option<f64>> = states.map(|state| (state, None)).collect();
    read_costs(snapshot, &plan.objective, &mut costs)?;
    let mut past = PastTrials::default();
    for (ordinal, taken) in episodes {
        let states = taken.iter().filter_map(|(_, state)| *state);
        let known = states.filter_map(|state| Some((state, costs[&state]?))).collect();
        past.add(plan, ordinal, (taken, known));
    }
    Ok(past)
}
