//! What a specification must be, so that a lake can hold what its environment does.

use std::collections::HashSet;

use steplake_lake::Table;
use steplake_model::{
    ActionSpace, EnvironmentSpec, Name, ObservationIndex, ObservationSpace, RewardSpace, Scale,
    ValueType,
};

/// The most observation spaces: an [`ObservationIndex`] has 8 bits.
const OBSERVATIONS_MAX: usize = 1 << u8::BITS;

/// Returns what is wrong with a specification, in one sentence.
pub(super) fn problem(spec: &EnvironmentSpec) -> Option<String> {
    check(spec).err()
}

fn check(spec: &EnvironmentSpec) -> Result<(), String> {
    let name = &spec.name;
    let version = name.rsplit_once("-v").map_or("", |(_, version)| version);
    if !is_word(name, "-_.") || version.is_empty() || !version.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!(
            "an environment cannot be called `{name}`: a name has letters, digits, `-`, `_` and \
             `.`, and ends with a version, as in `stack-v0`"
        ));
    }
    if spec.compiler.is_empty() {
        return Err(format!("{name} does not say which compiler it has, with its exact build"));
    }
    let spaces = spec.action_spaces.iter().map(|space| space.name.as_str());
    different("action space", spaces.collect())?;
    spec.action_spaces.iter().try_for_each(actions)?;
    observations(spec)?;
    let rewards = spec.reward_spaces.iter().map(|space| space.name.as_ref());
    different("reward space", rewards.collect())?;
    spec.reward_spaces.iter().try_for_each(|space| reward(spec, space))
}

/// Returns whether a text begins with a letter and has only letters, digits and `more`.
fn is_word(text: &str, more: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|one| one.is_ascii_alphanumeric() || more.contains(one))
}

/// Refuses two names that differ at most in the case of letters, which many tools do not tell
/// apart.
fn different(what: &str, names: Vec<&str>) -> Result<(), String> {
    let mut known = HashSet::new();
    match names.into_iter().find(|name| !known.insert(name.to_lowercase())) {
        Some(name) => Err(format!("there are two {what}s called `{name}`")),
        None => Ok(()),
    }
}

/// Actions are listed with blanks between them.
fn actions(space: &ActionSpace) -> Result<(), String> {
    if space.name.is_empty() || space.name.contains(char::is_control) {
        return Err(format!("an action space cannot be called {:?}", space.name));
    }
    if space.actions.is_empty() {
        return Err(format!("the action space `{}` has no actions", space.name));
    }
    let mut known = HashSet::new();
    for action in &space.actions {
        let name = action.name.as_str();
        if name.is_empty() || name.contains(|one: char| one.is_whitespace() || one.is_control()) {
            return Err(format!(
                "an action of `{}` cannot be called {name:?}: its name is a word without blanks",
                space.name
            ));
        }
        if !known.insert(name) {
            return Err(format!("`{}` has two actions called `{name}`", space.name));
        }
    }
    Ok(())
}

fn observations(spec: &EnvironmentSpec) -> Result<(), String> {
    let spaces = &spec.observation_spaces;
    if spaces.len() > OBSERVATIONS_MAX {
        let count = spaces.len();
        return Err(format!(
            "{} has {count} observation spaces, and {OBSERVATIONS_MAX} are the most: make vectors \
             of them",
            spec.name
        ));
    }
    different("observation space", spaces.iter().map(|space| space.name.as_ref()).collect())?;
    spaces.iter().try_for_each(observation)?;
    let state =
        spec.observation_index(&spec.state_space).map(|ObservationIndex(at)| usize::from(at));
    if state.is_none_or(|at| spaces[at].value_type != ValueType::Bytes) {
        return Err(format!(
            "`{}` serialises the states, and is no observation space of bytes",
            spec.state_space
        ));
    }
    Ok(())
}

fn observation(space: &ObservationSpace) -> Result<(), String> {
    let name = &space.name;
    // Tools that do not tell cases apart must not take it for a column that every lake has.
    let is_taken = Table::Observations.key().iter().any(|key| name.eq_ignore_ascii_case(key));
    if !is_word(name, "_") || is_taken {
        return Err(unfit("an observation space", name));
    }
    let is_vector = matches!(space.value_type, ValueType::IntVector | ValueType::FloatVector);
    if !is_vector && !space.features.is_empty() {
        return Err(format!("`{name}` is no vector, and has features"));
    }
    if space.of_benchmark && space.value_type != ValueType::Int {
        return Err(format!("`{name}` belongs to the benchmark, and such costs are integers"));
    }
    let mut known = HashSet::new();
    let twice = |feature: &&Name| feature.is_empty() || !known.insert(feature.to_lowercase());
    match space.features.iter().find(twice) {
        Some(feature) if feature.is_empty() => Err(format!("`{name}` has a feature without name")),
        Some(feature) => Err(format!("`{name}` has two features called `{feature}`")),
        None => Ok(()),
    }
}

