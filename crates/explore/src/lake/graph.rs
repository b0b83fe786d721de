//! The transition graph as columns, for a picture of all of it.

use std::collections::HashMap;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int32Type};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use steplake::model::StateId;
use steplake::query::{ScalarValue, Statement};

use super::best::usual_cost;
use super::reader::{LakeReader, quoted, text, unreadable};
use crate::answers::{JsonBody, JsonResult, Problem, UrlParameters, computed};

/// The usual number of states, and the most.
const STATES_USUAL: usize = 100_000;
const STATES_MAX: usize = 1_000_000;

/// The most transitions that are read.
const EDGES_MAX: usize = 4_000_000;

#[derive(Deserialize)]
pub(super) struct AskedGraph {
    #[serde(default)]
    benchmark: String,
    limit: Option<usize>,
}

/// The edges, each as the numbers of its states.
#[derive(Debug, Default, PartialEq, Serialize)]
struct EdgeList {
    from: Vec<u32>,
    to: Vec<u32>,
    action: Vec<i32>,
}

#[derive(Debug, Default, PartialEq, Serialize)]
struct ShownGraph {
    states: Vec<String>,
    costs: Vec<Option<f64>>,
    cost_name: String,
    starts: Vec<u32>,
    edges: EdgeList,
    action_names: Vec<String>,
    is_cut: bool,
}

pub(super) async fn graph(
    State(lake): State<LakeReader>,
    UrlParameters(asked): UrlParameters<AskedGraph>,
) -> JsonResult {
    let served = lake.served().await?;
    let cost_name = usual_cost(&served)?.to_owned();
    let limit = asked.limit.unwrap_or(STATES_USUAL).min(STATES_MAX);
    let benchmark = vec![("benchmark".to_owned(), ScalarValue::from(asked.benchmark.as_str()))];
    let starts = "SELECT initial_state_id FROM benchmarks \
                  WHERE benchmark_uri = $benchmark OR $benchmark = '' ORDER BY benchmark_uri";
    let starts = Statement { values: benchmark, ..asking(starts) };
    let starts = states_in(&lake.gather(starts, STATES_MAX).await?.batches, 0);
    // One program's part of the graph is what can be reached from where it starts.
    let within = match starts.first() {
        _ if asked.benchmark.is_empty() => String::new(),
        Some(start) => {
            format!("state_id IN (SELECT state_id FROM reachable({}))", text(&start.to_string()))
        }
        None => {
            return Err(Problem::missing(format!("the lake has no benchmark {}", asked.benchmark)));
        }
    };
    let and = if within.is_empty() { String::new() } else { format!(" AND {within}") };
    let edges = format!(
        "SELECT state_id, next_state_id, action FROM state_transitions \
         WHERE state_id <> next_state_id{and}"
    );
    let edges = lake.gather(asking(&edges), EDGES_MAX).await?;
    let whole = if within.is_empty() { String::new() } else { format!(" WHERE {within}") };
    let costs = format!("SELECT state_id, {} FROM observations{whole}", quoted(&cost_name));
    let costs = lake.gather(asking(&costs), usize::MAX).await?;
    let is_whole_lake = asked.benchmark.is_empty();
    let action_names = served.identity.action_space.actions.iter();
    let action_names = action_names.map(|action| action.name.clone()).collect();
    computed(move || {
        let walked = walk(&starts, &edges.batches, limit, is_whole_lake);
        let graph = ShownGraph {
            costs: costs_of(&walked.states, &costs.batches)?,
            cost_name,
            starts: walked.starts,
            edges: walked.edges,
            action_names,
            is_cut: edges.is_cut || walked.is_cut,
            states: walked.states.iter().map(StateId::to_string).collect(),
        };
        Ok(JsonBody::of(&graph))
    })
    .await
}

fn asking(sql: &str) -> Statement {
    Statement { text: sql.to_owned(), ..Statement::default() }
}

/// Returns the states in a column.
fn states_in(batches: &[RecordBatch], column: usize) -> Vec<StateId> {
    let states = batches.iter().flat_map(|batch| {
        let column = batch.column(column).as_fixed_size_binary();
        (0..column.len()).map(|row| StateId::from_slice(column.value(row)))
    });
    states.collect()
}

/// The part of the graph that is shown.
#[derive(Debug, Default, PartialEq)]
struct Walked {
    states: Vec<StateId>,
    starts: Vec<u32>,
    edges: EdgeList,
    is_cut: bool,
}

