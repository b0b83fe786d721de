//! The walks that a lake has: what the actions of episodes led to, and what that costs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::effects::{Effects, History};
use super::frontier::{Frontier, Reached};
use super::past::Past;
use super::past_costs::all_costs;
use super::plan::Plan;
use super::settled::Settled;
use crate::lake::decode::{StepColumns, benchmark_uris, episode_ids, state_ids};
use crate::lake::{LakeError, ScanColumns, Snapshot, Table};
use crate::model::{ActionIndex, BenchmarkUri, EpisodeId, RunId, StateId};

/// An episode: its first state, and what its actions led to; none where the compiler failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Walk {
    pub(super) first: Reached,
    pub(super) steps: Vec<(ActionIndex, Option<Reached>)>,
}

impl Walk {
    /// Returns whether the lake says what all of its states cost.
    pub(super) fn is_priced(&self) -> bool {
        let states = self.steps.iter().filter_map(|(_, reached)| *reached);
        states.chain([self.first]).all(|(_, cost)| cost.is_some())
    }

    /// Returns what a state of the walk costs, if it is known.
    pub(super) fn cost_of(&self, state: StateId) -> Option<f64> {
        let steps = self.steps.iter().rev().filter_map(|(_, reached)| *reached);
        let mut reached = steps.chain([self.first]).filter(|&(known, _)| known == state);
        reached.find_map(|(_, cost)| cost)
    }

    /// Begins the walk.
    pub(super) fn begin(&self, frontier: &mut Frontier) {
        let (first, cost) = self.first;
        frontier.begin(first, cost);
    }

    /// Says what came of the walk that has begun, from a step on.
    pub(super) fn teach_from(&self, step: usize, frontier: &mut Frontier) {
        for &(action, reached) in &self.steps[step..] {
            frontier.note(action, reached);
        }
    }

    fn add_to(&self, effects: &mut Effects, actions: u32, least: f64) {
        let mut history = History::new(actions);
        let mut last = self.first;
        for &(action, reached) in &self.steps {
            let Some(next) = reached else { break };
            let costs = [last.1, next.1].map(|cost| cost.unwrap_or(f64::INFINITY));
            effects.note(action, &mut history, (next.0 != last.0).then_some(costs), least);
            last = next;
        }
    }
}

/// What the policy `frontier` knows when its run begins or goes on.
#[derive(Debug, Default)]
pub(super) struct PastWalks {
    /// The effects of actions in the episodes of earlier runs.
    pub(super) effects: Effects,
    /// The episodes of earlier runs, of those benchmarks that the run has too.
    pub(super) earlier: HashMap<BenchmarkUri, Vec<Walk>>,
    /// The settled episodes of the run.
    pub(super) own: Past<Walk>,
}

impl PastWalks {
    /// Reads the episodes of the runs that were finished when the run began, and its own settled
    /// ones. Takes some 50 bytes for each state of the lake, and for each step of the plan's
    /// benchmarks.
    pub(super) fn read(
        snapshot: &Snapshot,
        finished: &BTreeSet<RunId>,
        own: &Settled,
        plan: &Plan,
        (actions, least): (u32, f64),
    ) -> Result<Self, LakeError> {
        let mut closed = HashMap::new();
        let columns = ScanColumns::Named(&["episode_id", "benchmark_uri"]);
        for batch in snapshot.scan(Table::Episodes, columns) {
            let batch = batch?;
            let uris = benchmark_uris(&batch).map(str::to_owned);
            closed.extend(episode_ids(&batch).iter().map(|&id| EpisodeId(id)).zip(uris));
        }
        let mut first_states = HashMap::new();
        let columns = ScanColumns::Named(&["benchmark_uri", "initial_state_id"]);
        for batch in snapshot.scan(Table::Benchmarks, columns) {
            let batch = batch?;
            let states = state_ids(&batch, "initial_state_id");
            first_states.extend(benchmark_uris(&batch).map(str::to_owned).zip(states));
        }
        let costs = all_costs(snapshot, &plan.objective)?;
        let programs: HashMap<&str, &BenchmarkUri> =
            plan.benchmarks.iter().map(|uri| (uri.as_str(), uri)).collect();
        let mut effects = Effects::new(actions);
        let mut walks: BTreeMap<EpisodeId, (BenchmarkUri, Walk)> = BTreeMap::new();
        each_walk(snapshot, &costs, |id, walk| {
            let is_earlier = finished.contains(&id.run());
            let Some(uri) = closed.get(&id).filter(|_| is_earlier || own.has(id)) else {
                return;
            };
            // A fork begins somewhere on the way.
            if first_states.get(uri) != Some(&Some(walk.first.0)) {
                return;
            }
            if is_earlier {
                walk.add_to(&mut effects, actions, least);
            }
            if let Some(&uri) = programs.get(uri.as_str()) {
                walks.insert(id, (uri.clone(), walk));
            }
        })?;
        let mut past = Self { effects: effects.limited(), ..Self::default() };
        for (id, (uri, walk)) in walks {
            if own.has(id) {
                past.own.add(plan, id.ordinal(), walk);
            } else {
                past.earlier.entry(uri).or_default().push(walk);
            }
        }
        Ok(past)
    }
}

/// Visits all episodes whose first state is known.
fn each_walk(
    snapshot: &Snapshot,
    costs: &HashMap<StateId, f64>,
    mut visit: impl FnMut(EpisodeId, Walk),
) -> Result<(), LakeError> {
    let priced = |state: StateId| (state, costs.get(&state).copied());
    let mut current: Option<(EpisodeId, Walk)> = None;
    let columns = ["episode_id", "step_index", "state_id", "action"];
    for batch in snapshot.steps(ScanColumns::Named(&columns)) {
        let batch = batch?;
        let steps = StepColumns::of(&batch);
        let (actions, states) = (steps.actions(), steps.states());
        for row in 0..steps.rows() {
            let (id, state) = (EpisodeId(steps.episodes[row]), states.get(row));
            match (actions.get(row), &mut current) {
                (Some(action), Some((of, walk))) if *of == id => {
                    walk.steps.push((action, state.map(priced)));
                }
                _ => {
                    if let Some((id, walk)) = current.take() {
                        visit(id, walk);
                    }
                    let first = state.filter(|_| steps.indexes[row] == 0).map(priced);
                    current = first.map(|first| (id, Walk { first, steps: Vec::new() }));
                }
            }
        }
    }
    if let Some((id, walk)) = current {
        visit(id, walk);
    }
    Ok(())
}