/// The name becomes a part of the name of a column.
fn unfit(what: &str, name: &str) -> String {
    format!(
        "{what} cannot be called `{name}`: a name begins with a letter, has letters, digits and \
         `_`, and is not that of a column that every lake has"
    )
}

fn reward(spec: &EnvironmentSpec, space: &RewardSpace) -> Result<(), String> {
    let RewardSpace { name, cost, initial, scale } = space;
    if !is_word(name, "_") {
        return Err(unfit("a reward space", name));
    }
    let find = |name: &str| spec.observation_spaces.iter().find(|space| space.name == name);
    let cost_type = find(cost).filter(|space| !space.of_benchmark).map(|space| space.value_type);
    match (cost_type, scale) {
        (Some(ValueType::Int), _) | (Some(ValueType::Float), Scale::Absolute) => {}
        (Some(ValueType::Float), _) => {
            return Err(format!(
                "the reward space `{name}` divides a cost that is a floating-point number, \
                 `{cost}`: only integers can be divided by a baseline"
            ));
        }
        _ => {
            return Err(format!(
                "the cost of the reward space `{name}` is `{cost}`, which is no observation space \
                 of single numbers"
            ));
        }
    }
    let baselines = match scale {
        Scale::Absolute => vec![],
        Scale::Initial => vec![initial],
        Scale::Baseline(baseline) => vec![initial, baseline],
    };
    match baselines.into_iter().find(|name| find(name).is_none_or(|space| !space.of_benchmark)) {
        Some(baseline) => Err(format!(
            "the reward space `{name}` needs the baseline `{baseline}`, which is no observation \
             space of the benchmark"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steplake_env::Environment;
    use steplake_env::toy::ToyEnvironment;
    use steplake_llvm::LlvmEnvironment;
    use steplake_loops::LoopsEnvironment;

    fn changed(change: impl FnOnce(&mut EnvironmentSpec)) -> String {
        let mut spec = ToyEnvironment::default().spec().clone();
        change(&mut spec);
        problem(&spec).expect("it is refused")
    }

    #[test]
    fn the_environments_are_as_they_must_be() {
        assert_eq!(problem(ToyEnvironment::default().spec()), None);
        assert_eq!(problem(LlvmEnvironment::new().spec()), None);
        assert_eq!(problem(LoopsEnvironment::default().spec()), None);
    }

    #[test]
    fn what_a_lake_cannot_hold_is_refused() {
        for (change, said) in [
            ((|spec| spec.name = "toy".into()) as fn(&mut EnvironmentSpec), "ends with a version"),
            (|spec| spec.name = "t y-v0".into(), "cannot be called `t y-v0`"),
            (|spec| spec.compiler.clear(), "which compiler"),
            (|spec| spec.action_spaces.push(spec.action_spaces[0].clone()), "two action spaces"),
            (|spec| spec.action_spaces[0].actions.clear(), "has no actions"),
            (|spec| spec.action_spaces[0].actions[1].name = "a b".into(), "without blanks"),
            (|spec| spec.action_spaces[0].actions[1].name = "halve".into(), "called `halve`"),
            (|spec| spec.observation_spaces[0].name = "State_Id".into(), "every lake has"),
            (|spec| spec.observation_spaces[1].name = "cost".into(), "called `cost`"),
            (|spec| spec.observation_spaces[1].name = "B\"its".into(), "digits and `_`"),
            (|spec| spec.observation_spaces[1].features = ["a", "A"].map(Name::from).into(), "two"),
            (|spec| spec.state_space = "Bits".into(), "no observation space of bytes"),
            (|spec| spec.observation_spaces[3].value_type = ValueType::Float, "are integers"),
            (|spec| spec.reward_spaces[1].name = "Cost".into(), "two reward spaces"),
            (|spec| spec.reward_spaces[0].cost = "Bits".into(), "of single numbers"),
            (|spec| spec.reward_spaces[0].cost = "CostOz".into(), "of single numbers"),
            (|spec| spec.reward_spaces[1].initial = "Cost".into(), "the baseline `Cost`"),
            (|spec| spec.observation_spaces[0].value_type = ValueType::Float, "only integers"),
        ] {
            let problem = changed(change);
            assert!(problem.contains(said), "{problem}");
        }
    }

    #[test]
    fn a_float_may_be_the_cost_of_a_reward_without_a_divisor() {
        let mut spec = ToyEnvironment::default().spec().clone();
        spec.observation_spaces[0].value_type = ValueType::Float;
        spec.reward_spaces.truncate(1);
        assert_eq!(problem(&spec), None);
    }
}
