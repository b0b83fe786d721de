//! What a Python class declares of its compiler.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use steplake::model::{
    ActionFlags, ActionSpace, ActionSpec, EnvironmentSpec, ObservationSpace, RewardSpace, Scale,
    ValueType,
};
use steplake::record::{SpaceChoice, identity};

use crate::compilers::values::value_type;

/// The observation space of what `save` returns.
const STATE_SPACE: &str = "State";

/// The declaration of an environment, as a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Declaration {
    name: String,
    version: String,
    target: String,
    /// Name, and the names of the actions.
    action_spaces: Vec<(String, Vec<String>)>,
    /// Name, type, and the names of the features.
    observation_spaces: Vec<(String, String, Vec<String>)>,
    /// Name, and the observation space that is the cost.
    reward_spaces: Vec<(String, String)>,
}

impl Declaration {
    /// Returns the specification, or what is wrong with it.
    pub(crate) fn spec(self) -> Result<EnvironmentSpec, String> {
        if steplake::compilers::is_known(&self.name) {
            return Err(format!(
                "`{}` is an environment of steplake: choose another name",
                self.name
            ));
        }
        if self.observation_spaces.iter().any(|(name, ..)| name == STATE_SPACE) {
            return Err(format!(
                "the observation space `{STATE_SPACE}` is what `save` returns: choose another name"
            ));
        }
        let observations = self.observation_spaces.into_iter().map(|(name, kind, features)| {
            let value_type = value_type(&kind);
            let value_type = value_type.ok_or_else(|| format!("there is no type `{kind}`"))?;
            let features = features.into_iter().map(Into::into).collect();
            Ok(ObservationSpace { features, ..ObservationSpace::new(name, value_type) })
        });
        let mut observation_spaces = observations.collect::<Result<Vec<_>, String>>()?;
        observation_spaces.push(ObservationSpace::new(STATE_SPACE, ValueType::Bytes));
        let spec = EnvironmentSpec {
            name: self.name.into(),
            compiler: self.version,
            target: self.target,
            action_spaces: self.action_spaces.into_iter().map(action_space).collect(),
            observation_spaces,
            reward_spaces: self.reward_spaces.into_iter().map(reward_space).collect(),
            baselines: "none".into(),
            state_space: STATE_SPACE.into(),
            action_costs: BTreeMap::new(),
            state_scheme: 1,
        };
        let space = spec.action_spaces.first().ok_or("it declares no action space")?;
        identity(&spec, space, &SpaceChoice::default()).map_err(|error| error.to_string())?;
        Ok(spec)
    }
}

fn action_space((name, actions): (String, Vec<String>)) -> ActionSpace {
    let action = |name: String| ActionSpec::new(name.clone(), name, ActionFlags::UNREMARKABLE);
    ActionSpace { name, actions: actions.into_iter().map(action).collect() }
}

fn reward_space((name, cost): (String, String)) -> RewardSpace {
    RewardSpace {
        name: name.into(),
        initial: cost.clone().into(),
        cost: cost.into(),
        scale: Scale::Absolute,
    }
}
