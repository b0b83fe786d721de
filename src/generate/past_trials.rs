//! What the settled episodes of an interrupted beam search did.

use std::collections::{BTreeMap, HashMap};

use super::beam::Taken;
use super::past_costs::read_costs;
use super::plan::Plan;
use crate::lake::decode::{StepColumns, are_of_run};
use crate::lake::{LakeError, ScanColumns, Snapshot};
use crate::model::{BenchmarkUri, EpisodeId, RunId, StateId};

/// What came of the actions of each benchmark's settled episodes, in their order, with what the
/// lake says that the states cost.
pub(super) type PastTrials = HashMap<BenchmarkUri, Vec<(Vec<Taken>, HashMap<StateId, f64>)>>;

/// Reads the settled episodes of a beam search: the lake has no others of the run.
pub(super) fn past_trials(
    snapshot: &Snapshot,
    run: RunId,
    plan: &Plan,
) -> Result<PastTrials, LakeError> {
    let mut episodes: BTreeMap<u32, Vec<Taken>> = BTreeMap::new();
    let columns = ["episode_id", "step_index", "state_id", "action"];
    for batch in snapshot.steps(ScanColumns::Named(&columns)) {
        let batch = batch?;
        let steps = StepColumns::of(&batch);
        let (actions, states) = (steps.actions(), steps.states());
        for (row, _) in are_of_run(&batch, run).enumerate().filter(|&(_, is_of_run)| is_of_run) {
            let taken = episodes.entry(EpisodeId(steps.episodes[row]).ordinal()).or_default();
            // Step 0 has no action.
            taken.extend(actions.get(row).map(|action| (action, states.get(row))));
        }
    }
    let states = episodes.values().flatten().filter_map(|(_, state)| *state);
    let mut costs: HashMap<StateId, Option<f64>> = states.map(|state| (state, None)).collect();
    read_costs(snapshot, &plan.objective, &mut costs)?;
    let mut past = PastTrials::new();
    for (ordinal, taken) in episodes {
        let states = taken.iter().filter_map(|(_, state)| *state);
        let known = states.filter_map(|state| Some((state, costs[&state]?))).collect();
        past.entry(plan.benchmark(ordinal).clone()).or_default().push((taken, known));
    }
    Ok(past)
}
