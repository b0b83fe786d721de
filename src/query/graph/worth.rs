//! Questions about worth: the best that is known from each state on, and what an action is worth
//! there.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use super::arguments::Arguments;
use super::best::{LOWEST_NODE_BYTES, Ways, lowest};
use super::columns::{
    ColumnSpec, action_lists, actions, actions_type, counts, integers, keys, numbers, schema,
    some_states, state_columns, states, texts,
};
use super::csr::Graph;
use super::function::{BATCH_ROWS, Question, Rows};
use super::index::Node;
use super::source::GraphSource;
use super::value::{NoValues, VALUES_NODE_BYTES, Values, values};
use crate::model::StateId;
use crate::query::literals::STATE_TYPE;

/// `best_cost('OBSERVATION SPACE')`: for each state the lowest cost that it reaches, and the
/// shortest way there.
#[derive(Debug)]
struct BestCost {
    space: String,
}

pub(super) fn best_cost(arguments: &Arguments<'_>) -> Result<Arc<dyn Question>> {
    Ok(Arc::new(BestCost { space: arguments.number_space(0)? }))
}

/// The columns about a way that may not be there.
fn way_columns() -> [ColumnSpec; 3] {
    [
        ("steps", DataType::Int32, true),
        ("actions", actions_type(), true),
        ("best_state_id", STATE_TYPE, true),
    ]
}

/// The ways of an answer, with what is wanted of them.
struct Shown<'a> {
    graph: &'a Graph,
    ways: &'a Ways,
    /// Where each way ends; none where nobody wants to know.
    ends: Vec<Node>,
}

impl<'a> Shown<'a> {
    fn new(graph: &'a Graph, ways: &'a Ways, rows: &Rows<'_>) -> Result<Self> {
        let wanted = rows.wants("best_state_id");
        let ends = if wanted { ways.ends(graph, rows.asker())? } else { Vec::new() };
        Ok(Self { graph, ways, ends })
    }

    /// How many actions the way from a node has.
    fn length(&self, node: Node) -> usize {
        self.ways.steps(node).unwrap_or_default() as usize
    }

    /// One of the columns about ways.
    fn column(&self, some: &[Node], column: &str) -> Result<ArrayRef> {
        let nodes = some.iter().copied();
        Ok(match column {
            "steps" => counts(nodes.map(|node| self.ways.steps(node))),
            "actions" => action_lists(nodes.map(|node| self.ways.actions(self.graph, node))),
            _ => {
                let end = |node| self.graph.states.id(self.ends[node as usize]);
                some_states(nodes.map(|node| self.ways.steps(node).map(|_| end(node))))?
            }
        })
    }
}

impl Question for BestCost {
    fn schema(&self) -> SchemaRef {
        let ([id, key], [steps, actions, best]) = (state_columns(), way_columns());
        let (cost, lowest) =
            (("cost", DataType::Int64, true), ("best_cost", DataType::Int64, true));
        schema([id, key, cost, lowest, steps, actions, best])
    }

    fn answer(&self, source: &GraphSource, rows: &Rows<'_>) -> Result<()> {
        let graph = source.graph_both_ways(rows)?;
        let costs = source.observations(rows, &self.space)?;
        rows.reserve(graph.nodes() * LOWEST_NODE_BYTES)?;
        let (lowest, ways) = lowest(&graph, rows.asker(), &costs)?;
        let shown = Shown::new(&graph, &ways, rows)?;
        let nodes = rows.nodes(&graph)?;
        rows.send_lists(
            &nodes,
            |&node| shown.length(node),
            |some, column| {
                let ids = some.iter().map(|&node| graph.states.id(node));
                let of = |values: &[Option<i64>]| {
                    integers(some.iter().map(|&node| values[node as usize]))
                };
                Ok(match column {
                    "state_id" => states(ids)?,
                    "state_key" => keys(ids),
                    "cost" => of(&costs),
                    "best_cost" => of(&lowest),
                    of_way => shown.column(some, of_way)?,
                })
            },
        )
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
        let [steps, actions, best] = way_columns();
        let (cost, lowest) =
            (("cost", DataType::Int64, true), ("best_cost", DataType::Int64, true));
        schema([("benchmark_uri", DataType::Utf8, false), cost, lowest, steps, actions, best])
    }

