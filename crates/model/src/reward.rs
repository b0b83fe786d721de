//! Rewards: differences of costs, to a scale.

use super::Name;

/// The costs that belong to a benchmark: those of its program untouched and after the compiler's
/// own pipelines, by observation space name (`IrInstructionCountO0`, `…O3`, `…Oz`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Baselines(pub Vec<(String, i64)>);

impl Baselines {
    /// Returns the baseline called `name`.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.iter().find(|(known, _)| known == name).map(|&(_, cost)| cost)
    }
}

/// The divisor of a cost reduction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scale {
    /// No divisor: the reward is the reduction itself.
    Absolute,
    /// The initial cost, at least 1 (`Norm`).
    Initial,
    /// The saving of the named baseline, at least 1: `max(initial - baseline, 1)`. If the baseline
    /// saves nothing, the reward is the reduction itself, as in CompilerGym.
    Baseline(Name),
}

/// A way to score a step: the cost before less the cost after, to a scale.
///
/// The definitions are those of CompilerGym's cost function rewards. If the scale is a baseline,
/// the rewards of an episode add up to 1 when the program has become as good as that baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewardSpace {
    /// The name, e.g. `IrInstructionCountOz`.
    pub name: Name,
    /// The observation space that gives the cost, e.g. `IrInstructionCount`.
    pub cost: Name,
    /// The baseline that gives the initial cost, e.g. `IrInstructionCountO0`.
    pub initial: Name,
    /// The divisor of the reduction.
    pub scale: Scale,
}

impl RewardSpace {
    /// Returns the divisor of the reductions of a program with these baselines.
    ///
    /// # Errors
    ///
    /// The name of the first baseline that `baselines` lacks.
    pub fn divisor(&self, baselines: &Baselines) -> Result<f64, String> {
        let find = |name: &str| baselines.get(name).ok_or_else(|| name.to_owned());
        Ok(as_f64(match &self.scale {
            Scale::Absolute => 1,
            Scale::Initial => find(&self.initial)?.max(1),
            Scale::Baseline(name) => (find(&self.initial)? - find(name)?).max(1),
        }))
    }

    /// Returns the reward of a step between states of these costs.
    pub fn reward(before: f64, after: f64, divisor: f64) -> f64 {
        (before - after) / divisor
    }
}

/// A step's rewards: one for each reward space of the environment, in the environment's order.
pub type Rewards = Box<[f64]>;

/// Turns the costs of an episode into rewards.
#[derive(Debug, Clone)]
pub struct RewardTracker {
    /// The costs that spaces reward, each once, and what the present state costs.
    costs: Vec<(Name, f64)>,
    /// For each space that is followed, the place of its cost, and the divisor.
    spaces: Vec<Option<(usize, f64)>>,
}

impl RewardTracker {
    /// Begins an episode. `cost` gives what the initial state costs in the space of a name. `None`
    /// is the place of a space that is not followed, whose rewards are NaN.
    ///
    /// # Errors
    ///
    /// The name of the first baseline that `baselines` lacks.
    pub fn new<'a>(
        spaces: impl IntoIterator<Item = Option<&'a RewardSpace>>,
        baselines: &Baselines,
        cost: impl Fn(&str) -> f64,
    ) -> Result<Self, String> {
        let mut tracker = Self { costs: Vec::new(), spaces: Vec::new() };
        for space in spaces {
            let Some(space) = space else {
                tracker.spaces.push(None);
                continue;
            };
            let divisor = space.divisor(baselines)?;
            let known = tracker.costs.iter().position(|(name, _)| *name == space.cost);
            let place = known.unwrap_or_else(|| {
                tracker.costs.push((space.cost.clone(), cost(&space.cost)));
                tracker.costs.len() - 1
            });
            tracker.spaces.push(Some((place, divisor)));
        }
        Ok(tracker)
    }

    /// Returns the rewards of a step. `cost` gives what the next state costs in the space of a
    /// name.
    pub fn advance(&mut self, cost: impl Fn(&str) -> f64) -> Rewards {
        let change = |(name, before): &mut (Name, f64)| {
            let now = cost(name);
            (std::mem::replace(before, now), now)
        };
        let changes = self.costs.iter_mut().map(change).collect::<Vec<_>>();
        let reward = |&(place, divisor): &(usize, f64)| {
            let (before, now) = changes[place];
            RewardSpace::reward(before, now, divisor)
        };
        let rewards = self.spaces.iter();
        rewards.map(|space| space.as_ref().map_or(f64::NAN, reward)).collect()
    }

    /// Returns the rewards of a step that changes nothing.
    pub fn rest(&self) -> Rewards {
        let reward = |space: &Option<_>| if space.is_some() { 0.0 } else { f64::NAN };
        self.spaces.iter().map(reward).collect()
    }
}

