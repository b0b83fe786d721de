//! The identity of a lake that records an environment.

use super::declaration;
use steplake_lake::{FORMAT_VERSION, Identity, RecordedObservation, RecordedReward};
use steplake_model::{
    ActionSpace, Classified, EnvironmentSpec, ErrorKind, MachineSpace, ObservationSpace, Remedy,
    RewardSpace, Scale, ValueType,
};

/// The spaces that a run records, in this order. `None` stands for all reward spaces that are not
/// [on request](EnvironmentSpec::is_on_request), and for all observation spaces of numbers that are
/// not [on request](ObservationSpace::on_request): these, texts and bytes are recorded only if they
/// are named.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpaceChoice<'a> {
    /// The names of the observation spaces.
    pub observations: Option<&'a [String]>,
    /// The names of the reward spaces.
    pub rewards: Option<&'a [String]>,
}

/// Why an environment, or a choice of its spaces, cannot be recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceChoiceError {
    /// The environment declares what a lake cannot hold: a name, a type or a reward space.
    #[error("{0}")]
    Declaration(String),
    /// The environment has no such space, or none that fits into columns.
    #[error("`{name}` is no {kind} space that can be recorded: {known} are")]
    Unknown {
        /// `observation` or `reward`.
        kind: &'static str,
        /// The chosen name.
        name: String,
        /// The names to choose from.
        known: String,
    },
    /// The space belongs to the machine.
    #[error(
        "`{0}` belongs to the machine that observes it, not to the state, so it is never recorded \
         with states"
    )]
    OfMachine(&'static str),
    /// A space was chosen more than once, but is one column.
    #[error("the {kind} space `{name}` is chosen more than once")]
    Twice {
        /// `observation` or `reward`.
        kind: &'static str,
        /// The chosen name.
        name: String,
    },
}

impl Classified for SpaceChoiceError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        (ErrorKind::Usage, matches!(self, Self::OfMachine(_)).then_some(Remedy::Measure))
    }
}

/// Returns the identity of a lake that records the environment of `spec` with one of its action
/// spaces.
///
/// # Errors
///
/// See [`SpaceChoiceError`].
pub fn identity(
    spec: &EnvironmentSpec,
    action_space: &ActionSpace,
    choice: &SpaceChoice<'_>,
) -> Result<Identity, SpaceChoiceError> {
    use ValueType::{Float, FloatVector, Int, IntVector};
    if let Some(problem) = declaration::problem(spec) {
        return Err(SpaceChoiceError::Declaration(problem));
    }
    let is_chosen = |space: &&ObservationSpace| {
        let numbers = [Int, Float, IntVector, FloatVector];
        let is_usual = !space.on_request && numbers.contains(&space.value_type);
        !space.of_benchmark && (is_usual || choice.observations.is_some())
    };
    let recorded = |space: &ObservationSpace| RecordedObservation {
        name: space.name.to_string(),
        value_type: space.value_type,
        features: space.features.iter().map(ToString::to_string).collect(),
    };
    let observations = spec.observation_spaces.iter().filter(is_chosen).map(recorded).collect();
    let reward = |space: &RewardSpace| RecordedReward {
        name: space.name.to_string(),
        cost: space.cost.to_string(),
    };
    let usual = |space: &&RewardSpace| choice.rewards.is_some() || !spec.is_on_request(space);
    let rewards = spec.reward_spaces.iter().filter(usual).map(reward).collect();
    let rewards = chosen("reward", rewards, choice.rewards, |space| &space.name)?;
    Ok(Identity {
        format_version: FORMAT_VERSION,
        environment: spec.name.to_string(),
        compiler: spec.compiler.clone(),
        target: spec.target.clone(),
        action_space: action_space.clone(),
        observations: chosen("observation", observations, choice.observations, |one| &one.name)?,
        baselines: baselines(spec, &rewards),
        rewards,
        state_scheme: spec.state_scheme,
    })
}

/// Returns the baselines of a lake with these rewards: those that every program has, and those on
/// request that the rewards are scaled by.
pub fn baselines(spec: &EnvironmentSpec, rewards: &[RecordedReward]) -> Vec<String> {
    let is_scaled_by = |name: &str, space: &RewardSpace| {
        let scale = matches!(&space.scale, Scale::Baseline(scale) if scale == name);
        scale || *space.initial == *name
    };
    let recorded = |space: &&RewardSpace| rewards.iter().any(|own| own.name == space.name);
    let scaled: Vec<&RewardSpace> = spec.reward_spaces.iter().filter(recorded).collect();
    let of_benchmark = spec.observation_spaces.iter().filter(|space| {
        let is_wanted = || scaled.iter().any(|reward| is_scaled_by(&space.name, reward));
        space.of_benchmark && (!space.on_request || is_wanted())
    });
    of_benchmark.map(|space| space.name.to_string()).collect()
}

