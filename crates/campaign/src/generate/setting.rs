//! What a policy begins with.

use parking_lot::Mutex;

use super::costs::cost;
use super::earlier::Earlier;
use super::error::GenerateError;
use super::plan::RunPlan;
use super::policies::{Effects, Gene, SearchSpace, least_cost};
use super::walk::Walk;
use steplake_env::{Choosable, Environment, Session, SessionError};
use steplake_model::{BenchmarkUri, Dice, EnvironmentSpec};

/// A program, and the episode of it that is about to be played.
pub(super) struct Setting<'a> {
    pub(super) environment: &'a dyn Environment,
    pub(super) plan: &'a RunPlan,
    pub(super) uri: &'a BenchmarkUri,
    pub(super) ordinal: u32,
    pub(super) earlier: &'a Mutex<Earlier>,
    /// Starts the program in a session that is not recorded.
    pub(super) open: &'a dyn Fn() -> Result<Box<dyn Session>, GenerateError>,
}

impl Setting<'_> {
    pub(super) fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    /// Returns the number of actions.
    pub(super) fn actions(&self) -> u32 {
        let space = self.spec().action_space(&self.plan.action_space);
        space.map_or(0, |space| u32::try_from(space.actions.len()).unwrap_or(u32::MAX))
    }

    /// Returns what each action costs beside the others: where that is not known, as much as the
    /// mean.
    pub(super) fn action_costs(&self) -> Box<[f64]> {
        let known = &self.spec().action_costs;
        let Some(space) = self.spec().action_space(&self.plan.action_space) else {
            return Box::default();
        };
        let costs = space.actions.iter().map(|action| known.get(&action.pipeline).copied());
        let (sum, count) = costs
            .clone()
            .flatten()
            .fold((0.0, 0.0), |(sum, count), cost| (sum + f64::from(cost), count + 1.0));
        let mean = if sum > 0.0 { sum / count } else { 1.0 };
        costs.map(|cost| cost.map_or(mean, f64::from).max(1.0)).collect()
    }

    /// Returns the least cost that is told from nothing.
    pub(super) fn least_cost(&self) -> f64 {
        let space = self.spec().observation_index(&self.plan.objective);
        let space = space.and_then(|space| self.spec().observation_space(space));
        least_cost(space.map(|space| space.value_type))
    }

    /// Returns the dice of the episode.
    pub(super) fn episode_dice(&self) -> Dice {
        Dice::new(self.plan.seed, self.ordinal)
    }

    /// Returns the dice of a search, which goes on through all episodes of the program.
    pub(super) fn search_dice(&self) -> Dice {
        let benchmarks = &self.plan.benchmarks;
        let number = benchmarks.iter().position(|one| one == self.uri).unwrap_or_default();
        Dice::new(self.plan.seed, u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// Returns what a search looks through: choices, where states are given by them, or else the
    /// actions of an episode.
    pub(super) fn space(&self) -> SearchSpace {
        let Some(choices) = self.environment.choices() else {
            let last = i32::try_from(self.actions().saturating_sub(1)).unwrap_or(i32::MAX);
            let genes = vec![Gene::named(0, last); self.plan.episode_length as usize];
            return SearchSpace::new(genes.into(), Vec::new());
        };
        let gene = |option: Choosable| match option {
            Choosable { last, are_numbers: true } => Gene::number(-1, last),
            Choosable { last, are_numbers: false } => Gene::named(-1, last),
        };
        SearchSpace::new(choices.options().into_iter().map(gene).collect(), choices.starts())
    }

    /// Takes what the episodes of earlier runs tell: the effects of actions, and those of the
    /// program.
    pub(super) fn earlier(&self) -> (Effects, Vec<Walk>) {
        let mut earlier = self.earlier.lock();
        (earlier.effects.clone(), earlier.walks.remove(self.uri).unwrap_or_default())
    }

    /// Returns what the present state of a session costs; infinity if that is not known.
    pub(super) fn cost(&self, session: &mut dyn Session) -> Result<f64, SessionError> {
        cost(session, self.spec(), &self.plan.objective)
    }
}