/// Numbers states in the order of their distance from the starts, up to `limit`, and returns the
/// edges between these. With `others`, states that the starts do not reach come last.
fn walk(starts: &[StateId], edges: &[RecordBatch], limit: usize, others: bool) -> Walked {
    let [from, to] = [0, 1].map(|column| states_in(edges, column));
    let actions =
        edges.iter().flat_map(|batch| batch.column(2).as_primitive::<Int32Type>().values());
    let actions: Vec<i32> = actions.copied().collect();
    let mut known: HashMap<StateId, u32> = HashMap::new();
    let mut ids: Vec<StateId> = Vec::new();
    let mut node_of = |state: &StateId| {
        *known.entry(*state).or_insert_with(|| {
            ids.push(*state);
            number(ids.len() - 1)
        })
    };
    let begun: Vec<u32> = starts.iter().map(&mut node_of).collect();
    let from: Vec<u32> = from.iter().map(&mut node_of).collect();
    let to: Vec<u32> = to.iter().map(&mut node_of).collect();
    let order = by_distance(ids.len(), &begun, (&from, &to), others);
    let kept = &order[..order.len().min(limit)];
    let mut place: Vec<Option<u32>> = vec![None; ids.len()];
    for (at, &node) in kept.iter().enumerate() {
        place[node as usize] = Some(number(at));
    }
    let mut shown = EdgeList::default();
    for ((from, to), action) in from.iter().zip(&to).zip(actions) {
        if let (Some(from), Some(to)) = (place[*from as usize], place[*to as usize]) {
            shown.from.push(from);
            shown.to.push(to);
            shown.action.push(action);
        }
    }
    let mut starts: Vec<u32> = begun.iter().filter_map(|&node| place[node as usize]).collect();
    starts.sort_unstable();
    starts.dedup();
    Walked {
        states: kept.iter().map(|&node| ids[node as usize]).collect(),
        starts,
        edges: shown,
        is_cut: kept.len() < order.len(),
    }
}

/// Returns nodes in the order of their distance from the starts.
fn by_distance(
    nodes: usize,
    starts: &[u32],
    (from, to): (&[u32], &[u32]),
    others: bool,
) -> Vec<u32> {
    // The edges by the node that they leave.
    let mut first = vec![0_usize; nodes + 1];
    for &node in from {
        first[node as usize + 1] += 1;
    }
    for node in 0..nodes {
        first[node + 1] += first[node];
    }
    let (mut free, mut next) = (first.clone(), vec![0; to.len()]);
    for (&from, &to) in from.iter().zip(to) {
        next[free[from as usize]] = to;
        free[from as usize] += 1;
    }
    let (mut order, mut seen) = (Vec::with_capacity(nodes), vec![false; nodes]);
    let mut done = 0;
    let all = 0..if others { number(nodes) } else { 0 };
    for begin in [starts.to_vec(), all.collect()] {
        for node in begin {
            if !std::mem::replace(&mut seen[node as usize], true) {
                order.push(node);
            }
        }
        while let Some(&node) = order.get(done) {
            done += 1;
            for &next in &next[first[node as usize]..first[node as usize + 1]] {
                if !std::mem::replace(&mut seen[next as usize], true) {
                    order.push(next);
                }
            }
        }
    }
    order
}

fn number(place: usize) -> u32 {
    u32::try_from(place).expect("fewer transitions are read than 32 bits can count")
}

/// Returns what states cost.
fn costs_of(states: &[StateId], rows: &[RecordBatch]) -> Result<Vec<Option<f64>>, Problem> {
    let places: HashMap<&StateId, usize> =
        states.iter().enumerate().map(|(place, state)| (state, place)).collect();
    let mut costs = vec![None; states.len()];
    for batch in rows {
        let values = cast(batch.column(1), &DataType::Float64);
        let values = values.map_err(|error| unreadable(&error))?;
        let values = values.as_primitive::<Float64Type>();
        let batch = std::slice::from_ref(batch);
        for (row, state) in states_in(batch, 0).iter().enumerate() {
            if let Some(&place) = places.get(state) {
                costs[place] = values.is_valid(row).then(|| values.value(row));
            }
        }
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, FixedSizeBinaryArray, Int32Array};

    use super::*;

    fn state(name: u8) -> StateId {
        StateId([name; 20])
    }

    fn edges(edges: &[(u8, u8, i32)]) -> RecordBatch {
        let states = |of: fn(&(u8, u8, i32)) -> u8| -> ArrayRef {
            let ids = edges.iter().map(|edge| [of(edge); 20]);
            Arc::new(FixedSizeBinaryArray::try_from_iter(ids).unwrap())
        };
        let actions: Int32Array = edges.iter().map(|edge| Some(edge.2)).collect();
        RecordBatch::try_from_iter([
            ("state_id", states(|edge| edge.0)),
            ("next_state_id", states(|edge| edge.1)),
            ("action", Arc::new(actions)),
        ])
        .unwrap()
    }

    #[test]
    fn near_states_come_first() {
        let batch = edges(&[(3, 4, 0), (1, 2, 1), (2, 3, 2), (9, 1, 3), (1, 3, 4)]);
        let walked = walk(&[state(1)], std::slice::from_ref(&batch), 10, false);
        assert_eq!(walked.states, [1, 2, 3, 4].map(state));
        assert_eq!((walked.starts, walked.is_cut), (vec![0], false));
        assert_eq!(walked.edges.from, [2, 0, 1, 0]);
        assert_eq!(walked.edges.to, [3, 1, 2, 2]);
        assert_eq!(walked.edges.action, [0, 1, 2, 4]);
        let all = walk(&[state(1)], std::slice::from_ref(&batch), 10, true);
        assert_eq!(all.states, [1, 2, 3, 4, 9].map(state));
        let few = walk(&[state(1)], std::slice::from_ref(&batch), 3, true);
        assert_eq!((few.states.len(), few.edges.from.len(), few.is_cut), (3, 3, true));
    }

    #[test]
    fn a_start_without_edges_is_there() {
        let walked = walk(&[state(7)], &[], 10, false);
        assert_eq!((walked.states, walked.starts), (vec![state(7)], vec![0]));
    }
}
