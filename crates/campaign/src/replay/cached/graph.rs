//! The transition graph of a lake, for walking and for answering steps.

use std::collections::{HashMap, HashSet};
use std::fmt;

use steplake_lake::graph::{RecordedFailure, TransitionGraph};
use steplake_model::{ActionIndex, Failure, StateId};

/// The number of a state in a [`RecordedGraph`]: from 0, without gaps, in the order of the lake's
/// tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateRow(pub u32);

impl StateRow {
    /// Returns the place of the state in a list of all states.
    pub fn place(self) -> usize {
        self.0 as usize
    }
}

/// A state of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateNode {
    /// Its number.
    pub row: StateRow,
    /// Its id.
    pub state: StateId,
    /// The number of actions with a recorded next state.
    pub transitions: usize,
    /// The number of actions on which the compiler failed.
    pub failures: usize,
}

/// A recorded transition, as an edge of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateEdge {
    /// Its place among all transitions, sorted by state and action.
    pub place: usize,
    /// The state before.
    pub from: StateRow,
    /// The action.
    pub action: ActionIndex,
    /// The state after; of a conflict the most frequent one.
    pub to: StateRow,
    /// The number of steps that took it; at most `u32::MAX`.
    pub count: u32,
}

/// A recorded failure of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedAction<'a> {
    /// The state before.
    pub from: StateRow,
    /// The action.
    pub action: ActionIndex,
    /// The number of steps that failed; at most `u32::MAX`.
    pub count: u32,
    /// How the first of them failed.
    pub failure: &'a Failure,
}

/// What a lake knows about an action in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded<'a> {
    /// It led to a state.
    Led(StateEdge),
    /// The compiler failed.
    Failed(FailedAction<'a>),
    /// It was never tried.
    Nothing,
}

/// The state transitions and failures of one snapshot, in memory. It never changes.
///
/// States are numbered in the order of the lake's tables. The transitions of a state are
/// consecutive, in the order of their actions (compressed sparse rows). Besides the states of
/// transitions and failures, it has the first states of all benchmarks. As in
/// `state_transitions`, only the most frequent result of a conflict is there. Retracted actions
/// are left out.
///
/// Memory: at most 28 bytes for each state (20 are its id), 12 for each transition and 16 for each
/// failure. [Building](steplake_lake::graph) it takes more.
pub struct RecordedGraph {
    graph: TransitionGraph,
    /// For each failure of the graph, how often it was and the place of its description.
    failures: Vec<(u32, u32)>,
    texts: Vec<Failure>,
    /// The places of transitions whose action failed more often than it led to that state.
    outvoted: Vec<usize>,
    /// The number of failures of actions that also led to a state.
    both: usize,
}

impl fmt::Debug for RecordedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RecordedGraph");
        shown.field("states", &self.states()).field("transitions", &self.transitions());
        shown.finish_non_exhaustive()
    }
}

impl RecordedGraph {
    /// A graph with its failures, and the states on which the compiler failed in a start, whether
    /// or not it did so in others.
    pub(super) fn new(
        graph: TransitionGraph,
        rows: impl Iterator<Item = RecordedFailure>,
    ) -> (Self, HashSet<StateId>) {
        let (mut failures, mut texts, mut starts) = (Vec::new(), Vec::new(), HashSet::new());
        let mut places = HashMap::new();
        for RecordedFailure { state, action, count, failure } in rows {
            if action.is_none() {
                starts.insert(state);
                continue;
            }
            let text = places.entry((failure.kind, failure.detail.clone())).or_insert_with(|| {
                texts.push(failure);
                u32::try_from(texts.len() - 1).expect("there are fewer texts than failures")
            });
            failures.push((count, *text));
        }
        assert_eq!(failures.len(), graph.failures().len(), "one row a failure");
        let (mut outvoted, mut both) = (Vec::new(), 0);
        for (&(node, action), &(count, _)) in graph.failures().iter().zip(&failures) {
            if let Some(edge) = graph.edge_of(node, action) {
                both += 1;
                outvoted.extend((count > graph.counts()[edge]).then_some(edge));
            }
        }
        (Self { graph, failures, texts, outvoted, both }, starts)
    }

    /// Returns the number of states.
    pub fn states(&self) -> usize {
        self.graph.nodes()
    }

    /// Returns the number of transitions.
    pub fn transitions(&self) -> usize {
        self.graph.edges()
    }

    /// Returns the number of (state, action) pairs whose result is known: a state or a failure.
    pub fn known_pairs(&self) -> usize {
        self.transitions() + self.failures.len() - self.both
    }

    /// Returns the number of a state; none if the graph does not have it.
    pub fn find(&self, state: &StateId) -> Option<StateRow> {
        self.graph.find(state).map(StateRow)
    }

    /// Returns the id of a state.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn state(&self, row: StateRow) -> StateId {
        self.graph.state(row.0)
    }

    /// Returns a state with the numbers of its edges; none if the graph does not have it.
    pub fn node(&self, state: &StateId) -> Option<StateNode> {
        let row = self.find(state)?;
        let transitions = self.graph.edges_of(row.0).len();
        let failures = self.graph.failures_of(row.0).len();
        Some(StateNode { row, state: *state, transitions, failures })
    }

    /// Returns the recorded transition of an action in a state.
    pub fn step(&self, from: StateRow, action: ActionIndex) -> Option<StateEdge> {
        self.graph.edge_of(from.0, action).map(|place| self.edge(from, place))
    }

    /// Returns the transitions of a state, in the order of their actions.
    pub fn edges_of(&self, from: StateRow) -> impl Iterator<Item = StateEdge> + '_ {
        self.graph.edges_of(from.0).map(move |place| self.edge(from, place))
    }

    /// Returns all transitions, in the order of states and actions.
    pub fn edges(&self) -> impl Iterator<Item = StateEdge> + '_ {
        self.rows().flat_map(|row| self.edges_of(row))
    }

    /// Returns the numbers of all states.
    pub fn rows(&self) -> impl Iterator<Item = StateRow> + use<> {
        self.graph.all_nodes().map(StateRow)
    }

    /// Returns the failures in a state, in the order of their actions.
    pub fn failures_of(&self, from: StateRow) -> impl Iterator<Item = FailedAction<'_>> {
        self.graph.failures_of(from.0).map(|place| self.failed(place))
    }

    /// Returns what the lake knows about an action in a state. If it both led to a state and
    /// failed, the more frequent of the two; if equally often, the state.
    pub fn recorded(&self, from: StateRow, action: ActionIndex) -> Recorded<'_> {
        let is_led = |edge: &StateEdge| self.outvoted.binary_search(&edge.place).is_err();
        if let Some(edge) = self.step(from, action).filter(is_led) {
            return Recorded::Led(edge);
        }
        match self.graph.failure_of(from.0, action) {
            Some(place) => Recorded::Failed(self.failed(place)),
            None => Recorded::Nothing,
        }
    }

    fn edge(&self, from: StateRow, place: usize) -> StateEdge {
        let (action, to) = (self.graph.actions()[place], StateRow(self.graph.targets()[place]));
        StateEdge { place, from, action, to, count: self.graph.counts()[place] }
    }

    fn failed(&self, place: usize) -> FailedAction<'_> {
        let (from, action) = self.graph.failures()[place];
        let (count, text) = self.failures[place];
        let failure = &self.texts[text as usize];
        FailedAction { from: StateRow(from), action, count, failure }
    }
}
