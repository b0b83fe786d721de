//! Questions about shortest paths: which states can be reached, and how.

use std::iter;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::arguments::CallArguments;
use super::columns::{
    ColumnSpec, action_lists, actions, actions_type, counts, keys, some_states, state_columns,
    states, texts,
};
use super::csr::QueryGraph;
use super::lowest_cost::{AnswerPaths, Ways};
use super::question::{
    AnswerRequest, BATCH_ROWS, GraphQuestion, LIST_ITEMS_MAX, RequiredData, in_batches,
    unknown_state,
};
use super::walk::{BreadthFirstSearch, NONE, SPREAD_NODE_BYTES, distances_to};
use crate::rules::literals::STATE_TYPE;
use steplake_lake::graph::Node;
use steplake_model::{ActionIndex, StateId};

/// `reachable('STATE' [, steps])`: the states that can be reached in at most so many steps, the
/// state itself with 0, each with the last step of the shortest path.
pub(super) fn reachable(arguments: &CallArguments<'_>) -> Result<GraphQuestion> {
    let from = arguments.state(0)?;
    let steps_max = arguments.count(1)?.unwrap_or(NONE);
    let [id, key] = state_columns();
    let columns = [
        id,
        key,
        ("steps", DataType::Int32, false),
        ("previous_state_id", STATE_TYPE, true),
        ("action", DataType::Int32, true),
    ];
    Ok(GraphQuestion::new(columns, RequiredData::GRAPH, move |given, asked| {
        let graph = given.graph;
        let start = graph.find(&from).ok_or_else(|| unknown_state(&from))?;
        asked.reserve(graph.nodes() * BreadthFirstSearch::NODE_BYTES)?;
        let mut search = BreadthFirstSearch::new(&graph);
        search.begin(&graph, &asked.token, start, steps_max, None)?;
        Ok(in_batches(
            asked,
            search.reached.len(),
            |_| 0,
            move |rows, column| {
                let some = &search.reached[rows];
                let ids = some.iter().map(|row| graph.state(row.node));
                let before = |place: u32| graph.state(search.reached[place as usize].node);
                Ok(match column {
                    "state_id" => states(ids)?,
                    "state_key" => keys(ids),
                    "steps" => counts(some.iter().map(|row| Some(row.steps))),
                    "previous_state_id" => some_states(
                        some.iter().map(|row| row.before.map(|(place, _)| before(place))),
                    )?,
                    _ => actions(some.iter().map(|row| row.before.map(|(_, action)| action))),
                })
            },
        ))
    }))
}

/// `shortest_path('FROM', 'TO')`: the steps of the shortest path, the first row without an action;
/// no rows if there is no path.
pub(super) fn shortest_path(arguments: &CallArguments<'_>) -> Result<GraphQuestion> {
    let (from, to) = (arguments.state(0)?, arguments.state(1)?);
    let [id, key] = state_columns();
    let columns =
        [("step_index", DataType::Int32, false), ("action", DataType::Int32, true), id, key];
    Ok(GraphQuestion::new(columns, RequiredData::GRAPH, move |given, asked| {
        let graph = given.graph;
        let node = |state: &StateId| graph.find(state).ok_or_else(|| unknown_state(state));
        let (start, goal) = (node(&from)?, node(&to)?);
        asked.reserve(graph.nodes() * BreadthFirstSearch::NODE_BYTES)?;
        let mut search = BreadthFirstSearch::new(&graph);
        search.begin(&graph, &asked.token, start, NONE, Some(goal))?;
        let Some(place) = search.place(goal) else { return Ok(Box::new(iter::empty())) };
        let steps = search.reached[place].steps as usize;
        asked.reserve((steps + 1) * (size_of::<ActionIndex>() + size_of::<Passed>()))?;
        let taken = search.actions(place);
        let mut path: Vec<Passed> = Vec::with_capacity(steps + 1);
        path.push((0, None, start));
        for (index, &action) in (1..).zip(&taken) {
            let (_, _, at) = path[path.len() - 1];
            let next = graph.follow(at, action).expect("a path is made of edges");
            path.push((index, Some(action), next));
        }
        Ok(in_batches(
            asked,
            path.len(),
            |_| 0,
            move |rows, column| {
                let some = &path[rows];
                let ids = some.iter().map(|&(_, _, node)| graph.state(node));
                Ok(match column {
                    "step_index" => counts(some.iter().map(|&(index, _, _)| Some(index))),
                    "action" => actions(some.iter().map(|&(_, action, _)| action)),
                    "state_id" => states(ids)?,
                    _ => keys(ids),
                })
            },
        ))
    }))
}

/// A step of a path: its index, the action, and the node that it leads to.
type Passed = (u32, Option<ActionIndex>, Node);

