//! Policies: each chooses the actions of episodes, and learns what they led to.
//!
//! A new policy is a file here with its [`Listed`], a line of [`LIST`], and a row of
//! `docs/RECORDING.md`. It is a [`Policy`] if it chooses as an episode goes, and a
//! [`Search`](search::Search) if it proposes whole vectors.

mod beam;
mod coreset;
mod effects;
mod explore;
mod frontier;
mod genetic;
mod hill_climbing;
mod lamcts;
mod name;
mod parting;
mod policy;
mod random;
mod random_choices;
mod random_patience;
mod search;
mod space;

use std::str::FromStr;

pub(super) use self::effects::{Effects, History, least_cost};
pub use self::name::{PolicyName, Property};
use self::policy::Listed;
pub(super) use self::policy::Policy;
pub(super) use self::search::actions;
pub(super) use self::space::{Gene, Proposal, SearchSpace};
use super::error::GenerateError;
use super::setting::Setting;

/// All policies, in the order in which they are shown.
const LIST: [Listed; 11] = [
    random::LISTED,
    random_patience::LISTED,
    explore::LISTED,
    frontier::LISTED,
    random_choices::LISTED,
    hill_climbing::LISTED,
    genetic::LISTED,
    lamcts::LISTED,
    beam::GREEDY,
    beam::BEAM,
    coreset::LISTED,
];

impl PolicyName {
    /// All actions with equal probability.
    pub const RANDOM: Self = random::LISTED.name;

    /// A search that begins with the sequences of a [`Coreset`](super::Coreset).
    pub const CORESET: Self = coreset::LISTED.name;

    /// Returns all policies.
    pub fn all() -> impl Iterator<Item = Self> {
        LIST.into_iter().map(|listed| listed.name)
    }

    /// Begins.
    pub(super) fn make(self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, GenerateError> {
        let listed = LIST.into_iter().find(|listed| listed.name == self);
        (listed.expect("nobody else makes names").make)(setting)
    }
}

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::all().find(|policy| policy.as_str() == text);
        known.ok_or_else(|| {
            let names = LIST.map(|listed| listed.name.as_str()).join(", ");
            format!("`{text}` is no policy: {names} are")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steplake_model::Dice;

    #[test]
    fn dice_are_fair_enough_and_the_same_for_ever() {
        let mut dice = Dice::new(7, 3);
        let first: Vec<u32> = (0..8).map(|_| dice.below(124)).collect();
        assert_eq!(first, FIRST_EIGHT, "a change here changes what every seed records");
        let mut counts = [0; 5];
        (0..5000).for_each(|_| counts[dice.below(5) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    const FIRST_EIGHT: [u32; 8] = [88, 18, 44, 23, 63, 50, 28, 102];

    #[test]
    fn a_policy_has_a_name_of_its_own() {
        for policy in PolicyName::all() {
            assert_eq!(policy.as_str().parse(), Ok(policy));
            assert_eq!(PolicyName::all().filter(|other| *other == policy).count(), 1, "{policy}");
        }
        let unknown = "rando".parse::<PolicyName>().unwrap_err();
        assert!(unknown.starts_with("`rando` is no policy: random, random-patience, "));
    }
}
