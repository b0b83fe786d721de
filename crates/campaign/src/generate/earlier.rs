//! What the runs before a run tell the policies that know of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::past::{costs, each_walk};
use super::plan::RunPlan;
use super::policies::{Effects, History};
use super::walk::Walk;
use steplake_lake::{LakeError, Snapshot};
use steplake_model::{BenchmarkUri, EpisodeId, RunId};

/// The episodes of the runs that were finished when a run began.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// The effects of actions in all of them.
    pub(super) effects: Effects,
    /// Those of the run's benchmarks, in their order.
    pub(super) walks: HashMap<BenchmarkUri, Vec<Walk>>,
}

impl Earlier {
    /// Reads the episodes of these runs. Takes some 50 bytes for each state of the lake, and for
    /// each step of the plan's benchmarks.
    pub(super) fn read(
        snapshot: &Snapshot,
        finished: &BTreeSet<RunId>,
        plan: &RunPlan,
        (actions, least): (u32, f64),
    ) -> Result<Self, LakeError> {
        let mut closed = HashMap::new();
        for episode in snapshot.episodes() {
            let episode = episode?;
            if finished.contains(&episode.id.run()) {
                closed.insert(episode.id, episode.benchmark);
            }
        }
        let mut first_states = HashMap::new();
        for benchmark in snapshot.benchmarks() {
            let benchmark = benchmark?;
            first_states.insert(benchmark.uri, benchmark.known.initial_state);
        }
        let costs = costs(snapshot, &plan.objective, |_| true)?;
        let programs: HashMap<&str, &BenchmarkUri> =
            plan.benchmarks.iter().map(|uri| (uri.as_str(), uri)).collect();
        let mut effects = Effects::new(actions);
        let mut walks: BTreeMap<EpisodeId, (BenchmarkUri, Walk)> = BTreeMap::new();
        each_walk(snapshot, |id, mut walk| {
            let Some(uri) = closed.get(&id) else { return };
            // A fork begins somewhere on the way.
            if first_states.get(uri) != Some(&walk.first.map(|(state, _)| state)) {
                return;
            }
            walk.price(&costs);
            note(&walk, &mut effects, actions, least);
            if let Some(&uri) = programs.get(uri.as_str()) {
                walks.insert(id, (uri.clone(), walk));
            }
        })?;
        let mut earlier = Self { effects: effects.limited(), ..Self::default() };
        for (uri, walk) in walks.into_values() {
            earlier.walks.entry(uri).or_default().push(walk);
        }
        Ok(earlier)
    }
}

/// Notes the effects of the actions of a walk.
fn note(walk: &Walk, effects: &mut Effects, actions: u32, least: f64) {
    let mut history = History::new(actions);
    let Some(mut last) = walk.first else { return };
    for &(action, reached) in &walk.steps {
        let Some(next) = reached else { break };
        let costs = [last.1, next.1].map(|cost| cost.unwrap_or(f64::INFINITY));
        effects.note(action, &mut history, (next.0 != last.0).then_some(costs), least);
        last = next;
    }
}
