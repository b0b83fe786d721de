//! Questions about values: the lowest cost or the best-known value of each state, and the value of
//! each action.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use super::arguments::Arguments;
use super::columns::{
    ColumnSpec, action_lists, actions, actions_type, counts, integers, keys, numbers, schema,
    some_states, state_columns, states, texts,
};
use super::csr::Graph;
use super::index::Node;
use super::lowest_cost::{LOWEST_NODE_BYTES, Ways, lowest};
use super::observations::Observations;
use super::policy_iteration::{NoValues, VALUES_NODE_BYTES, Values, values};
use super::question::{Asked, Given, Needs, Question, in_batches_of_lists, node_by_node};
use crate::model::StateId;
use crate::query::literals::STATE_TYPE;
use crate::query::pulled::Batches;

/// `best_cost('OBSERVATION SPACE')`: for each state the lowest cost that it reaches, and the
/// shortest path there.
#[derive(Debug)]
struct BestCost {
    space: String,
}

pub(super) fn best_cost(arguments: &Arguments<'_>) -> Result<Arc<dyn Question>> {
    Ok(Arc::new(BestCost { space: arguments.number_space(0)? }))
}

/// The columns about a path, which may be missing.
fn way_columns() -> [ColumnSpec; 3] {
    [
        ("steps", DataType::Int32, true),
        ("actions", actions_type(), true),
        ("best_state_id", STATE_TYPE, true),
    ]
}

/// The paths of an answer, with the wanted data about them.
struct Shown {
    graph: Arc<Graph>,
    ways: Ways,
    /// The end of each path; empty if it is not wanted.
    ends: Vec<Node>,
}

impl Shown {
    fn new(graph: Arc<Graph>, ways: Ways, asked: &Asked) -> Result<Self> {
        let wanted = asked.wants("best_state_id");
        let ends = if wanted { ways.ends(&graph, &asked.token)? } else { Vec::new() };
        Ok(Self { graph, ways, ends })
    }

    /// The number of actions of the path from a node.
    fn length(&self, node: Node) -> usize {
        self.ways.steps(node).unwrap_or_default() as usize
    }

    /// One of the columns about paths.
    fn column(&self, nodes: impl Iterator<Item = Node>, column: &str) -> Result<ArrayRef> {
        Ok(match column {
            "steps" => counts(nodes.map(|node| self.ways.steps(node))),
            "actions" => action_lists(nodes.map(|node| self.ways.actions(&self.graph, node))),
            _ => {
                let end = |node| self.graph.states.id(self.ends[node as usize]);
                some_states(nodes.map(|node| self.ways.steps(node).map(|_| end(node))))?
            }
        })
    }
}

/// The lowest costs, and the paths to them.
struct Lowest {
    costs: Observations,
    reached: Vec<Option<i64>>,
    shown: Shown,
}

impl Lowest {
    fn new(given: Given, asked: &Asked) -> Result<Self> {
        let (graph, costs) = (given.graph, given.observations);
        asked.reserve(graph.nodes() * LOWEST_NODE_BYTES)?;
        let (reached, ways) = lowest(&graph, &asked.token, &costs)?;
        Ok(Self { costs, reached, shown: Shown::new(graph, ways, asked)? })
    }

    /// One of the columns about costs and paths.
    fn column(&self, nodes: impl Iterator<Item = Node>, column: &str) -> Result<ArrayRef> {
        Ok(match column {
            "cost" => integers(nodes.map(|node| self.costs.of(node))),
            "best_cost" => integers(nodes.map(|node| self.reached[node as usize])),
            of_way => self.shown.column(nodes, of_way)?,
        })
    }
}

impl Question for BestCost {
    fn schema(&self) -> SchemaRef {
        let ([id, key], [steps, actions, best_state]) = (state_columns(), way_columns());
        let (cost, lowest) =
            (("cost", DataType::Int64, true), ("best_cost", DataType::Int64, true));
        schema([id, key, cost, lowest, steps, actions, best_state])
    }

