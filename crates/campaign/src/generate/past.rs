//! What settled episodes tell those that are played after them, as the lake has it.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::plan::RunPlan;
use super::walk::Walk;
use steplake_lake::{LakeError, Snapshot};
use steplake_model::{BenchmarkUri, EpisodeId, StateId};

/// The settled episodes of each benchmark, by their ordinals. A policy hears of those before the
/// episode that is about to be played, so it plays one that was lost as it did then.
#[derive(Debug, Default)]
pub(super) struct Past(HashMap<BenchmarkUri, BTreeMap<u32, Walk>>);

impl Past {
    /// Adds an episode.
    pub(super) fn add(&mut self, plan: &RunPlan, ordinal: u32, walk: Walk) {
        self.0.entry(plan.benchmark(ordinal).clone()).or_default().insert(ordinal, walk);
    }

    /// Takes the episodes of a benchmark before `ordinal`, with their ordinals, in their order.
    pub(super) fn take_before(&mut self, uri: &BenchmarkUri, ordinal: u32) -> BTreeMap<u32, Walk> {
        let Some(walks) = self.0.get_mut(uri) else { return BTreeMap::new() };
        let later = walks.split_off(&ordinal);
        std::mem::replace(walks, later)
    }

    /// Learns what the states of all episodes cost, as far as the lake says it.
    pub(super) fn price(&mut self, snapshot: &Snapshot, plan: &RunPlan) -> Result<(), LakeError> {
        let mut walks = self.0.values_mut().flat_map(BTreeMap::values_mut).collect::<Vec<_>>();
        let states = walks.iter().flat_map(|walk| walk.states()).collect::<HashSet<_>>();
        let costs = costs(snapshot, &plan.objective, |state| states.contains(&state))?;
        for walk in &mut walks {
            walk.price(&costs);
        }
        Ok(())
    }
}

/// Visits all episodes whose first state is known. Their costs are not.
pub(super) fn each_walk(
    snapshot: &Snapshot,
    mut visit: impl FnMut(EpisodeId, Walk),
) -> Result<(), LakeError> {
    let unpriced = |state: StateId| (state, None);
    let mut current: Option<(EpisodeId, Walk)> = None;
    for steps in snapshot.steps() {
        for step in steps?.iter() {
            let (id, state) = (step.episode, step.state);
            match (step.action, &mut current) {
                (Some(action), Some((of, walk))) if *of == id => {
                    walk.steps.push((action, state.map(unpriced)));
                }
                _ => {
                    if let Some((id, walk)) = current.take() {
                        visit(id, walk);
                    }
                    let first = state.filter(|_| step.index == 0).map(unpriced);
                    current = first.map(|_| (id, Walk { first, steps: Vec::new() }));
                }
            }
        }
    }
    if let Some((id, walk)) = current {
        visit(id, walk);
    }
    Ok(())
}

/// Reads what states cost, as far as the lake says it.
pub(super) fn costs(
    snapshot: &Snapshot,
    objective: &str,
    is_wanted: impl Fn(StateId) -> bool,
) -> Result<HashMap<StateId, f64>, LakeError> {
    let mut costs = HashMap::new();
    for number in snapshot.numbers(objective) {
        let (state, cost) = number?;
        if is_wanted(state) && !cost.is_nan() {
            costs.insert(state, cost);
        }
    }
    Ok(costs)
}