/// Returns the elements of `all` that `names` lists, in the order of `names`; all without `names`.
fn chosen<T: Clone>(
    kind: &'static str,
    all: Vec<T>,
    names: Option<&[String]>,
    name_of: fn(&T) -> &str,
) -> Result<Vec<T>, SpaceChoiceError> {
    let Some(names) = names else { return Ok(all) };
    if let Some((_, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name))
    {
        return Err(SpaceChoiceError::Twice { kind, name: name.clone() });
    }
    let find = |name: &String| {
        all.iter().find(|one| name_of(one) == name).cloned().ok_or_else(|| {
            if let ("observation", Some(space)) = (kind, MachineSpace::from_name(name)) {
                return SpaceChoiceError::OfMachine(space.name());
            }
            let known = all.iter().map(name_of).collect::<Vec<_>>().join(", ");
            SpaceChoiceError::Unknown { kind, name: name.clone(), known }
        })
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use steplake_env::Environment;
    use steplake_env::toy::ToyEnvironment;
    use steplake_llvm::LlvmEnvironment;

    fn toy(
        observations: Option<&[&str]>,
        rewards: Option<&[&str]>,
    ) -> Result<Identity, SpaceChoiceError> {
        let environment = ToyEnvironment::default();
        let spec = environment.spec();
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let (observations, rewards) = (observations.map(owned), rewards.map(owned));
        let choice =
            SpaceChoice { observations: observations.as_deref(), rewards: rewards.as_deref() };
        identity(spec, &spec.action_spaces[0], &choice)
    }

    fn names(identity: &Identity) -> Vec<&str> {
        identity.observations.iter().map(|space| space.name.as_str()).collect()
    }

    fn rewards(identity: &Identity) -> Vec<&str> {
        identity.rewards.iter().map(|space| space.name.as_str()).collect()
    }

    #[test]
    fn without_a_choice_all_numbers_are_recorded() {
        let all = toy(None, None).unwrap();
        assert_eq!(names(&all), ["Cost", "Bits"], "`Number` is bytes, the others are baselines");
        let [cost, bits] = &all.observations[..] else { panic!("two spaces") };
        assert_eq!((cost.value_type, cost.features.len()), (ValueType::Int, 0));
        assert_eq!((bits.value_type, bits.features.len()), (ValueType::IntVector, 16));
        assert_eq!(rewards(&all), ["Cost", "CostNorm", "CostOz"]);
        assert!(all.rewards.iter().all(|space| space.cost == "Cost"));
        assert_eq!(all.baselines, ["CostO0", "CostOz"]);
        assert_eq!((all.environment.as_str(), all.format_version), ("toy-v0", FORMAT_VERSION));
    }

    #[test]
    fn what_is_chosen_is_recorded_in_its_order() {
        let some = toy(Some(&["Bits"]), Some(&["CostOz", "Cost"])).unwrap();
        assert_eq!(names(&some), ["Bits"]);
        assert_eq!(rewards(&some), ["CostOz", "Cost"]);
        assert_eq!(some.baselines, ["CostO0", "CostOz"], "they belong to the benchmark");
        let none = toy(Some(&[]), Some(&[])).unwrap();
        assert!(none.observations.is_empty() && none.rewards.is_empty());
    }

    #[test]
    fn what_cannot_be_chosen_is_said() {
        for name in ["Costs", "CostO0"] {
            let error = toy(Some(&["Cost", name]), None).unwrap_err().to_string();
            let wanted = format!(
                "`{name}` is no observation space that can be recorded: Cost, Bits, Number are"
            );
            assert_eq!(error, wanted);
        }
        let error = toy(Some(&["Runtime"]), None).unwrap_err();
        assert!(error.to_string().contains("`Runtime` belongs to the machine"), "{error}");
        assert_eq!(error.remedy(), Some(Remedy::Measure));
        let error = toy(None, Some(&["Bits"])).unwrap_err().to_string();
        let wanted = "`Bits` is no reward space that can be recorded: Cost, CostNorm, CostOz are";
        assert_eq!(error, wanted);
        let error = toy(Some(&["Cost", "Bits", "Cost"]), None).unwrap_err().to_string();
        assert_eq!(error, "the observation space `Cost` is chosen more than once");
    }

    #[test]
    fn the_action_space_is_the_one_that_is_given() {
        let environment = LlvmEnvironment::new();
        let spec = environment.spec();
        let last = spec.action_spaces.last().unwrap();
        let identity = identity(spec, last, &SpaceChoice::default()).unwrap();
        assert_eq!(&identity.action_space, last);
        assert_eq!(names(&identity), ["InstCount", "Autophase", "IrInstructionCount"]);
        assert!(identity.compiler.starts_with("LLVM 22.") && identity.target == spec.target);
    }
}
