//! The identity of a lake that is to be recorded into.

use crate::Error;
use crate::environments::action_space;
use crate::lake::{Identity, RecordedObservation, RecordedReward};
use crate::model::EnvironmentSpec;
use crate::record::{self, SpaceChoice};

/// Returns the identity of the lake: that of the choices. `there` is the identity of an existing
/// context, which grows to it; without a choice of an action space or of spaces, it keeps those
/// that it has.
pub(super) fn identity(
    spec: &EnvironmentSpec,
    there: Option<&Identity>,
    wanted_space: Option<&str>,
    choice: &SpaceChoice<'_>,
) -> Result<Identity, Error> {
    let is_of_compiler =
        |there: &&Identity| there.environment == spec.name && there.compiler == *spec.compiler;
    let there = there.filter(is_of_compiler);
    let wanted = wanted_space.or(there.map(|there| there.action_space.name.as_str()));
    let space = action_space(spec, wanted)?;
    let mut identity = record::identity(spec, &space, choice)?;
    if let Some(there) = there {
        let of_states = spec.observation_spaces.iter().filter(|space| !space.of_benchmark);
        let every = of_states.map(|space| space.name.to_string()).collect::<Vec<_>>();
        let rewards = spec.reward_spaces.iter().map(|space| space.name.to_string());
        let rewards = rewards.collect::<Vec<_>>();
        let every = SpaceChoice { observations: Some(&every), rewards: Some(&rewards) };
        let every = record::identity(spec, &space, &every)?;
        if choice.observations.is_none() {
            let name = |space: &RecordedObservation| space.name.clone();
            identity.observations = as_here(&there.observations, &every.observations, name);
        }
        if choice.rewards.is_none() {
            let name = |space: &RecordedReward| space.name.clone();
            identity.rewards = as_here(&there.rewards, &every.rewards, name);
            identity.baselines = record::baselines(spec, &identity.rewards);
        }
    }
    Ok(identity)
}

/// The spaces of a lake as the environment here has them: one that means something else shows when
/// the lake is opened. The environment may lack some.
fn as_here<T: Clone>(there: &[T], here: &[T], name: impl Fn(&T) -> String) -> Vec<T> {
    let own = |space: &T| here.iter().find(|here| name(here) == name(space)).cloned();
    there.iter().map(|space| own(space).unwrap_or_else(|| space.clone())).collect()
}
