//! The transition graph of a lake, for walking and for answering steps.

use std::fmt;
use std::ops::Range;

use crate::lake::state_index::{self, StateIndex};
use crate::model::{ActionIndex, Failure, StateId};

/// The number of a state in a [`TransitionGraph`]: from 0, without gaps, in the order of the lake's
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
pub struct Node {
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
pub struct Edge {
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
    Led(Edge),
    /// The compiler failed.
    Failed(FailedAction<'a>),
    /// It was never tried.
    Nothing,
}

/// A failure, as it is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailureEntry {
    pub(super) from: u32,
    pub(super) action: u32,
    pub(super) count: u32,
    /// The place of its description.
    pub(super) text: u32,
}

impl FailureEntry {
    pub(super) fn key(&self) -> (u32, u32) {
        (self.from, self.action)
    }
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
/// failure. While it is made, another 24 bytes for each state and 20 for each transition.
#[derive(Default)]
pub struct TransitionGraph {
    pub(super) states: StateIndex,
    /// The first transition of each state, and the end of the last ones.
    pub(super) first: Vec<u32>,
    pub(super) actions: Vec<u32>,
    pub(super) next: Vec<u32>,
    pub(super) counts: Vec<u32>,
    /// Sorted by state and action.
    pub(super) failures: Vec<FailureEntry>,
    pub(super) texts: Vec<Failure>,
    /// The places of transitions whose action failed more often than it led to that state.
    pub(super) outvoted: Vec<u32>,
    /// The number of failures of actions that also led to a state.
    pub(super) both: usize,
}

impl fmt::Debug for TransitionGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TransitionGraph");
        shown.field("states", &self.states()).field("transitions", &self.transitions());
        shown.finish_non_exhaustive()
    }
}

impl TransitionGraph {
    /// Returns the number of states.
    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// Returns the number of transitions.
    pub fn transitions(&self) -> usize {
        self.next.len()
    }

    /// Returns the number of (state, action) pairs whose result is known: a state or a failure.
    pub fn known_pairs(&self) -> usize {
        self.next.len() + self.failures.len() - self.both
    }

    /// Returns the number of a state; none if the graph does not have it.
    pub fn find(&self, state: &StateId) -> Option<StateRow> {
        self.states.find(state).map(StateRow)
    }

    /// Returns the id of a state.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn state(&self, row: StateRow) -> StateId {
        self.states.id(row.0)
    }

    /// Returns a state with the numbers of its edges; none if the graph does not have it.
    pub fn node(&self, state: &StateId) -> Option<Node> {
        let row = self.find(state)?;
        let (transitions, failures) = (self.places(row).len(), self.failure_places(row).len());
        Some(Node { row, state: *state, transitions, failures })
    }

    /// Returns the recorded transition of an action in a state.
    ///
    /// # Panics
    ///
    /// If there is no such row. The same holds for the other methods that take a row.
    pub fn step(&self, from: StateRow, action: ActionIndex) -> Option<Edge> {
        let places = self.places(from);
        let at = self.actions[places.clone()].binary_search(&action.0).ok()?;
        Some(self.edge(from, places.start + at))
    }

    /// Returns the transitions of a state, in the order of their actions.
    pub fn edges_of(&self, from: StateRow) -> impl Iterator<Item = Edge> + '_ {
        self.places(from).map(move |place| self.edge(from, place))
    }

    /// Returns all transitions, in the order of states and actions.
    pub fn edges(&self) -> impl Iterator<Item = Edge> + '_ {
        self.rows().flat_map(|row| self.edges_of(row))
    }

    /// Returns the numbers of all states.
    pub fn rows(&self) -> impl Iterator<Item = StateRow> + use<> {
        (0..state_index::node(self.states())).map(StateRow)
    }

    /// Returns the failures in a state, in the order of their actions.
    pub fn failures_of(&self, from: StateRow) -> impl Iterator<Item = FailedAction<'_>> {
        self.failures[self.failure_places(from)].iter().map(|entry| self.failed(entry))
    }

    /// Returns what the lake knows about an action in a state. If it both led to a state and
    /// failed, the more frequent of the two; if equally often, the state.
    pub fn recorded(&self, from: StateRow, action: ActionIndex) -> Recorded<'_> {
        let is_outvoted = |edge: &Edge| {
            let of = |&place: &u32| place as usize;
            self.outvoted.binary_search_by_key(&edge.place, of).is_ok()
        };
        if let Some(edge) = self.step(from, action).filter(|edge| !is_outvoted(edge)) {
            return Recorded::Led(edge);
        }
        let key = (from.0, action.0);
        match self.failures.binary_search_by_key(&key, FailureEntry::key) {
            Ok(at) => Recorded::Failed(self.failed(&self.failures[at])),
            Err(_) => Recorded::Nothing,
        }
    }

    fn edge(&self, from: StateRow, place: usize) -> Edge {
        let (action, to) = (ActionIndex(self.actions[place]), StateRow(self.next[place]));
        Edge { place, from, action, to, count: self.counts[place] }
    }

    fn failed(&self, entry: &FailureEntry) -> FailedAction<'_> {
        FailedAction {
            from: StateRow(entry.from),
            action: ActionIndex(entry.action),
            count: entry.count,
            failure: &self.texts[entry.text as usize],
        }
    }

    fn places(&self, row: StateRow) -> Range<usize> {
        self.first[row.place()] as usize..self.first[row.place() + 1] as usize
    }

    fn failure_places(&self, row: StateRow) -> Range<usize> {
        let begin = self.failures.partition_point(|entry| entry.from < row.0);
        let end = self.failures.partition_point(|entry| entry.from <= row.0);
        begin..end
    }
}
