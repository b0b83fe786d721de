//! `frontier('REWARD SPACE' [, actions])`: the untried actions of each state, the most promising
//! first.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::arguments::CallArguments;
use super::cancellation::{CancellationToken, Cancelled};
use super::columns::{actions, counts, integers, keys, numbers, state_columns, states};
use super::csr::QueryGraph;
use super::question::{GraphQuestion, RequiredData, node_by_node};
use steplake_lake::graph::Node;
use steplake_model::ActionIndex;

/// For each state, its most promising untried actions. The promise of an action is the mean of its
/// rewards over all transitions, each counted once. An action without a transition has no promise
/// and comes last. Retracted actions are left out.
pub(super) fn question(arguments: &CallArguments<'_>) -> Result<GraphQuestion> {
    let actions_max = arguments.count(1)?.unwrap_or(1) as usize;
    let needs = RequiredData { rewards: Some(arguments.reward(0)?), ..RequiredData::GRAPH };
    let [id, key] = state_columns();
    let columns = [
        id,
        key,
        ("tried", DataType::Int32, false),
        ("untried", DataType::Int32, false),
        ("action", DataType::Int32, false),
        ("promise", DataType::Float64, true),
        ("support", DataType::Int64, false),
    ];
    Ok(GraphQuestion::new(columns, needs, move |given, asked| {
        let graph = given.graph;
        let space = given.identity.action_space.actions.len();
        let retracted = given.snapshot.retracted_actions();
        let promises = promises(&graph, &asked.token, &given.rewards, space, &retracted)?;
        let nodes = asked.nodes(&graph)?;
        let (candidates, mut tried) = (Arc::clone(&graph), Tried { seen: vec![0; space] });
        let untried = move |node, rows: &mut Vec<Untried>| {
            let count = tried.look(&candidates, node);
            let open = u32::try_from(promises.len()).unwrap_or(u32::MAX) - count;
            let untried = promises.iter().filter(|promise| !tried.has(node, promise.action));
            let untried = untried.take(actions_max);
            rows.extend(untried.map(|&promise| Untried { node, tried: count, open, promise }));
        };
        Ok(node_by_node(asked, nodes, untried, move |some, column| {
            let ids = some.iter().map(|row| graph.state(row.node));
            Ok(match column {
                "state_id" => states(ids)?,
                "state_key" => keys(ids),
                "tried" => counts(some.iter().map(|row| Some(row.tried))),
                "untried" => counts(some.iter().map(|row| Some(row.open))),
                "action" => actions(some.iter().map(|row| Some(row.promise.action))),
                "promise" => numbers(some.iter().map(|row| row.promise.mean)),
                _ => integers(some.iter().map(|row| Some(i64::from(row.promise.support)))),
            })
        }))
    }))
}

/// The promise of an action over all states.
#[derive(Debug, Clone, Copy)]
struct Promise {
    action: ActionIndex,
    /// The mean reward; NaN where there is none.
    mean: f64,
    /// The number of transitions in the mean.
    support: u32,
}

/// The actions of the space, the most promising first.
fn promises(
    graph: &QueryGraph,
    token: &CancellationToken,
    rewards: &[f64],
    space: usize,
    retracted: &[ActionIndex],
) -> Result<Vec<Promise>, Cancelled> {
    let mut sums = vec![(0.0, 0_u32); space];
    for node in graph.all_nodes() {
        token.check()?;
        for edge in graph.edges_of(node).filter(|&edge| !rewards[edge].is_nan()) {
            if let Some((sum, support)) = sums.get_mut(graph.actions()[edge].place()) {
                *sum += rewards[edge];
                *support += 1;
            }
        }
    }
    let promise = |(place, (sum, support)): (usize, (f64, u32))| {
        let action = ActionIndex(u32::try_from(place).ok()?);
        let mean = if support > 0 { sum / f64::from(support) } else { f64::NAN };
        (!retracted.contains(&action)).then_some(Promise { action, mean, support })
    };
    let mut promises: Vec<Promise> = sums.into_iter().enumerate().filter_map(promise).collect();
    let mean =
        |promise: &Promise| if promise.mean.is_nan() { f64::NEG_INFINITY } else { promise.mean };
    promises.sort_by(|one, other| mean(other).total_cmp(&mean(one)));
    Ok(promises)
}

/// A row of the answer.
struct Untried {
    node: Node,
    tried: u32,
    open: u32,
    promise: Promise,
}

/// Which actions were tried in a node.
struct Tried {
    /// For each action, the last node with it, counted from 1.
    seen: Vec<u32>,
}

impl Tried {
    /// Moves on to `node` and counts the actions that were tried in it.
    fn look(&mut self, graph: &QueryGraph, node: Node) -> u32 {
        let actions = graph.actions()[graph.edges_of(node)].iter();
        let failed = graph.failures()[graph.failures_of(node)].iter().map(|(_, action)| action);
        let mut count = 0;
        for action in actions.chain(failed) {
            let seen = self.seen.get_mut(action.place());
            if let Some(seen) = seen.filter(|seen| **seen != node + 1) {
                *seen = node + 1;
                count += 1;
            }
        }
        count
    }

    /// Whether an action was tried in `node`, the current one.
    fn has(&self, node: Node, action: ActionIndex) -> bool {
        self.seen[action.place()] == node + 1
    }
}
