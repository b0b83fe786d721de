//! Actions at random.

use super::name::PolicyName;
use super::policy::{Listed, Policy};
use crate::generate::walk::Walk;
use steplake_model::{ActionIndex, Dice};

pub(super) const LISTED: Listed = Listed {
    name: PolicyName {
        name: "random",
        summary: "All actions with equal probability",
        properties: &[],
    },
    make: |setting| Ok(Box::new(Random { actions: setting.actions() })),
};

/// Draws all actions of an episode at once, so they are taken in one batch.
struct Random {
    actions: u32,
}

impl Policy for Random {
    fn propose(&mut self, _: &Walk, left: usize, dice: &mut Dice) -> Vec<ActionIndex> {
        (0..left).map(|_| ActionIndex(dice.below(self.actions))).collect()
    }

    fn learn(&mut self, _: &Walk) {}
}
