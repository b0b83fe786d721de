//! Questions about ways: what can be reached, and how soonest.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;

use super::arguments::Arguments;
use super::columns::{
    ColumnSpec, action_lists, actions, actions_type, counts, keys, schema, some_states,
    state_columns, states, texts,
};
use super::function::{BATCH_ROWS, LIST_ITEMS_MAX, Question, Rows, unknown_state};
use super::index::Node;
use super::source::GraphSource;
use super::walk::{NONE, SPREAD_NODE_BYTES, Search, descend, distances_to};
use crate::model::StateId;
use crate::query::literals::STATE_TYPE;

/// `reachable('STATE' [, steps])`: the states that can be reached in at most so many steps, the
/// state itself with 0, each with the last step of the shortest way.
#[derive(Debug)]
struct Reachable {
    from: StateId,
    steps_max: u32,
}

pub(super) fn reachable(arguments: &Arguments<'_>) -> Result<Arc<dyn Question>> {
    let from = arguments.state(0)?;
    let steps_max = arguments.count(1)?.unwrap_or(NONE);
    Ok(Arc::new(Reachable { from, steps_max }))
}

impl Question for Reachable {
    fn schema(&self) -> SchemaRef {
        let [id, key] = state_columns();
        schema([
            id,
            key,
            ("steps", DataType::Int32, false),
            ("previous_state_id", STATE_TYPE, true),
            ("action", DataType::Int16, true),
        ])
    }

    fn answer(&self, source: &GraphSource, rows: &Rows<'_>) -> Result<()> {
        let graph = source.graph(rows)?;
        let start = graph.find(&self.from).ok_or_else(|| unknown_state(&self.from))?;
        rows.reserve(graph.nodes() * Search::NODE_BYTES)?;
        let mut search = Search::new(&graph);
        search.begin(&graph, rows.asker(), start, self.steps_max, None)?;
        let reached = search.reached();
        rows.send_all(reached, |some, column| {
            let ids = some.iter().map(|row| graph.states.id(row.node));
            let before = |place: u32| graph.states.id(reached[place as usize].node);
            Ok(match column {
                "state_id" => states(ids)?,
                "state_key" => keys(ids),
                "steps" => counts(some.iter().map(|row| Some(row.steps))),
                "previous_state_id" => {
                    some_states(some.iter().map(|row| row.before.map(|(place, _)| before(place))))?
                }
                _ => actions(some.iter().map(|row| row.before.map(|(_, action)| action))),
            })
        })
    }
}

/// `shortest_path('FROM', 'TO')`: the steps of the shortest way, the first row without an action;
/// no rows where there is no way.
#[derive(Debug)]
struct ShortestPath {
    from: StateId,
    to: StateId,
}

pub(super) fn shortest_path(arguments: &Arguments<'_>) -> Result<Arc<dyn Question>> {
    let (from, to) = (arguments.state(0)?, arguments.state(1)?);
    Ok(Arc::new(ShortestPath { from, to }))
}

impl Question for ShortestPath {
    fn schema(&self) -> SchemaRef {
        let [id, key] = state_columns();
        schema([("step_index", DataType::Int32, false), ("action", DataType::Int16, true), id, key])
    }

    fn answer(&self, source: &GraphSource, rows: &Rows<'_>) -> Result<()> {
        let graph = source.graph(rows)?;
        let node = |state: &StateId| graph.find(state).ok_or_else(|| unknown_state(state));
        let (start, goal) = (node(&self.from)?, node(&self.to)?);
        rows.reserve(graph.nodes() * Search::NODE_BYTES)?;
        let mut search = Search::new(&graph);
        search.begin(&graph, rows.asker(), start, NONE, Some(goal))?;
        let Some(place) = search.place(goal) else { return Ok(()) };
        let taken = search.actions(place);
        let mut path: Vec<(u32, Option<i16>, Node)> = vec![(0, None, start)];
        for (index, &action) in (1..).zip(&taken) {
            let (_, _, at) = path[path.len() - 1];
            let next = graph.follow(at, action).expect("the way is made of edges");
            path.push((index, Some(action), next));
        }
        rows.send_all(&path, |some, column| {
            let ids = some.iter().map(|&(_, _, node)| graph.states.id(node));
            Ok(match column {
                "step_index" => counts(some.iter().map(|&(index, _, _)| Some(index))),
                "action" => actions(some.iter().map(|&(_, action, _)| action)),
                "state_id" => states(ids)?,
                _ => keys(ids),
            })
        })
    }
}

