//! The rule of the derived tables: which rows follow from the steps.
//!
//! A step with an action is an [`Edge`]: the state before it, the action, and the state after it,
//! or none if the compiler failed. So is the state in which an episode began, if the compiler
//! failed on it: an edge without an action.
//!
//! 1. Equal edges are one edge. Their counts and times add up. The edge has the rewards or the
//!    failure of its first step, by `(episode_id, step_index)`: see [`absorb`].
//! 2. The edges of one (state, action) that led to states make one row of `state_transitions`: that
//!    of the edge with the most steps. Among equally frequent edges, the smallest next state wins.
//! 3. If there are several, each of them is also a row of `conflicts`.
//! 4. An edge that failed is a row of `failures`.
//!
//! [`absorb`] is associative and commutative, and a layer keeps every edge that it was made of: its
//! conflicts, its failures, and its transitions, except those that are also among the conflicts.
//! The order in which steps were counted, and the number of layers, therefore do not matter.

use super::edge::{Edge, HEAD};
use crate::kernel::Table;

/// Adds the steps of `other`, an equal edge, to `row`. Returns whether `other` had the first step.
#[inline]
pub(crate) fn absorb(row: &mut [u64], other: &[u64]) -> bool {
    let (mine, theirs) = (Edge(row), Edge(other));
    debug_assert!(mine.is_same(theirs), "only equal edges are counted together");
    let count = mine.count() + theirs.count();
    let wall_time_us = mine.wall_time_us().saturating_add(theirs.wall_time_us());
    let earlier = theirs.first() < mine.first();
    row[8] = count.cast_unsigned();
    row[7] = wall_time_us.cast_unsigned();
    if earlier {
        row[5] = other[5];
        row[6] = other[6];
        row[HEAD..].copy_from_slice(&other[HEAD..]);
    }
    earlier
}

/// Makes rows from sorted edges, each of which comes once.
#[derive(Debug, Default)]
pub(super) struct RowMaker {
    /// The number of edges of the current (state, action) that led to a state.
    led: usize,
    /// The most frequent of these edges.
    best: Vec<u64>,
}

impl RowMaker {
    /// Takes the next edge. Passes the rows that are certain now to `hand_over`.
    #[inline]
    pub(super) fn push(&mut self, row: &[u64], mut hand_over: impl FnMut(Table, Edge<'_>)) {
        let edge = Edge(row);
        if self.led > 0 && !edge.leaves_as(Edge(&self.best)) {
            self.end(&mut hand_over);
        }
        if !edge.led() {
            return hand_over(Table::Failures, edge);
        }
        self.led += 1;
        if self.led == 2 {
            hand_over(Table::Conflicts, Edge(&self.best));
        }
        if self.led >= 2 {
            hand_over(Table::Conflicts, edge);
        }
        // Among equally frequent edges the first wins, which has the smallest next state.
        if self.led == 1 || edge.count() > Edge(&self.best).count() {
            self.best.clear();
            self.best.extend_from_slice(row);
        }
    }

    /// Passes the row of the last (state, action) to `hand_over`.
    pub(super) fn end(&mut self, mut hand_over: impl FnMut(Table, Edge<'_>)) {
        if self.led > 0 {
            hand_over(Table::StateTransitions, Edge(&self.best));
        }
        self.led = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::edge::EdgeHead;
    use super::super::edge::tests::{head, row};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn in_whatever_order_edges_are_absorbed_the_result_is_the_same(
            head in head(),
            firsts in proptest::collection::vec((any::<i64>(), 0..i32::MAX), 3),
        ) {
            let [a, b, c] = [0, 1, 2].map(|at| {
                let (first_episode, first_index) = firsts[at];
                row(&EdgeHead { first_episode, first_index, count: 1 + head.count % 7, ..head })
            });
            let together = |rows: [&Vec<u64>; 3]| {
                let mut left = rows[0].clone();
                absorb(&mut left, rows[1]);
                absorb(&mut left, rows[2]);
                let mut right = rows[1].clone();
                absorb(&mut right, rows[2]);
                let mut whole = rows[0].clone();
                absorb(&mut whole, &right);
                assert_eq!(left, whole);
                left
            };
            prop_assert_eq!(together([&a, &b, &c]), together([&c, &a, &b]));
        }
    }
}
