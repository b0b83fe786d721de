//! The choice of actions. Every choice is a function of the run's seed, the episode's ordinal and,
//! for policies that look back, of what earlier episodes of the same benchmark tried.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::model::{ActionIndex, Dice, StateId};

/// How to choose the actions of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// All actions with equal probability.
    Random,
    /// All actions with equal probability, until so many of them in a row have lowered no cost
    /// (the [patience](super::Plan::patience)): CompilerGym's random search.
    RandomPatience,
    /// All actions not yet tried in the current state with equal probability; all actions once
    /// every one was tried.
    Explore,
    /// A walk to what is likely to be new or better, by what the lake knew before the run and the
    /// run's earlier episodes of the benchmark did: half of the episodes look for new states, half
    /// go on from the best ones.
    Frontier,
    /// All choices of an environment whose states are given by choices, at random: an episode
    /// begins there and has no steps. The first episode of a program begins at the program itself.
    RandomChoices,
    /// A search that changes the best proposal so far: choices, as above, or the actions of an
    /// episode where states are not given by choices.
    HillClimbing,
    /// A search that breeds proposals of the best ones.
    Genetic,
    /// A search that splits the space, again and again, where a line parts what was good from what
    /// was bad, and draws where the parts promise most: latent action Monte Carlo tree search
    /// (Wang et al. 2020).
    Lamcts,
    /// Of all actions, the one that lowers the cost most, again and again, until none lowers it.
    Greedy,
    /// Beam search over sequences of actions, in passes: the first is greedy, and each keeps twice
    /// as many states of a level as the one before it, few of them with equal costs. An episode
    /// goes to a state and on to one of its neighbours.
    Beam,
    /// A search that begins with the sequences of a [coreset](super::Coreset), each next one chosen
    /// by what those before it brought, and then varies the best.
    Coreset,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 11] = [
        Self::Random,
        Self::RandomPatience,
        Self::Explore,
        Self::Frontier,
        Self::RandomChoices,
        Self::HillClimbing,
        Self::Genetic,
        Self::Lamcts,
        Self::Greedy,
        Self::Beam,
        Self::Coreset,
    ];

    /// Returns the name of the policy in the lake.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RandomPatience => "random-patience",
            Self::Explore => "explore",
            Self::Frontier => "frontier",
            Self::RandomChoices => "random-choices",
            Self::HillClimbing => "hill-climbing",
            Self::Genetic => "genetic",
            Self::Lamcts => "lamcts",
            Self::Greedy => "greedy",
            Self::Beam => "beam",
            Self::Coreset => "coreset",
        }
    }

    /// Returns whether it looks for a low cost, and so has an [objective](super::Plan::objective).
    pub fn is_search(self) -> bool {
        self.proposes() || self.expands() || matches!(self, Self::RandomPatience | Self::Frontier)
    }

    /// Returns whether it expands states, one after another: tries every action in them.
    pub(crate) fn expands(self) -> bool {
        matches!(self, Self::Greedy | Self::Beam)
    }

    /// Returns whether it proposes whole vectors: all choices of an environment whose states are
    /// given by choices, or else all actions of an episode.
    pub fn proposes(self) -> bool {
        matches!(
            self,
            Self::RandomChoices | Self::HillClimbing | Self::Genetic | Self::Lamcts | Self::Coreset
        )
    }

    /// Returns whether it looks at earlier episodes of the same benchmark, which so are played one
    /// after another.
    pub fn looks_back(self) -> bool {
        !matches!(self, Self::Random | Self::RandomPatience | Self::RandomChoices)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|policy| policy.as_str() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("`{text}` is no policy: {names} are")
        })
    }
}

/// Which actions were tried in which states of one benchmark.
#[derive(Debug, Default)]
pub(super) struct Tried(HashMap<StateId, Box<[u64]>>);

impl Tried {
    /// Notes that an action was tried.
    pub(super) fn note(&mut self, state: StateId, action: ActionIndex, actions: u32) {
        let words = (actions as usize).div_ceil(64);
        let bits = self.0.entry(state).or_insert_with(|| vec![0; words].into());
        bits[action.place() / 64] |= 1 << (action.0 % 64);
    }

    /// Returns an action that was not tried in `state`, or any if all were.
    pub(super) fn choose(&self, state: StateId, actions: u32, dice: &mut Dice) -> ActionIndex {
        let Some(bits) = self.0.get(&state) else { return ActionIndex(dice.below(actions)) };
        let is_new = |&action: &u32| bits[action as usize / 64] >> (action % 64) & 1 == 0;
        let new: Vec<u32> = (0..actions).filter(is_new).collect();
        match u32::try_from(new.len()) {
            Ok(0) | Err(_) => ActionIndex(dice.below(actions)),
            Ok(count) => ActionIndex(new[dice.below(count) as usize]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn explore_tries_everything_once_before_anything_twice() {
        let (state, actions) = (StateId([1; 20]), 70);
        let (mut tried, mut dice) = (Tried::default(), Dice::new(0, 0));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..actions {
            let action = tried.choose(state, actions, &mut dice);
            tried.note(state, action, actions);
            assert!(seen.insert(action), "{action:?} came twice");
        }
        assert!(tried.choose(state, actions, &mut dice).0 < actions);
    }
}