/// `sequence_to('STATE')`: for each benchmark from which the state can be reached, the shortest
/// sequence to it.
#[derive(Debug)]
struct SequenceTo {
    to: StateId,
}

pub(super) fn sequence_to(arguments: &Arguments<'_>) -> Result<Arc<dyn Question>> {
    Ok(Arc::new(SequenceTo { to: arguments.state(0)? }))
}

fn sequence_columns() -> [ColumnSpec; 2] {
    [("steps", DataType::Int32, false), ("actions", actions_type(), false)]
}

impl Question for SequenceTo {
    fn schema(&self) -> SchemaRef {
        let [steps, actions] = sequence_columns();
        schema([("benchmark_uri", DataType::Utf8, false), steps, actions])
    }

    fn answer(&self, source: &GraphSource, rows: &Rows<'_>) -> Result<()> {
        let graph = source.graph_both_ways(rows)?;
        let goal = graph.find(&self.to).ok_or_else(|| unknown_state(&self.to))?;
        rows.reserve(graph.nodes() * SPREAD_NODE_BYTES)?;
        let distances = distances_to(&graph, rows.asker(), goal)?;
        let near = graph.starts.iter().filter(|&&(_, start)| distances[start as usize] != NONE);
        let near: Vec<&(String, Node)> = near.collect();
        let length = |&&(_, start): &&(String, Node)| distances[start as usize] as usize;
        rows.send_lists(&near, length, |some, column| {
            Ok(match column {
                "benchmark_uri" => texts(some.iter().map(|(name, _)| name.as_str())),
                "steps" => counts(some.iter().map(|&&(_, start)| Some(distances[start as usize]))),
                _ => action_lists(
                    some.iter().map(|&&(_, start)| Some(descend(&graph, &distances, start))),
                ),
            })
        })
    }
}

/// `sequences([steps])`: for each benchmark and each state that can be reached from it in at most
/// so many steps, the shortest sequence.
#[derive(Debug)]
struct Sequences {
    steps_max: u32,
}

pub(super) fn sequences(arguments: &Arguments<'_>) -> Result<Arc<dyn Question>> {
    Ok(Arc::new(Sequences { steps_max: arguments.count(0)?.unwrap_or(NONE) }))
}

impl Question for Sequences {
    fn schema(&self) -> SchemaRef {
        let ([id, key], [steps, actions]) = (state_columns(), sequence_columns());
        schema([("benchmark_uri", DataType::Utf8, false), id, key, steps, actions])
    }

    fn answer(&self, source: &GraphSource, rows: &Rows<'_>) -> Result<()> {
        let graph = source.graph(rows)?;
        rows.reserve(graph.nodes() * Search::NODE_BYTES)?;
        let mut search = Search::new(&graph);
        // Rows of several benchmarks share a batch: many reach little.
        let mut gathered = Gathered::default();
        for (name, start) in &graph.starts {
            search.begin(&graph, rows.asker(), *start, self.steps_max, None)?;
            for (place, reached) in search.reached().iter().enumerate() {
                let sequence = rows.wants("actions").then(|| search.actions(place));
                gathered.names.push(name);
                gathered.rows.push((graph.states.id(reached.node), reached.steps));
                gathered.items += sequence.as_ref().map_or(0, Vec::len);
                gathered.sequences.push(sequence);
                if gathered.is_full() {
                    gathered.send(rows)?;
                }
            }
        }
        gathered.send(rows)
    }
}

/// Rows that wait to be a batch.
#[derive(Default)]
struct Gathered<'a> {
    names: Vec<&'a str>,
    rows: Vec<(StateId, u32)>,
    sequences: Vec<Option<Vec<i16>>>,
    /// The actions of all sequences.
    items: usize,
}

impl Gathered<'_> {
    fn is_full(&self) -> bool {
        self.rows.len() == BATCH_ROWS || self.items >= LIST_ITEMS_MAX
    }

    fn send(&mut self, rows: &Rows<'_>) -> Result<()> {
        rows.send(self.rows.len(), |column| {
            let ids = self.rows.iter().map(|&(state, _)| state);
            Ok(match column {
                "benchmark_uri" => texts(self.names.iter().copied()),
                "state_id" => states(ids)?,
                "state_key" => keys(ids),
                "steps" => counts(self.rows.iter().map(|&(_, steps)| Some(steps))),
                _ => action_lists(self.sequences.drain(..)),
            })
        })?;
        self.names.clear();
        self.rows.clear();
        self.sequences.clear();
        self.items = 0;
        Ok(())
    }
}
