//! Questions about values: the lowest cost or the best-known value of each state, and the value of
//! each action.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use super::arguments::CallArguments;
use super::columns::{
    ColumnSpec, actions, actions_type, integers, keys, numbers, state_columns, states, texts,
};
use super::csr::QueryGraph;
use super::lowest_cost::{AnswerPaths, LOWEST_NODE_BYTES, lowest};
use super::observations::number_of;
use super::policy_iteration::{NoValues, VALUES_NODE_BYTES, Values, values};
use super::question::{AnswerRequest, Given, GraphQuestion, RequiredData, node_by_node};
use crate::rules::literals::STATE_TYPE;
use steplake_lake::graph::Node;
use steplake_model::StateId;

/// The columns about a path, which may be missing.
fn way_columns() -> [ColumnSpec; 3] {
    [
        ("steps", DataType::Int32, true),
        ("actions", actions_type(), true),
        ("best_state_id", STATE_TYPE, true),
    ]
}

/// The columns about costs.
fn cost_columns(of: &DataType) -> [ColumnSpec; 2] {
    ["cost", "best_cost"].map(|name| (name, of.clone(), true))
}

/// Makes a column about the costs of nodes: their own, or the lowest that they reach.
type CostColumn = dyn Fn(&[Node], &str) -> ArrayRef + Send;

/// Finds the lowest costs, and the paths to them.
fn lowest_costs(
    given: Given,
    asked: &AnswerRequest,
    of: &DataType,
) -> Result<(AnswerPaths, Box<CostColumn>)> {
    let (graph, costs) = (given.graph, given.observations);
    asked.reserve(graph.nodes() * LOWEST_NODE_BYTES)?;
    let (reached, ways) = lowest(&graph, &asked.token, &costs)?;
    let is_float = of.is_floating();
    let column = move |nodes: &[Node], column: &str| {
        let cost = |&node: &Node| match column {
            "cost" => costs.of(node),
            _ => reached[node as usize],
        };
        if is_float {
            numbers(nodes.iter().map(|node| cost(node).map_or(f64::NAN, number_of)))
        } else {
            integers(nodes.iter().map(cost))
        }
    };
    Ok((AnswerPaths::new(graph, ways, asked)?, Box::new(column)))
}

/// `best_cost('OBSERVATION SPACE')`: for each state the lowest cost that it reaches, and the
/// shortest path there.
pub(super) fn best_cost(arguments: &CallArguments<'_>) -> Result<GraphQuestion> {
    let (space, of) = arguments.number_space(0)?;
    let needs = RequiredData { observations: Some(space), ..RequiredData::BOTH_WAYS };
    let columns = state_columns().into_iter().chain(cost_columns(&of)).chain(way_columns());
    Ok(GraphQuestion::new(columns, needs, move |given, asked| {
        let nodes = asked.nodes(&given.graph)?;
        let (paths, cost) = lowest_costs(given, asked, &of)?;
        Ok(paths.batches(asked, nodes, move |_, nodes, column| cost(nodes, column)))
    }))
}

/// `best_sequences('OBSERVATION SPACE')`: for each benchmark the lowest cost that is known, and the
/// shortest sequence to it.
pub(super) fn best_sequences(arguments: &CallArguments<'_>) -> Result<GraphQuestion> {
    let (space, of) = arguments.number_space(0)?;
    let needs = RequiredData { observations: Some(space), ..RequiredData::BOTH_WAYS };
    let uri = [("benchmark_uri", DataType::Utf8, false)];
    let columns = uri.into_iter().chain(cost_columns(&of)).chain(way_columns());
    Ok(GraphQuestion::new(columns, needs, move |given, asked| {
        let starts = Arc::clone(&given.graph.starts);
        asked.reserve(starts.len() * size_of::<Node>())?;
        let nodes = starts.iter().map(|&(_, start)| start).collect();
        let (paths, cost) = lowest_costs(given, asked, &of)?;
        Ok(paths.batches(asked, nodes, move |rows, nodes, column| match column {
            "benchmark_uri" => texts(starts[rows].iter().map(|(name, _)| name.as_str())),
            of_cost => cost(nodes, of_cost),
        }))
    }))
}

/// A reward space, and the discount for each later step.
#[derive(Debug, Clone)]
struct Discounted {
    space: String,
    gamma: f64,
}

impl Discounted {
    fn new(arguments: &CallArguments<'_>) -> Result<Self> {
        Ok(Self { space: arguments.reward(0)?, gamma: arguments.gamma(1)? })
    }

    fn needs(&self) -> RequiredData {
        RequiredData { rewards: Some(self.space.clone()), ..RequiredData::BOTH_WAYS }
    }

    fn values(&self, given: &Given, asked: &AnswerRequest) -> Result<Values> {
        let graph = &given.graph;
        asked.reserve(graph.nodes() * VALUES_NODE_BYTES)?;
        values(graph, &asked.token, &given.rewards, self.gamma).map_err(|none| match none {
            NoValues::Cancelled(cancelled) => cancelled.into(),
            NoValues::Unbounded { node } => self.unbounded(graph.state(node)),
        })
    }