fn sequence_columns() -> [ColumnSpec; 2] {
    [("steps", DataType::Int32, false), ("actions", actions_type(), false)]
}

/// `sequence_to('STATE')`: for each benchmark from which the state can be reached, the shortest
/// sequence to it.
pub(super) fn sequence_to(arguments: &CallArguments<'_>) -> Result<GraphQuestion> {
    let to = arguments.state(0)?;
    let [steps, actions] = sequence_columns();
    let columns = [("benchmark_uri", DataType::Utf8, false), steps, actions];
    Ok(GraphQuestion::new(columns, RequiredData::BOTH_WAYS, move |given, asked| {
        let graph = given.graph;
        let goal = graph.find(&to).ok_or_else(|| unknown_state(&to))?;
        let start_bytes = graph.starts.len() * (size_of::<usize>() + size_of::<Node>());
        asked.reserve(graph.nodes() * (SPREAD_NODE_BYTES + Ways::NODE_BYTES) + start_bytes)?;
        let distances = distances_to(&graph, &asked.token, goal)?;
        let ways = Ways::new(&graph, &asked.token, distances, |_, _| true)?;
        let starts = graph.starts.iter().enumerate();
        let (places, nodes): (Vec<usize>, Vec<Node>) = starts
            .filter(|(_, (_, start))| ways.steps(*start).is_some())
            .map(|(place, &(_, start))| (place, start))
            .unzip();
        let starts = Arc::clone(&graph.starts);
        let paths = AnswerPaths::new(graph, ways, asked)?;
        Ok(paths.batches(asked, nodes, move |rows, _, _| {
            texts(places[rows].iter().map(|&at| starts[at].0.as_str()))
        }))
    }))
}

/// `sequences([steps])`: for each benchmark and each state that can be reached from it in at most
/// so many steps, the shortest sequence.
pub(super) fn sequences(arguments: &CallArguments<'_>) -> Result<GraphQuestion> {
    let steps_max = arguments.count(0)?.unwrap_or(NONE);
    let ([id, key], [steps, actions]) = (state_columns(), sequence_columns());
    let columns = [("benchmark_uri", DataType::Utf8, false), id, key, steps, actions];
    Ok(GraphQuestion::new(columns, RequiredData::GRAPH, move |given, asked| {
        let graph = given.graph;
        asked.reserve(graph.nodes() * BreadthFirstSearch::NODE_BYTES)?;
        let (search, asked) = (BreadthFirstSearch::new(&graph), Arc::clone(asked));
        let mut walks = Walks { graph, asked, search, steps_max, starts: 0, sent: 0 };
        Ok(Box::new(iter::from_fn(move || walks.next().transpose())))
    }))
}

/// Searches from one benchmark after another.
struct Walks {
    graph: Arc<QueryGraph>,
    asked: Arc<AnswerRequest>,
    search: BreadthFirstSearch,
    steps_max: u32,
    /// The number of searches that were started.
    starts: usize,
    /// The number of rows of the last search that are in batches.
    sent: usize,
}

/// A row of the answer: the place of the benchmark, the state, its steps and the actions.
type PathRow = (usize, StateId, u32, Option<Vec<ActionIndex>>);

impl Walks {
    /// The next batch. It may have rows of several benchmarks: many benchmarks reach few states.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let mut rows: Vec<PathRow> = Vec::new();
        let mut items = 0;
        while rows.len() < BATCH_ROWS && items < LIST_ITEMS_MAX {
            let Some(reached) = self.search.reached.get(self.sent) else {
                let Some((_, start)) = self.graph.starts.get(self.starts) else { break };
                let token = &self.asked.token;
                self.search.begin(&self.graph, token, *start, self.steps_max, None)?;
                (self.starts, self.sent) = (self.starts + 1, 0);
                continue;
            };
            let sequence = self.asked.wants("actions").then(|| self.search.actions(self.sent));
            items += sequence.as_ref().map_or(0, Vec::len);
            let state = self.graph.state(reached.node);
            rows.push((self.starts - 1, state, reached.steps, sequence));
            self.sent += 1;
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let count = rows.len();
        let batch = self.asked.batch(count, |column| {
            let ids = rows.iter().map(|&(_, state, ..)| state);
            Ok(match column {
                "benchmark_uri" => {
                    texts(rows.iter().map(|&(start, ..)| self.graph.starts[start].0.as_str()))
                }
                "state_id" => states(ids)?,
                "state_key" => keys(ids),
                "steps" => counts(rows.iter().map(|&(_, _, steps, _)| Some(steps))),
                _ => action_lists(rows.iter_mut().map(|(.., sequence)| sequence.take())),
            })
        });
        batch.map(Some)
    }
}
