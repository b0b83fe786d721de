//! What an episode came to.

use std::collections::HashMap;

use steplake_model::{ActionIndex, StateId};

/// A state, and what it costs: infinity if it has no cost, and none if that is not known.
pub(super) type PricedState = (StateId, Option<f64>);

/// An action, and what it led to; none if the compiler failed.
pub(super) type WalkStep = (ActionIndex, Option<PricedState>);

/// An episode: its first state, if its program started, and what its actions led to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Walk {
    pub(super) first: Option<PricedState>,
    pub(super) steps: Vec<WalkStep>,
}

impl Walk {
    /// Returns the state after so many actions, unless the compiler failed.
    pub(super) fn reached(&self, after: usize) -> Option<PricedState> {
        match after.checked_sub(1) {
            Some(step) => self.steps.get(step)?.1,
            None => self.first,
        }
    }

    /// Says what the state after so many actions costs.
    pub(super) fn set_cost(&mut self, after: usize, cost: Option<f64>) {
        let reached = match after.checked_sub(1) {
            Some(step) => self.steps[step].1.as_mut(),
            None => self.first.as_mut(),
        };
        reached.expect("the compiler did not fail there").1 = cost;
    }

    /// Returns the states in their order.
    pub(super) fn states(&self) -> impl Iterator<Item = StateId> {
        let reached = self.steps.iter().filter_map(|(_, reached)| *reached);
        self.first.into_iter().chain(reached).map(|(state, _)| state)
    }

    /// Learns what states cost, where that is not known.
    pub(super) fn price(&mut self, costs: &HashMap<StateId, f64>) {
        let reached = self.steps.iter_mut().filter_map(|(_, reached)| reached.as_mut());
        for (state, cost) in self.first.iter_mut().chain(reached) {
            *cost = cost.or_else(|| costs.get(state).copied());
        }
    }

    /// Returns the lowest cost of the states, and after how many actions its state was reached;
    /// infinity if no cost is known.
    pub(super) fn lowest(&self) -> (f64, usize) {
        let cost = |after| self.reached(after).and_then(|(_, cost)| cost);
        let (lowest, at) =
            lowest((0..=self.steps.len()).map(|after| cost(after).unwrap_or(f64::INFINITY)));
        let state = |after| self.reached(after).map(|(state, _)| state);
        let changed = (1..=at).rev().find(|&after| state(after) != state(after - 1));
        (lowest, changed.unwrap_or(0))
    }
}

/// Returns the lowest cost and the place of the first one that is as low; infinity if there is
/// none.
pub(super) fn lowest(costs: impl Iterator<Item = f64>) -> (f64, usize) {
    let start = (f64::INFINITY, 0);
    costs.zip(0..).fold(start, |lowest, next| if next.0 < lowest.0 { next } else { lowest })
}