    fn unbounded(&self, state: StateId) -> DataFusionError {
        let space = &self.space;
        exec_datafusion_err!(
            "rewards in `{space}` have no best total: a cycle of transitions by state {state} pays each time that \
             it is walked; discount them with a smaller gamma, as in ('{space}', 0.9), ask best_cost() about the \
             cost itself, or, where `{space}` is scaled program by program and programs share states, take the \
             reward space that is not"
        )
    }
}

/// `best_known('REWARD SPACE' [, gamma])`: the best-known value of each state, and the shortest
/// path that earns it.
pub(super) fn best_known(arguments: &CallArguments<'_>) -> Result<GraphQuestion> {
    let discounted = Discounted::new(arguments)?;
    let value = [("value", DataType::Float64, false)];
    let columns = state_columns().into_iter().chain(value).chain(way_columns());
    Ok(GraphQuestion::new(columns, discounted.needs(), move |given, asked| {
        let Values { values, ways } = discounted.values(&given, asked)?;
        let nodes = asked.nodes(&given.graph)?;
        let paths = AnswerPaths::new(given.graph, ways, asked)?;
        Ok(paths.batches(asked, nodes, move |_, nodes, _| {
            numbers(nodes.iter().map(|&node| values[node as usize]))
        }))
    }))
}

/// One transition.
struct Weighed {
    from: Node,
    edge: usize,
    /// The Q value; NaN without a reward.
    q: f64,
    mean: f64,
}

impl Weighed {
    /// The transitions from a node.
    fn of(
        (graph, rewards): (&QueryGraph, &[f64]),
        (values, gamma): (&[f64], f64),
        from: Node,
    ) -> impl Iterator<Item = Self> {
        let q_value =
            move |edge: usize| rewards[edge] + gamma * values[graph.targets()[edge] as usize];
        let (mut sum, mut steps) = (0.0, 0.0);
        for edge in graph.edges_of(from).filter(|&edge| !rewards[edge].is_nan()) {
            let count = f64::from(graph.counts()[edge]);
            sum += count * q_value(edge);
            steps += count;
        }
        let mean = sum / steps;
        graph.edges_of(from).map(move |edge| Self { from, edge, q: q_value(edge), mean })
    }
}

/// `advantage('REWARD SPACE' [, gamma])`: for each transition the value of its action, and its
/// advantage over the best-known value and over the mean of the recorded actions.
pub(super) fn advantage(arguments: &CallArguments<'_>) -> Result<GraphQuestion> {
    let discounted = Discounted::new(arguments)?;
    let [id, key] = state_columns();
    let columns = [
        id,
        key,
        ("action", DataType::Int32, false),
        ("next_state_id", STATE_TYPE, false),
        ("count", DataType::Int64, false),
        ("reward", DataType::Float64, true),
        ("q", DataType::Float64, true),
        ("best_value", DataType::Float64, false),
        ("mean_value", DataType::Float64, true),
        ("advantage", DataType::Float64, true),
        ("advantage_over_mean", DataType::Float64, true),
    ];
    Ok(GraphQuestion::new(columns, discounted.needs(), move |given, asked| {
        let gamma = discounted.gamma;
        let values = Arc::new(discounted.values(&given, asked)?.values);
        let nodes = asked.nodes(&given.graph)?;
        let Given { graph, rewards, .. } = given;
        let own = (Arc::clone(&graph), Arc::clone(&rewards), Arc::clone(&values));
        let weighed = move |node: Node, rows: &mut Vec<Weighed>| {
            let (graph, rewards, values) = &own;
            rows.extend(Weighed::of((graph, rewards), (values, gamma), node));
        };
        Ok(node_by_node(asked, nodes, weighed, move |some, column| {
            let ids = some.iter().map(|row| graph.state(row.from));
            let of = |value: fn(&Weighed, f64) -> f64| {
                numbers(some.iter().map(|row| value(row, values[row.from as usize])))
            };
            Ok(match column {
                "state_id" => states(ids)?,
                "state_key" => keys(ids),
                "action" => actions(some.iter().map(|row| Some(graph.actions()[row.edge]))),
                "next_state_id" => {
                    states(some.iter().map(|row| graph.state(graph.targets()[row.edge])))?
                }
                "count" => {
                    integers(some.iter().map(|row| Some(i64::from(graph.counts()[row.edge]))))
                }
                "reward" => numbers(some.iter().map(|row| rewards[row.edge])),
                "q" => of(|row, _| row.q),
                "best_value" => of(|_, best_value| best_value),
                "mean_value" => of(|row, _| row.mean),
                "advantage" => of(|row, best_value| row.q - best_value),
                _ => of(|row, _| row.q - row.mean),
            })
        }))
    }))
}
