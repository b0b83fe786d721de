//! Builds the transition graph.

use arrow::array::RecordBatch;

use super::csr::{EdgeIndex, Edges, RowOffsets, TransitionGraph};
use super::reader::GraphReader;
use crate::kernel::schema::decode::{NO_ACTION, StateColumn, small_counts};
use crate::kernel::state_index::{Node, StateIndex, sort_distinct};
use crate::kernel::{LakeError, Table};
use steplake_model::{ActionIndex, StateId};

/// The most edges, or nodes: they are counted in 32 bits.
const COUNT_MAX: usize = u32::MAX as usize;

/// The look-ups between two questions whether to go on.
const CHUNK: usize = 1 << 13;

/// Asks whether to go on.
type Demand<'a> = &'a dyn Fn() -> Result<(), LakeError>;

impl GraphReader<'_> {
    /// Reads the graph. It has the states `starts` in any case.
    ///
    /// # Errors
    ///
    /// [`LakeError::NotDerived`], [`LakeError::Corrupt`], [`LakeError::TooLarge`],
    /// [`LakeError::Unordered`] and [`LakeError::Interrupted`].
    pub fn graph(
        &self,
        starts: impl IntoIterator<Item = StateId>,
    ) -> Result<TransitionGraph, LakeError> {
        let columns = ["state_id", "action", "next_state_id", "count"];
        let read = |piece: &mut Piece, batch: &RecordBatch| {
            let (from, to) =
                (StateColumn::of(batch, "state_id"), StateColumn::of(batch, "next_state_id"));
            let count = small_counts(batch);
            for (row, action) in self.kept(batch) {
                piece.push(from.id(row), action, to.id(row), count(row));
            }
        };
        let whole = Piece::join(self.in_shares(Table::StateTransitions, &columns, read)?);
        let read = |failures: &mut Vec<(StateId, ActionIndex)>, batch: &RecordBatch| {
            let states = StateColumn::of(batch, "state_id");
            let kept = self.kept(batch).filter(|(_, action)| *action != NO_ACTION);
            failures.extend(kept.map(|(row, action)| (states.id(row), action)));
        };
        let failures = self.in_shares(Table::Failures, &["state_id", "action"], read)?.concat();
        whole.graph(&failures, starts, &|| self.demand_go_on())
    }
}

impl TransitionGraph {
    /// Returns the graph of some transitions, sorted by state and action, each of one step. It is
    /// for tests of what walks a graph.
    ///
    /// # Errors
    ///
    /// [`LakeError::TooLarge`] and [`LakeError::Unordered`].
    pub fn of(
        transitions: impl IntoIterator<Item = (StateId, ActionIndex, StateId)>,
    ) -> Result<Self, LakeError> {
        let mut whole = Piece::default();
        for (from, action, to) in transitions {
            whole.push(from, action, to, 1);
        }
        whole.graph(&[], [], &|| Ok(()))
    }
}

/// Some consecutive rows of `state_transitions`.
#[derive(Default)]
struct Piece {
    /// The states with outgoing edges, each with their number.
    from: Vec<(StateId, EdgeIndex)>,
    actions: Vec<ActionIndex>,
    next: Vec<StateId>,
    counts: Vec<u32>,
}

impl Piece {
    #[inline]
    fn push(&mut self, from: StateId, action: ActionIndex, next: StateId, count: u32) {
        match self.from.last_mut() {
            Some((last, edges)) if *last == from => *edges += 1,
            _ => self.from.push((from, 1)),
        }
        self.actions.push(action);
        self.next.push(next);
        self.counts.push(count);
    }

    /// Joins consecutive pieces.
    fn join(pieces: Vec<Self>) -> Self {
        let mut pieces = pieces.into_iter();
        let mut whole = pieces.next().unwrap_or_default();
        for mut piece in pieces {
            // The edges of one state may lie in two pieces.
            if let (Some(last), Some(first)) = (whole.from.last_mut(), piece.from.first())
                && last.0 == first.0
            {
                last.1 += first.1;
                piece.from.remove(0);
            }
            whole.from.append(&mut piece.from);
            whole.actions.append(&mut piece.actions);
            whole.next.append(&mut piece.next);
            whole.counts.append(&mut piece.counts);
        }
        whole
    }