    fn needs(&self) -> Needs {
        Needs { observations: Some(self.space.clone()), ..Needs::BOTH_WAYS }
    }

    fn answer(&self, given: Given, asked: &Arc<Asked>) -> Result<Batches> {
        let nodes = Arc::new(asked.nodes(&given.graph)?);
        let lowest = Arc::new(Lowest::new(given, asked)?);
        let (ways, starts) = (Arc::clone(&lowest), Arc::clone(&nodes));
        let length = move |row: usize| ways.shown.length(starts[row]);
        Ok(in_batches_of_lists(asked, nodes.len(), length, move |rows, column| {
            let some = nodes[rows].iter().copied();
            let ids = some.clone().map(|node| lowest.shown.graph.states.id(node));
            Ok(match column {
                "state_id" => states(ids)?,
                "state_key" => keys(ids),
                other => lowest.column(some, other)?,
            })
        }))
    }
}

/// `best_sequences('OBSERVATION SPACE')`: for each benchmark the lowest cost that is known, and the
/// shortest sequence to it.
#[derive(Debug)]
struct BestSequences {
    space: String,
}

pub(super) fn best_sequences(arguments: &Arguments<'_>) -> Result<Arc<dyn Question>> {
    Ok(Arc::new(BestSequences { space: arguments.number_space(0)? }))
}

impl Question for BestSequences {
    fn schema(&self) -> SchemaRef {
        let [steps, actions, best_state] = way_columns();
        let (cost, lowest) =
            (("cost", DataType::Int64, true), ("best_cost", DataType::Int64, true));
        schema([("benchmark_uri", DataType::Utf8, false), cost, lowest, steps, actions, best_state])
    }

    fn needs(&self) -> Needs {
        Needs { observations: Some(self.space.clone()), ..Needs::BOTH_WAYS }
    }

    fn answer(&self, given: Given, asked: &Arc<Asked>) -> Result<Batches> {
        let starts = Arc::clone(&given.graph.starts);
        let lowest = Arc::new(Lowest::new(given, asked)?);
        let (ways, begins) = (Arc::clone(&lowest), Arc::clone(&starts));
        let length = move |row: usize| ways.shown.length(begins[row].1);
        Ok(in_batches_of_lists(asked, starts.len(), length, move |rows, column| {
            let some = starts[rows].iter();
            Ok(match column {
                "benchmark_uri" => texts(some.map(|(name, _)| name.as_str())),
                other => lowest.column(some.map(|&(_, start)| start), other)?,
            })
        }))
    }
}

/// `best_known('REWARD SPACE' [, gamma])`: the best-known value of each state, and the shortest
/// path that earns it.
#[derive(Debug)]
struct BestKnown {
    discounted: Discounted,
}

/// A reward space, and the discount for each later step.
#[derive(Debug)]
struct Discounted {
    space: String,
    gamma: f64,
}

impl Discounted {
    fn new(arguments: &Arguments<'_>) -> Result<Self> {
        Ok(Self { space: arguments.reward(0)?, gamma: arguments.gamma(1)? })
    }

    fn needs(&self) -> Needs {
        Needs { rewards: Some(self.space.clone()), ..Needs::BOTH_WAYS }
    }

