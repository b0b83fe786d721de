//! Actions that were not tried before, and are likely to change the state for little time.

use std::collections::HashMap;

use super::effects::{Effects, History, drawn};
use super::name::{PolicyName, Property};
use super::policy::{Listed, Policy};
use crate::generate::walk::Walk;
use steplake_model::{ActionIndex, Dice, StateId};

pub(super) const LISTED: Listed = Listed {
    name: PolicyName {
        name: "explore",
        summary: "Look for new states: actions not yet tried that are likely to change the state, \
                  cheap ones more often",
        properties: &[Property::LooksBack],
    },
    make: |setting| Ok(Box::new(Explore::new(setting.action_costs()))),
};

/// The number of actions that are chosen and taken at a time: one call of the compiler's process
/// for each would cost more than what is learned in between is worth.
const BATCH: usize = 8;

/// Draws among the actions not yet tried in the current state; among all once every one was tried.
/// Those of a batch are different ones, and all drawn where the batch begins.
///
/// An action is as likely as the square of the probability that it changes the state, divided by
/// its cost. The probability follows from the settled episodes of the program, by how many changes
/// there were since the action was last applied on the way. Most pass time goes into few passes: at
/// equal rates, a state takes 1.8 times the CPU time (PERFORMANCE.md).
struct Explore {
    /// What each action costs, beside the others.
    costs: Box<[f64]>,
    effects: Effects,
    /// Which actions were tried, in which states.
    tried: HashMap<StateId, Box<[u64]>>,
    /// The way of the episode under way, as far as it was seen.
    history: History,
    seen: usize,
}

impl Explore {
    fn new(costs: Box<[f64]>) -> Self {
        let actions = u32::try_from(costs.len()).unwrap_or(u32::MAX);
        let (effects, history) = (Effects::new(actions), History::new(actions));
        Self { costs, effects, tried: HashMap::new(), history, seen: 0 }
    }

    fn actions(&self) -> u32 {
        u32::try_from(self.costs.len()).unwrap_or(u32::MAX)
    }

    /// Notes what a walk tried from a step on.
    fn note(&mut self, walk: &Walk, from: usize) {
        let words = self.costs.len().div_ceil(64);
        for (at, (action, _)) in walk.steps.iter().enumerate().skip(from) {
            let Some((state, _)) = walk.reached(at) else { continue };
            let bits = self.tried.entry(state).or_insert_with(|| vec![0; words].into());
            bits[action.place() / 64] |= 1 << (action.0 % 64);
        }
    }

    /// Chooses up to `count` different actions.
    fn choose(&self, state: StateId, count: usize, dice: &mut Dice) -> Vec<ActionIndex> {
        let tried = self.tried.get(&state);
        let is_tried = |action: u32| {
            tried.is_some_and(|bits| bits[action as usize / 64] >> (action % 64) & 1 == 1)
        };
        let weight = |(action, cost): (u32, &f64)| {
            let effect = self.effects.of(ActionIndex(action), &self.history);
            if is_tried(action) { 0.0 } else { effect.changes().powi(2) / cost }
        };
        let mut weights: Vec<f64> = (0..).zip(&self.costs).map(weight).collect();
        let mut chosen = Vec::new();
        while chosen.len() < count.min(BATCH)
            && let Some(action) = drawn(&weights, dice)
        {
            weights[action.place()] = 0.0;
            chosen.push(action);
        }
        if chosen.is_empty() {
            chosen.push(ActionIndex(dice.below(self.actions())));
        }
        chosen
    }
}

impl Policy for Explore {
    fn propose(&mut self, walk: &Walk, left: usize, dice: &mut Dice) -> Vec<ActionIndex> {
        if walk.steps.is_empty() {
            (self.history, self.seen) = (History::new(self.actions()), 0);
        }
        self.note(walk, self.seen);
        for (at, (action, _)) in walk.steps.iter().enumerate().skip(self.seen) {
            self.history.advance(*action, has_changed(walk, at));
        }
        self.seen = walk.steps.len();
        let Some((state, _)) = walk.reached(self.seen) else { return Vec::new() };
        self.choose(state, left, dice)
    }

    fn learn(&mut self, walk: &Walk) {
        self.note(walk, 0);
        let mut history = History::new(self.actions());
        for (at, (action, reached)) in walk.steps.iter().enumerate() {
            // Only whether there is another state matters here: a failure leads to none.
            let changed = (reached.is_some() && has_changed(walk, at)).then_some([1.0, 1.0]);
            self.effects.note(*action, &mut history, changed, 1.0);
        }
    }
}

/// Returns whether a step led to another state.
fn has_changed(walk: &Walk, at: usize) -> bool {
    let state = |after| walk.reached(after).map(|(state, _)| state);
    state(at) != state(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(actions: usize) -> Box<[f64]> {
        vec![1.0; actions].into()
    }

    #[test]
    fn everything_is_tried_once_before_anything_twice() {
        let (state, mut dice) = (Some((StateId([1; StateId::LEN]), None)), Dice::new(0, 0));
        let (mut explore, mut walk) =
            (Explore::new(costs(70)), Walk { first: state, steps: Vec::new() });
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < 70 {
            for action in explore.propose(&walk, 100, &mut dice) {
                assert!(seen.insert(action), "{action:?} came twice");
                walk.steps.push((action, state));
            }
        }
        assert!(explore.propose(&walk, 1, &mut dice)[0].0 < 70);
        // A new one learns the episode that is settled, and has one action left.
        let (last, _) = walk.steps.pop().unwrap();
        let mut other = Explore::new(costs(70));
        other.learn(&walk);
        walk.steps.clear();
        assert_eq!(other.propose(&walk, 100, &mut dice), [last]);
    }

    #[test]
    fn actions_that_change_the_state_and_cheap_ones_come_most_often() {
        let state = |number| Some((StateId([number; StateId::LEN]), None));
        // The first two actions change the state, the third one does not, and the last one fails.
        let mut explore = Explore::new([1.0, 10.0, 1.0, 1.0].into());
        for number in 0..100 {
            let steps = [state(number + 1), state(number + 2), state(number + 2), None];
            let steps = (0..).map(ActionIndex).zip(steps);
            explore.learn(&Walk { first: state(number), steps: steps.collect() });
        }
        let mut first = [0; 4];
        for ordinal in 0..2000 {
            let walk = Walk { first: state(255), steps: Vec::new() };
            first[explore.propose(&walk, 1, &mut Dice::new(1, ordinal))[0].place()] += 1;
        }
        let [cheap, dear, idle, failing] = first;
        assert!(cheap > 5 * dear && dear > 5 * idle.max(failing).max(1), "{first:?}");
    }
}