    /// The graph of all rows.
    fn graph(
        self,
        failures: &[(StateId, ActionIndex)],
        starts: impl IntoIterator<Item = StateId>,
        demand_go_on: Demand<'_>,
    ) -> Result<TransitionGraph, LakeError> {
        let too_large = LakeError::TooLarge { most: COUNT_MAX };
        if self.next.len() >= COUNT_MAX {
            return Err(too_large);
        }
        if !self.from.is_sorted_by(|(one, _), (next, _)| one.order() < next.order()) {
            return Err(LakeError::Unordered { table: Table::StateTransitions });
        }
        let few = failures.iter().map(|(state, _)| *state).chain(starts);
        let others = self.others(few, demand_go_on)?;
        if self.from.len() + others.len() >= COUNT_MAX {
            return Err(too_large);
        }
        let (ids, offsets) = merged(&self.from, &others);
        demand_go_on()?;
        let states = StateIndex::new(ids);
        let find = |state: &StateId| states.find(state).expect("every state of an edge has a node");
        let failure = |(state, action): &(StateId, ActionIndex)| (find(state), *action);
        let failures: Vec<(Node, ActionIndex)> = failures.iter().map(failure).collect();
        if !failures.is_sorted_by(|one, next| one < next) {
            return Err(LakeError::Unordered { table: Table::Failures });
        }
        let mut targets = Vec::with_capacity(self.next.len());
        for some in self.next.chunks(CHUNK) {
            demand_go_on()?;
            targets.extend(some.iter().map(find));
        }
        let Self { actions, counts, .. } = self;
        Ok(TransitionGraph::new(states, Edges { offsets, actions, targets, counts, failures }))
    }

    /// The states without outgoing edges, in order: those of `few`, and those that edges lead to.
    fn others(
        &self,
        few: impl Iterator<Item = StateId>,
        demand_go_on: Demand<'_>,
    ) -> Result<Vec<StateId>, LakeError> {
        let known = StateIndex::new(self.from.iter().map(|(state, _)| *state).collect());
        let is_new = |state: &StateId| known.find(state).is_none();
        let mut new: Vec<StateId> = few.filter(is_new).collect();
        for some in self.next.chunks(CHUNK) {
            demand_go_on()?;
            new.extend(some.iter().copied().filter(is_new));
        }
        drop(known);
        sort_distinct(&mut new);
        demand_go_on()?;
        Ok(new)
    }
}

