//! What the settled episodes of an interrupted search cost.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use super::past::Past;
use super::plan::{Costed, Plan};
use super::settled::Settled;
use crate::lake::decode::{StepColumns, state_ids};
use crate::lake::{LakeError, ScanColumns, Snapshot, Table};
use crate::model::{EpisodeId, StateId, as_f64};

/// A cost, and after how many actions of its episode it was first reached.
pub(super) type Reached = (f64, usize);

/// What the settled episodes of each benchmark cost: the lowest cost of their states, or that of
/// one of them, as the plan says. None if the lake does not say it: the compiler failed there, or a
/// state was recorded without its cost.
pub(super) type PastCosts = Past<Option<Reached>>;

/// Reads the costs of the settled episodes of a search. The episode of a failed start has no
/// states, and costs infinity.
pub(super) fn past_costs(
    snapshot: &Snapshot,
    settled: &Settled,
    plan: &Plan,
) -> Result<PastCosts, LakeError> {
    // No state where the compiler failed.
    let mut reached: BTreeMap<u32, Vec<Option<StateId>>> =
        settled.iter().map(|(ordinal, _)| (ordinal, Vec::new())).collect();
    let columns = ["episode_id", "step_index", "state_id"];
    for batch in snapshot.steps(ScanColumns::Named(&columns)) {
        let batch = batch?;
        let steps = StepColumns::of(&batch);
        let states = steps.states();
        for (row, &episode) in steps.episodes.iter().enumerate() {
            let id = EpisodeId(episode);
            if settled.has(id)
                && let Some(all) = reached.get_mut(&id.ordinal())
            {
                all.push(states.get(row));
            }
        }
    }
    let mut costs: HashMap<StateId, Option<f64>> =
        reached.values().flatten().flatten().map(|&state| (state, None)).collect();
    let mut guides = costs.clone();
    read_costs(snapshot, &plan.objective, &mut costs)?;
    if let Costed::LowestOf(guide) = &plan.costed {
        read_costs(snapshot, guide, &mut guides)?;
    }
    let mut past = PastCosts::default();
    for (ordinal, steps) in reached {
        let states: Vec<StateId> = steps.iter().map_while(|&state| state).collect();
        let lowest_of = |values: &HashMap<StateId, Option<f64>>| -> Option<Reached> {
            let known: Option<Vec<f64>> = states.iter().map(|state| values[state]).collect();
            known.map(|values| lowest(values.into_iter()))
        };
        let cost_after = |step: usize| -> Option<Reached> {
            let cost = states.get(step).map_or(Some(f64::INFINITY), |state| costs[state]);
            let changed = |&after: &usize| states[after] != states[after - 1];
            let after = (1..states.len().min(step + 1)).rev().find(changed);
            cost.map(|cost| (cost, after.unwrap_or(0)))
        };
        let cost = match &plan.costed {
            Costed::EachState => lowest_of(&costs),
            Costed::LastState => cost_after(steps.len().saturating_sub(1)),
            Costed::LowestOf(_) => lowest_of(&guides).and_then(|(_, step)| cost_after(step)),
        };
        past.add(plan, ordinal, cost);
    }
    Ok(past)
}

/// Returns the lowest of the costs of an episode's states, the first of which no action led to;
/// infinity if there are none.
pub(super) fn lowest(costs: impl Iterator<Item = f64>) -> Reached {
    let start = (f64::INFINITY, 0);
    costs.zip(0..).fold(start, |lowest, next| if next.0 < lowest.0 { next } else { lowest })
}

/// Reads what these states cost.
pub(super) fn read_costs(
    snapshot: &Snapshot,
    objective: &str,
    costs: &mut HashMap<StateId, Option<f64>>,
) -> Result<(), LakeError> {
    each_cost(snapshot, objective, |state, number| {
        if let Some(cost) = costs.get_mut(&state) {
            *cost = number;
        }
    })
}

/// Reads what all states cost of which the lake says so.
pub(super) fn all_costs(
    snapshot: &Snapshot,
    objective: &str,
) -> Result<HashMap<StateId, f64>, LakeError> {
    let mut costs = HashMap::new();
    each_cost(snapshot, objective, |state, number| {
        costs.extend(number.map(|number| (state, number)));
    })?;
    Ok(costs)
}

/// Visits all observed states with their costs; none if the lake has no such space.
fn each_cost(
    snapshot: &Snapshot,
    objective: &str,
    mut visit: impl FnMut(StateId, Option<f64>),
) -> Result<(), LakeError> {
    if !snapshot.identity().observations.iter().any(|space| space.name == objective) {
        return Ok(());
    }
    let columns = ["state_id", objective];
    for batch in snapshot.scan(Table::Observations, ScanColumns::Named(&columns)) {
        let batch = batch?;
        for (row, state) in state_ids(&batch, "state_id").enumerate() {
            if let Some(state) = state {
                visit(state, number(&batch, objective, row));
            }
        }
    }
    Ok(())
}

/// Returns a single number of a batch, if it is there.
fn number(batch: &RecordBatch, name: &str, row: usize) -> Option<f64> {
    let column = &batch[name];
    let number = match column.data_type() {
        _ if column.is_null(row) => return None,
        DataType::Int64 => as_f64(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row),
        _ => return None,
    };
    Some(number).filter(|number| !number.is_nan())
}
