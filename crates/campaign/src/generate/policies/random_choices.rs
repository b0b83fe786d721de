//! Choices at random.

use super::name::{PolicyName, Property};
use super::policy::Listed;
use super::search::{Proposing, Search};
use super::space::Proposal;

pub(super) const LISTED: Listed = Listed {
    name: PolicyName {
        name: "random-choices",
        summary: "A search: all choices at random, where states are given by choices",
        properties: &[Property::Searches, Property::NeedsChoices, Property::Proposes],
    },
    make: |setting| {
        let space = setting.space();
        let is_first = (setting.ordinal as usize) < setting.plan.benchmarks.len();
        // So the lake has the program untouched too, as with other searches.
        let untouched = space.starts().first().filter(|_| is_first).cloned();
        let drawn = || space.draw(&mut setting.episode_dice());
        Ok(Proposing::of(RandomChoices(untouched.unwrap_or_else(drawn))))
    },
};

/// The choices of an episode: an episode of its own begins with others. The first episode of a
/// program begins at the program itself.
#[derive(Debug)]
struct RandomChoices(Proposal);

impl Search for RandomChoices {
    fn ask(&mut self) -> Proposal {
        self.0.clone()
    }

    fn tell(&mut self, _: f64, _: usize) {}
}
