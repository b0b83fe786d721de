//! What a search looks for, which is observed in the states that it comes to.

use crate::Error;
use crate::env::{Environment, loops};
use crate::generate::{Property, Stop};
use crate::lake::Identity;
use crate::model::suggestions::did_you_mean;
use crate::model::{EnvironmentSpec, ObservationSpace, Remedy, ValueType};
use crate::record::SpaceChoice;

use super::identity::identity;
use super::timed::time_space;
use super::{Keyframes, RunRequest};

impl RunRequest {
    /// Returns the observation space of which the run's search looks for the lowest value; empty if
    /// it does not search.
    pub(super) fn objective(&self, spec: &EnvironmentSpec) -> Result<String, Error> {
        if !self.policy.has(Property::Searches) {
            return match &self.objective {
                Some(_) => Err(Error::usage(format!(
                    "`{}` does not search, so it has no objective",
                    self.policy
                ))),
                None => Ok(String::new()),
            };
        }
        let is_cost = |space: &&ObservationSpace| {
            matches!(space.value_type, ValueType::Int | ValueType::Float) && !space.of_benchmark
        };
        let costs = spec.observation_spaces.iter().filter(is_cost);
        let mut costs: Vec<&str> = costs.map(|space| space.name.as_ref()).collect();
        if spec.name == loops::NAME || self.stopwatch.is_some() {
            costs.push(time_space());
        }
        let first = || spec.reward_spaces.first().map(|space| space.cost.as_ref());
        match self.objective.as_deref().or_else(first) {
            Some(name) if costs.contains(&name) => Ok(name.to_owned()),
            Some(name) => Err(Error::usage(format!(
                "`{name}` is no cost of {}{}: write {}",
                spec.name,
                did_you_mean(name, costs.iter().copied()),
                costs.join(" or ")
            ))),
            None => Err(Error::usage(format!(
                "{} has no rewards: name what to search for, {}",
                spec.name,
                costs.join(" or ")
            ))
            .with(Remedy::Field("objective"))),
        }
    }

    /// Refuses a search that the environment does not have, that would not end, or whose choices
    /// nobody would know.
    pub(super) fn demand_search(
        &self,
        environment: &dyn Environment,
        keyframes: Keyframes,
    ) -> Result<(), Error> {
        let name = &environment.spec().name;
        let has_choices = environment.choices().is_some();
        if self.policy.has(Property::NeedsChoices) && !has_choices {
            return Err(Error::usage(format!(
                "the states of {name} are not given by choices: `random` draws actions"
            )));
        }
        if self.policy.has(Property::Proposes) && has_choices && matches!(self.stop, Stop::Steps(_))
        {
            return Err(Error::usage(format!(
                "a search among the choices of {name} makes no steps: give the number of episodes, \
                 which is that of choices to try"
            ))
            .with(Remedy::Field("episodes")));
        }
        if self.policy.has(Property::Proposes) && has_choices && keyframes.0.is_none() {
            return Err(Error::usage(format!(
                "a search among the choices of {name} begins at states that only their IR tells: \
                 keep IR"
            ))
            .with(Remedy::Field("keyframes")));
        }
        Ok(())
    }

    /// Returns the observation spaces to record: those that are named, and the objective. None
    /// stands for the usual ones.
    pub(super) fn observed(
        &self,
        spec: &EnvironmentSpec,
        there: Option<&Identity>,
        objective: &str,
    ) -> Result<Option<Vec<String>>, Error> {
        let mut names = match &self.observe {
            // Times are measurements and no observations.
            _ if objective.is_empty() || objective == time_space() => {
                return Ok(self.observe.clone());
            }
            Some(names) => names.clone(),
            None => {
                let choice = SpaceChoice { observations: None, rewards: self.rewards.as_deref() };
                let usual = identity(spec, there, self.action_space.as_deref(), &choice)?;
                let is_usual = |name: &String| {
                    let space = spec.observation_index(name);
                    space.and_then(|at| spec.observation_space(at)).is_some_and(|s| !s.on_request)
                };
                let names = usual.observations.into_iter().map(|space| space.name);
                names.filter(is_usual).collect()
            }
        };
        if !names.iter().any(|name| name == objective) {
            names.push(objective.to_owned());
        }
        Ok(Some(names))
    }
}