/// All ids in their order, and the edges of each. Those of `others` have none.
fn merged(from: &[(StateId, EdgeIndex)], others: &[StateId]) -> (Vec<StateId>, RowOffsets) {
    let count = from.len() + others.len();
    let (mut ids, mut counts) = (Vec::with_capacity(count), Vec::with_capacity(count + 1));
    let mut others = others.iter().copied().peekable();
    counts.push(0);
    for &(state, own) in from {
        while let Some(other) = others.next_if(|other| other.order() < state.order()) {
            ids.push(other);
            counts.push(0);
        }
        ids.push(state);
        counts.push(own);
    }
    for other in others {
        ids.push(other);
        counts.push(0);
    }
    (ids, RowOffsets::from_counts(counts))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A state; larger numbers come later in the order of tables.
    fn state(number: u8) -> StateId {
        let mut id = [0; StateId::LEN];
        id[0] = number ^ 0x80;
        StateId(id)
    }

    fn piece(edges: &[(u8, u32, u8)]) -> Piece {
        let mut piece = Piece::default();
        for &(from, action, to) in edges {
            piece.push(state(from), ActionIndex(action), state(to), 7);
        }
        piece
    }

    /// The edges of a state: action and next state.
    fn edges(graph: &TransitionGraph, from: u8) -> Vec<(u32, StateId)> {
        let edges = graph.edges_of(graph.find(&state(from)).unwrap());
        let edge = |edge: usize| (graph.actions()[edge].0, graph.state(graph.targets()[edge]));
        edges.map(edge).collect()
    }

    #[test]
    fn pieces_are_one_graph_wherever_they_are_cut() {
        let all = [(2, 0, 9), (2, 1, 2), (2, 4, 5), (5, 1, 7), (8, 0, 2), (8, 3, 1)];
        let failures = [(state(3), ActionIndex(0)), (state(5), ActionIndex(2))];
        for cut in 0..=all.len() {
            let whole = Piece::join(vec![piece(&all[..cut]), piece(&all[cut..])]);
            let starts = [state(2), state(6), state(6)];
            let graph = whole.graph(&failures, starts, &|| Ok(())).unwrap();
            let states = graph.all_nodes().map(|node| graph.state(node));
            assert!(states.eq([1, 2, 3, 5, 6, 7, 8, 9].map(state)), "{cut}");
            assert_eq!((graph.nodes(), graph.edges()), (8, 6));
            assert_eq!(edges(&graph, 2), [(0, state(9)), (1, state(2)), (4, state(5))]);
            assert_eq!(edges(&graph, 5), [(1, state(7))]);
            assert_eq!(edges(&graph, 8), [(0, state(2)), (3, state(1))]);
            assert_eq!([1, 3, 6, 7, 9].map(|from| edges(&graph, from).len()), [0; 5]);
            assert_eq!(graph.counts(), [7; 6]);
            let [three, five] = [3, 5].map(|number| graph.find(&state(number)).unwrap());
            assert_eq!(graph.failures(), [(three, ActionIndex(0)), (five, ActionIndex(2))]);
            assert_eq!((graph.failures_of(five), graph.failures_of(five + 1)), (1..2, 2..2));
            assert_eq!(graph.failure_of(five, ActionIndex(2)), Some(1));
            assert_eq!(graph.failure_of(five, ActionIndex(1)), None);
            assert_eq!(graph.follow(five, ActionIndex(1)), graph.find(&state(7)));
            assert_eq!(graph.follow(five, ActionIndex(2)), None);
        }
    }

    #[test]
    fn a_few_more_states_come_after_all_others() {
        let whole = TransitionGraph::of([(state(4), ActionIndex(0), state(2))]).unwrap();
        let wider = whole.with_states([5, 2, 3, 3].map(state).into_iter());
        let states = wider.all_nodes().map(|node| wider.state(node));
        assert!(states.eq([2, 4, 3, 5].map(state)));
        assert_eq!(wider.edges(), 1);
        assert_eq!([2, 3, 4, 5].map(|from| edges(&wider, from).len()), [0, 0, 1, 0]);
        assert_eq!(whole.nodes(), 2);
    }

    #[test]
    fn tables_in_another_order_are_refused() {
        let refused = |edges: &[(u8, u32, u8)], failures: &[(u8, u32)]| {
            let failures: Vec<_> =
                failures.iter().map(|&(at, action)| (state(at), ActionIndex(action))).collect();
            match piece(edges).graph(&failures, [], &|| Ok(())) {
                Err(LakeError::Unordered { table }) => Some(table),
                other => other.map(|_| None).unwrap(),
            }
        };
        assert_eq!(refused(&[(1, 0, 2), (2, 0, 1)], &[(1, 1), (2, 0)]), None);
        assert_eq!(refused(&[(2, 0, 2), (1, 0, 1)], &[]), Some(Table::StateTransitions));
        assert_eq!(refused(&[(1, 0, 2)], &[(2, 0), (1, 1)]), Some(Table::Failures));
    }

    #[test]
    fn a_graph_under_way_is_given_up_at_every_question() {
        let questions_max = |max: u32| {
            let asked = Cell::new(0);
            let demand_go_on = || {
                asked.set(asked.get() + 1);
                if asked.get() > max { Err(LakeError::Interrupted) } else { Ok(()) }
            };
            let made = piece(&[(1, 0, 2)]).graph(&[], [], &demand_go_on);
            (made, asked.get())
        };
        let (made, questions) = questions_max(u32::MAX);
        made.unwrap();
        assert!(questions >= 4, "{questions}");
        for max in 0..questions {
            let (made, asked) = questions_max(max);
            assert!(matches!(made, Err(LakeError::Interrupted)), "{made:?}");
            assert_eq!(asked, max + 1);
        }
    }
}