    fn answer(&self, source: &GraphSource, rows: &Rows<'_>) -> Result<()> {
        let graph = source.graph_both_ways(rows)?;
        let costs = source.observations(rows, &self.space)?;
        rows.reserve(graph.nodes() * LOWEST_NODE_BYTES)?;
        let (lowest, ways) = lowest(&graph, rows.asker(), &costs)?;
        let shown = Shown::new(&graph, &ways, rows)?;
        rows.send_lists(
            &graph.starts,
            |&(_, start)| shown.length(start),
            |some, column| {
                let of = |values: &[Option<i64>]| {
                    integers(some.iter().map(|&(_, start)| values[start as usize]))
                };
                let starts: Vec<Node> = some.iter().map(|&(_, start)| start).collect();
                Ok(match column {
                    "benchmark_uri" => texts(some.iter().map(|(name, _)| name.as_str())),
                    "cost" => of(&costs),
                    "best_cost" => of(&lowest),
                    of_way => shown.column(&starts, of_way)?,
                })
            },
        )
    }
}

/// `best_known('REWARD SPACE' [, gamma])`: the best-known value of each state, and the shortest way
/// that earns it.
#[derive(Debug)]
struct BestKnown {
    discounted: Discounted,
}

/// A reward space, and what a reward is worth one step later.
#[derive(Debug)]
struct Discounted {
    space: String,
    gamma: f64,
}

impl Discounted {
    fn new(arguments: &Arguments<'_>) -> Result<Self> {
        Ok(Self { space: arguments.reward(0)?, gamma: arguments.gamma(1)? })
    }

    fn values(&self, graph: &Graph, rows: &Rows<'_>, rewards: &[f64]) -> Result<Values> {
        rows.reserve(graph.nodes() * VALUES_NODE_BYTES)?;
        values(graph, rows.asker(), rewards, self.gamma).map_err(|none| match none {
            NoValues::Gone(gone) => gone.into(),
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
        let ([id, key], [steps, actions, best]) = (state_columns(), way_columns());
        schema([id, key, ("value", DataType::Float64, false), steps, actions, best])
    }

    fn answer(&self, source: &GraphSource, rows: &Rows<'_>) -> Result<()> {
        let graph = source.graph_both_ways(rows)?;
        let rewards = source.rewards(rows, &self.discounted.space)?;
        let Values { values, ways } = self.discounted.values(&graph, rows, &rewards)?;
        let shown = Shown::new(&graph, &ways, rows)?;
        let nodes = rows.nodes(&graph)?;
        rows.send_lists(
            &nodes,
            |&node| shown.length(node),
            |some, column| {
                let ids = some.iter().map(|&node| graph.states.id(node));
                Ok(match column {
                    "state_id" => states(ids)?,
                    "state_key" => keys(ids),
                    "value" => numbers(some.iter().map(|&node| values[node as usize])),
                    of_way => shown.column(some, of_way)?,
                })
            },
        )
    }
}

/// `advantage('REWARD SPACE' [, gamma])`: for each transition what its action is worth, and how
/// much more than the best known and than the mean of what was done there.
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
    /// NaN without a reward.
    worth: f64,
    mean: f64,
}

impl Advantage {
    fn weighed(&self, graph: &Graph, rewards: &[f64], values: &[f64], from: Node) -> Vec<Weighed> {
        let worth =
            |edge: usize| rewards[edge] + self.discounted.gamma * values[graph.next[edge] as usize];
        let (mut sum, mut steps) = (0.0, 0.0);
        for edge in graph.edges_of(from).filter(|&edge| !rewards[edge].is_nan()) {
            let count = f64::from(graph.counts[edge]);
            sum += count * worth(edge);
            steps += count;
        }
        let mean = sum / steps;
        graph.edges_of(from).map(|edge| Weighed { from, edge, worth: worth(edge), mean }).collect()
    }
}

impl Question for Advantage {
    fn schema(&self) -> SchemaRef {
        let [id, key] = state_columns();
        schema([
            id,
            key,
            ("action", DataType::Int16, false),
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

    fn answer(&self, source: &GraphSource, rows: &Rows<'_>) -> Result<()> {
        let graph = source.graph_both_ways(rows)?;
        let rewards = source.rewards(rows, &self.discounted.space)?;
        let values = self.discounted.values(&graph, rows, &rewards)?.values;
        let nodes = rows.nodes(&graph)?;
        // Some nodes at a time, so that what waits to be sent stays small.
        for some in nodes.chunks(BATCH_ROWS) {
            let weighed =
                some.iter().flat_map(|&node| self.weighed(&graph, &rewards, &values, node));
            let weighed: Vec<Weighed> = weighed.collect();
            rows.send_all(&weighed, |some, column| {
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
                    "count" => {
                        integers(some.iter().map(|row| Some(i64::from(graph.counts[row.edge]))))
                    }
                    "reward" => numbers(some.iter().map(|row| rewards[row.edge])),
                    "q" => of(|row, _| row.worth),
                    "best_value" => of(|_, best| best),
                    "mean_value" => of(|row, _| row.mean),
                    "advantage" => of(|row, best| row.worth - best),
                    _ => of(|row, _| row.worth - row.mean),
                })
            })?;
        }
        Ok(())
    }
}