/// Converts a count of instructions or bytes, which is far below the 2^53 up to which f64 is exact.
#[expect(clippy::cast_precision_loss, reason = "counts of instructions and bytes stay below 2^53")]
pub fn as_f64(count: i64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spaces() -> [RewardSpace; 3] {
        [("C", Scale::Absolute), ("CNorm", Scale::Initial), ("COz", Scale::Baseline("Cz".into()))]
            .map(|(name, scale)| space(name, "C", scale))
    }

    fn space(name: &'static str, cost: &'static str, scale: Scale) -> RewardSpace {
        RewardSpace { name: name.into(), cost: cost.into(), initial: "C0".into(), scale }
    }

    fn baselines(o0: i64, oz: i64) -> Baselines {
        Baselines(vec![("C0".into(), o0), ("Cz".into(), oz)])
    }

    #[test]
    fn rewards_follow_the_definitions() {
        let mut tracker =
            RewardTracker::new(spaces().iter().map(Some), &baselines(200, 150), |_| 200.0).unwrap();
        assert_eq!(*tracker.advance(|_| 190.0), [10.0, 0.05, 0.2]);
        assert_eq!(*tracker.advance(|_| 195.0), [-5.0, -0.025, -0.1]);
        assert_eq!(*tracker.rest(), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_baseline_that_saves_nothing_divides_by_one() {
        let mut tracker =
            RewardTracker::new(spaces().iter().map(Some), &baselines(200, 220), |_| 200.0).unwrap();
        assert_eq!(*tracker.advance(|_| 190.0), [10.0, 0.05, 10.0]);
    }

    #[test]
    fn each_space_follows_its_own_cost() {
        let costs =
            |count: f64, size: f64| move |name: &str| if name == "S" { size } else { count };
        let spaces = [spaces()[0].clone(), space("S", "S", Scale::Absolute)];
        let begin = costs(9.0, 400.25);
        let mut tracker =
            RewardTracker::new(spaces.iter().map(Some), &baselines(9, 9), begin).unwrap();
        assert_eq!(*tracker.advance(costs(8.0, 300.5)), [1.0, 99.75]);
        assert_eq!(*tracker.advance(costs(8.0, 310.5)), [0.0, -10.0]);
    }

    #[test]
    fn a_cost_without_a_divisor_needs_no_baseline() {
        let spaces = [space("T", "T", Scale::Absolute)];
        let mut tracker =
            RewardTracker::new(spaces.iter().map(Some), &Baselines::default(), |_| 0.3).unwrap();
        assert_eq!(*tracker.advance(|_| 0.1), [0.3 - 0.1]);
    }

    #[test]
    fn a_space_that_is_not_followed_has_no_rewards_and_needs_no_baseline() {
        let spaces = spaces();
        let first = [Some(&spaces[0]), None];
        let mut tracker = RewardTracker::new(first, &Baselines::default(), |_| 9.0).unwrap();
        for (rewards, wanted) in [(tracker.advance(|_| 7.0), 2.0), (tracker.rest(), 0.0)] {
            assert_eq!(rewards[..1], [wanted]);
            assert!(rewards[1].is_nan(), "{rewards:?}");
        }
    }

    #[test]
    fn a_missing_baseline_is_named() {
        let none = Baselines::default();
        assert_eq!(
            RewardTracker::new(spaces().iter().map(Some), &none, |_| 1.0).unwrap_err(),
            "C0"
        );
    }
}