    fn values(&self, given: &Given, asked: &Asked) -> Result<Values> {
        let graph = &given.graph;
        asked.reserve(graph.nodes() * VALUES_NODE_BYTES)?;
        values(graph, &asked.token, &given.rewards, self.gamma).map_err(|none| match none {
            NoValues::Cancelled(cancelled) => cancelled.into(),
            NoValues::Unbounded { node } => self.unbounded(graph.states.id(node)),
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

pub(super) fn best_known(arguments: &Arguments<'_>) -> Result<Arc<dyn Question>> {
    Ok(Arc::new(BestKnown { discounted: Discounted::new(arguments)? }))
}

impl Question for BestKnown {
    fn schema(&self) -> SchemaRef {
        let ([id, key], [steps, actions, best_state]) = (state_columns(), way_columns());
        schema([id, key, ("value", DataType::Float64, false), steps, actions, best_state])
    }

    fn needs(&self) -> Needs {
        self.discounted.needs()
    }

    fn answer(&self, given: Given, asked: &Arc<Asked>) -> Result<Batches> {
        let Values { values, ways } = self.discounted.values(&given, asked)?;
        let nodes = Arc::new(asked.nodes(&given.graph)?);
        let shown = Arc::new(Shown::new(given.graph, ways, asked)?);
        let (ways, starts) = (Arc::clone(&shown), Arc::clone(&nodes));
        let length = move |row: usize| ways.length(starts[row]);
        Ok(in_batches_of_lists(asked, nodes.len(), length, move |rows, column| {
            let some = nodes[rows].iter().copied();
            let ids = some.clone().map(|node| shown.graph.states.id(node));
            Ok(match column {
                "state_id" => states(ids)?,
                "state_key" => keys(ids),
                "value" => numbers(some.map(|node| values[node as usize])),
                of_way => shown.column(some, of_way)?,
            })
        }))
    }
}

/// `advantage('REWARD SPACE' [, gamma])`: for each transition the value of its action, and its
/// advantage over the best-known value and over the mean of the recorded actions.
#[derive(Debug)]
struct Advantage {
    discounted: Discounted,
}

pub(super) fn advantage(arguments: &Arguments<'_>) -> Result<Arc<dyn Question>> {
    Ok(Arc::new(Advantage { discounted: Discounted::new(arguments)? }))
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
        (graph, rewards): (&Graph, &[f64]),
        (values, gamma): (&[f64], f64),
        from: Node,
    ) -> impl Iterator<Item = Self> {
        let q_value = move |edge: usize| rewards[edge] + gamma * values[graph.next[edge] as usize];
        let (mut sum, mut steps) = (0.0, 0.0);
        for edge in graph.edges_of(from).filter(|&edge| !rewards[edge].is_nan()) {
            let count = f64::from(graph.counts[edge]);
            sum += count * q_value(edge);
            steps += count;
        }
        let mean = sum / steps;
        graph.edges_of(from).map(move |edge| Self { from, edge, q: q_value(edge), mean })
    }
}

impl Question for Advantage {
    fn schema(&self) -> SchemaRef {
        let [id, key] = state_columns();
        schema([
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
        ])
    }

    fn needs(&self) -> Needs {
        self.discounted.needs()
    }

    fn answer(&self, given: Given, asked: &Arc<Asked>) -> Result<Batches> {
        let gamma = self.discounted.gamma;
        let values = Arc::new(self.discounted.values(&given, asked)?.values);
        let nodes = asked.nodes(&given.graph)?;
        let Given { graph, rewards, .. } = given;
        let own = (Arc::clone(&graph), Arc::clone(&rewards), Arc::clone(&values));
        let weighed = move |node: Node, rows: &mut Vec<Weighed>| {
            let (graph, rewards, values) = &own;
            rows.extend(Weighed::of((graph, rewards), (values, gamma), node));
        };
        Ok(node_by_node(asked, nodes, weighed, move |some, column| {
            let ids = some.iter().map(|row| graph.states.id(row.from));
            let of = |value: fn(&Weighed, f64) -> f64| {
                numbers(some.iter().map(|row| value(row, values[row.from as usize])))
            };
            Ok(match column {
                "state_id" => states(ids)?,
                "state_key" => keys(ids),
                "action" => actions(some.iter().map(|row| Some(graph.actions[row.edge]))),
                "next_state_id" => {
                    states(some.iter().map(|row| graph.states.id(graph.next[row.edge])))?
                }
                "count" => integers(some.iter().map(|row| Some(i64::from(graph.counts[row.edge])))),
                "reward" => numbers(some.iter().map(|row| rewards[row.edge])),
                "q" => of(|row, _| row.q),
                "best_value" => of(|_, best_value| best_value),
                "mean_value" => of(|row, _| row.mean),
                "advantage" => of(|row, best_value| row.q - best_value),
                _ => of(|row, _| row.q - row.mean),
            })
        }))
    }
}
