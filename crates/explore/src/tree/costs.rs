//! The spaces of a session: what its states cost, and their features.

use std::sync::Arc;

use serde::Serialize;
use steplake::env::{Session, SessionError};
use steplake::model::{
    Baselines, EnvironmentSpec, Failure, ObservationIndex, RewardSpace, Scale, Value, ValueType,
};

use crate::answers::Problem;

/// What a program costs untouched, and after the compiler's own pipelines.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ShownBaselines {
    pub(super) o0: Option<f64>,
    pub(super) o3: Option<f64>,
    pub(super) oz: Option<f64>,
}

/// Returns the reward space of a name.
pub(super) fn reward_of(spec: &EnvironmentSpec, name: &str) -> Result<RewardSpace, Problem> {
    let found = spec.reward_spaces.iter().find(|space| space.name == name);
    found.cloned().ok_or_else(|| {
        let known: Vec<&str> = spec.reward_spaces.iter().map(|space| space.name.as_ref()).collect();
        Problem::wrong(format!("there is no reward space `{name}`: take {}", known.join(", ")))
    })
}

/// Returns what the present state costs. The inner error says how the compiler failed on the action
/// that led there: on a cost that
/// [is what it makes of the state](steplake::model::ObservationSpace::is_compiled).
pub(super) fn cost_of(
    session: &mut dyn Session,
    spec: &EnvironmentSpec,
    cost: ObservationIndex,
) -> Result<Result<Option<f64>, Failure>, SessionError> {
    let is_compiled = spec.observation_space(cost).is_some_and(|space| space.is_compiled);
    match session.observe(cost) {
        Ok(value) => Ok(Ok(number(&value))),
        Err(SessionError::Unobservable(failure)) if is_compiled => Ok(Err(failure)),
        Err(error) => Err(error),
    }
}

/// Adds the baselines that are shown or that the reward needs, and that a start does not measure:
/// they take longer than most steps. One on which the compiler fails is left out.
pub(super) fn complete(
    baselines: &mut Baselines,
    spec: &EnvironmentSpec,
    reward: &RewardSpace,
    session: &mut dyn Session,
) -> Result<(), SessionError> {
    let needed = match &reward.scale {
        Scale::Baseline(name) => Some(name.to_string()),
        Scale::Absolute | Scale::Initial => None,
    };
    for name in baseline_names(spec, reward).into_iter().flatten().chain(needed) {
        let space = spec.observation_index(&name);
        let Some(space) = space.filter(|_| baselines.get(&name).is_none()) else { continue };
        match session.observe(space) {
            Ok(Value::Int(cost)) => baselines.0.push((name, cost)),
            Ok(_) | Err(SessionError::Unobservable(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The names of the baselines of a reward's cost: untouched, after `-O3` and after `-Oz`.
fn baseline_names(spec: &EnvironmentSpec, reward: &RewardSpace) -> [Option<String>; 3] {
    let of_cost = || spec.reward_spaces.iter().filter(|space| space.cost == reward.cost);
    let after = |end: &str| {
        of_cost().find_map(|space| match &space.scale {
            Scale::Baseline(name) if name.ends_with(end) => Some(name.to_string()),
            _ => None,
        })
    };
    let untouched = of_cost().find(|space| space.scale != Scale::Absolute);
    [untouched.map(|space| space.initial.to_string()), after("O3"), after("Oz")]
}

pub(super) fn shown_baselines(
    baselines: &Baselines,
    spec: &EnvironmentSpec,
    reward: &RewardSpace,
) -> ShownBaselines {
    let names = baseline_names(spec, reward);
    let [o0, o3, oz] =
        names.map(|name| baselines.get(&name?).map(|cost| number(&Value::Int(cost))));
    ShownBaselines { o0: o0.flatten(), o3: o3.flatten(), oz: oz.flatten() }
}

/// Returns a single number.
#[expect(clippy::cast_precision_loss, reason = "counts of instructions and bytes stay below 2^53")]
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

/// Returns a vector of numbers; empty for other values.
pub(super) fn vector(value: &Value) -> Arc<[f64]> {
    match value {
        Value::IntVector(numbers) => numbers.iter().map(|&number| f64::from(number)).collect(),
        Value::FloatVector(numbers) => numbers.iter().copied().collect(),
        _ => Arc::new([]),
    }
}

/// Returns the spaces of vectors whose numbers have names, with the names. Those that take long are
/// left out.
pub(crate) fn feature_spaces(
    spec: &EnvironmentSpec,
) -> Vec<(ObservationIndex, String, Vec<String>)> {
    let spaces = (0..).map(ObservationIndex).zip(&spec.observation_spaces);
    let spaces = spaces.filter(|(_, space)| {
        let is_vector = matches!(space.value_type, ValueType::IntVector | ValueType::FloatVector);
        is_vector && !space.features.is_empty() && !space.on_request
    });
    spaces
        .map(|(index, space)| {
            let names = space.features.iter().map(ToString::to_string).collect();
            (index, space.name.to_string(), names)
        })
        .collect()
}
