//! `CompilerGym`'s random search.

use super::name::{PolicyName, Property};
use super::policy::{Listed, Policy};
use crate::generate::walk::Walk;
use steplake_model::{ActionIndex, Dice};

pub(super) const LISTED: Listed = Listed {
    name: PolicyName {
        name: "random-patience",
        summary: "A search: random actions, until so many (patience) in a row have lowered no cost",
        properties: &[Property::Searches, Property::HasPatience],
    },
    make: |setting| {
        Ok(Box::new(RandomPatience {
            actions: setting.actions(),
            patience: setting.plan.patience,
            lowest: f64::INFINITY,
            in_vain: 0,
        }))
    },
};

/// Draws actions, until so many of them in a row have lowered no cost.
struct RandomPatience {
    actions: u32,
    patience: u32,
    /// The lowest cost of the episode, and the number of actions since.
    lowest: f64,
    in_vain: u32,
}

impl Policy for RandomPatience {
    fn propose(&mut self, walk: &Walk, _: usize, dice: &mut Dice) -> Vec<ActionIndex> {
        let cost = walk.reached(walk.steps.len()).and_then(|(_, cost)| cost);
        let cost = cost.unwrap_or(f64::INFINITY);
        self.in_vain =
            if cost < self.lowest || walk.steps.is_empty() { 0 } else { self.in_vain + 1 };
        self.lowest = self.lowest.min(cost);
        let goes_on = self.in_vain < self.patience;
        goes_on.then(|| ActionIndex(dice.below(self.actions))).into_iter().collect()
    }

    fn learn(&mut self, _: &Walk) {}
}
