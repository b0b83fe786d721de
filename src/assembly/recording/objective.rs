//! What a search looks for, which is observed in the states that it comes to.

use crate::assembly::command_error::CommandError;
use crate::datasets::did_you_mean;
use crate::env::{Environment, loops};
use crate::generate::{Policy, Stop};
use crate::lake::Identity;
use crate::model::{EnvironmentSpec, ObservationSpace, ValueType};
use crate::record::Choice;

use super::identity::identity;
use super::timed::time_space;
use super::{Keyframes, RunRequest};

impl RunRequest {
    /// Returns the observation space of which the run's search looks for the lowest value; empty if
    /// it does not search.
    pub(super) fn objective(&self, spec: &EnvironmentSpec) -> Result<String, CommandError> {
        if !self.policy.is_search() {
            return match &self.objective {
                Some(_) => Err(CommandError::usage(format!(
                    "`{}` does not search, so it has no --objective",
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
            Some(name) => Err(CommandError::usage(format!(
                "`{name}` is no cost of {}{}: write {}",
                spec.name,
                did_you_mean(name, costs.iter().copied()),
                costs.join(" or ")
            ))),
            None => Err(CommandError::usage(format!(
                "{} has no rewards: name what to search for, --objective {}",
                spec.name,
                costs.join(" or ")
            ))),
        }
    }

    /// Refuses a search that the environment does not have, that would not end, or whose choices
    /// nobody would know.
    pub(super) fn demand_search(
        &self,
        environment: &dyn Environment,
        keyframes: Keyframes,
    ) -> Result<(), CommandError> {
        let name = &environment.spec().name;
        let has_choices = environment.choices().is_some();
        if self.policy == Policy::RandomChoices && !has_choices {
            return Err(CommandError::usage(format!(
                "the states of {name} are not given by choices: `random` draws actions"
            )));
        }
        if self.policy.proposes() && has_choices && matches!(self.stop, Stop::Steps(_)) {
            return Err(CommandError::usage(format!(
                "a search among the choices of {name} makes no steps: give --episodes, the number \
                 of choices to try, in place of --steps"
            )));
        }
        if self.policy.proposes() && has_choices && keyframes.0.is_none() {
            return Err(CommandError::usage(format!(
                "a search among the choices of {name} begins at states that only their IR tells: \
                 leave out --ir none"
            )));
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
    ) -> Result<Option<Vec<String>>, CommandError> {
        let mut names = match &self.observe {
            // Times are measurements and no observations.
            _ if objective.is_empty() || objective == time_space() => {
                return Ok(self.observe.clone());
            }
            Some(names) => names.clone(),
            None => {
                let choice = Choice { observations: None, rewards: self.rewards.as_deref() };
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
