//! The spaces of an environment without a compiler: those of the live one that a lake can answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::replay::stored_state::ReplayError;
use steplake_lake::{FORMAT_VERSION, Identity, RecordedObservation, RecordedReward};
use steplake_model::{
    Baselines, EnvironmentSpec, Name, ObservationIndex, ObservationSpace, RewardSpace, Scale,
    ValueType,
};

/// The name of environments without a compiler.
pub const NAME: &str = "replay-v0";

/// Where the values of an observation space come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpaceSource {
    /// A column of `observations`, by its place.
    Column(usize),
    /// The benchmark.
    Baseline,
    /// The stored IR.
    Ir,
    /// A live session alone.
    Live,
}

/// Where the rewards of a space come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RewardSource {
    /// The column of `observations` with its costs, by its place.
    pub(super) cost: Option<usize>,
    /// The recorded column of rewards, by its place.
    pub(super) recorded: Option<usize>,
}

/// The spaces of a session, and where their values come from.
pub(super) struct CachedSpaces {
    /// The lake's action space alone, and the spaces that can be answered.
    pub(super) spec: EnvironmentSpec,
    /// The live environment.
    pub(super) live: Arc<EnvironmentSpec>,
    /// For each observation space, its source and its place in the live environment.
    pub(super) observations: Vec<(SpaceSource, ObservationIndex)>,
    /// For each reward space, its source and its place in the live environment.
    pub(super) rewards: Vec<(RewardSource, usize)>,
}

impl CachedSpaces {
    /// Restricts the spaces of the live environment to those of a lake. `has_compiler` says that
    /// live sessions will answer what the lake does not: then all observation spaces stay, with
    /// their numbers, and the compiler has to be that of the lake.
    ///
    /// # Errors
    ///
    /// [`ReplayError::OtherSpaces`] if the lake cannot have been recorded with `live`.
    pub(super) fn new(
        live: &EnvironmentSpec,
        lake: &Identity,
        has_compiler: bool,
    ) -> Result<Self, ReplayError> {
        demand_meaning(live, lake, has_compiler)?;
        let mut spec = EnvironmentSpec {
            name: NAME.into(),
            compiler: lake.compiler.clone(),
            target: lake.target.clone(),
            action_spaces: vec![lake.action_space.clone()],
            action_costs: BTreeMap::new(),
            state_scheme: lake.state_scheme,
            ..live.clone()
        };
        // The flags of the live environment may be newer, and it may have more actions.
        if let Some(space) = live.action_space(&lake.action_space.name) {
            let actions = &mut spec.action_spaces[0].actions;
            let common = actions.len().min(space.actions.len());
            actions.splice(..common, space.actions.iter().cloned());
        }
        let source = |space: &ObservationSpace| source(space, live, lake, has_compiler);
        let places = (0..).map(ObservationIndex).zip(&live.observation_spaces);
        // What a lake has is at hand, so nothing is on request.
        let own =
            |space: &ObservationSpace| ObservationSpace { on_request: false, ..space.clone() };
        let kept = places.filter_map(|(at, space)| Some((own(space), (source(space)?, at))));
        let observations;
        (spec.observation_spaces, observations) = kept.unzip();
        let source = |space: &RewardSpace| reward_source(space, lake);
        let places = live.reward_spaces.iter().enumerate();
        let kept = places.filter_map(|(at, space)| Some((space.clone(), (source(space)?, at))));
        let rewards;
        (spec.reward_spaces, rewards) = kept.unzip();
        Ok(Self { spec, live: Arc::new(live.clone()), observations, rewards })
    }

    /// Returns the name of an observation space of these.
    pub(super) fn name(&self, index: ObservationIndex) -> Option<&str> {
        self.spec.observation_space(index).map(|space| &*space.name)
    }
}

/// Describes an environment that is not here, as far as its lake does, for sessions without a
/// compiler. Their rewards are the recorded ones: a lake does not tell to which scale they are.
pub fn recorded_spec(lake: &Identity) -> EnvironmentSpec {
    let observations = lake.observations.iter().map(|space| ObservationSpace {
        features: space.features.iter().cloned().map(Name::from).collect(),
        ..ObservationSpace::new(space.name.clone(), space.value_type)
    });
    let has_state = lake.observations.iter().any(|space| space.name == STATE_SPACE);
    let state = (!has_state).then(|| ObservationSpace::new(STATE_SPACE, ValueType::Bytes));
    let rewards = lake.rewards.iter().map(|space| RewardSpace {
        name: space.name.clone().into(),
        cost: space.cost.clone().into(),
        // No lake has a baseline without a name, so nothing is computed from costs.
        initial: Name::default(),
        scale: Scale::Initial,
    });
    EnvironmentSpec {
        name: lake.environment.clone().into(),
        compiler: lake.compiler.clone(),
        target: lake.target.clone(),
        action_spaces: vec![lake.action_space.clone()],
        observation_spaces: observations.chain(state).collect(),
        reward_spaces: rewards.collect(),
        baselines: Name::default(),
        state_space: STATE_SPACE.into(),
        action_costs: BTreeMap::new(),
        state_scheme: lake.state_scheme,
    }
}

/// The name that serialised states have where a lake does not tell it.
const STATE_SPACE: &str = "State";

/// Demands that names mean the same in the lake and in the live environment, as a run that records
/// into the lake does. Without a compiler, the lake's need not be here.
fn demand_meaning(
    live: &EnvironmentSpec,
    lake: &Identity,
    has_compiler: bool,
) -> Result<(), ReplayError> {
    let other = |what: &str, lake: &str, here: &str| ReplayError::OtherSpaces {
        what: what.to_owned(),
        lake: lake.to_owned(),
        here: here.to_owned(),
    };
    let name = &lake.action_space.name;
    let Some(action_space) = live.action_space(name) else {
        let known: Vec<&str> = live.action_spaces.iter().map(|space| space.name.as_str()).collect();
        return Err(other("action space", name, &known.join(", ")));
    };
    let of_compiler = if has_compiler {
        (live.compiler.clone(), live.target.clone(), live.state_scheme)
    } else {
        (lake.compiler.clone(), lake.target.clone(), lake.state_scheme)
    };
    let observation = |space: &ObservationSpace| RecordedObservation {
        name: space.name.to_string(),
        value_type: space.value_type,
        features: space.features.iter().map(ToString::to_string).collect(),
    };
    let reward = |space: &RewardSpace| RecordedReward::new(&space.name, &space.cost);
    let here = Identity {
        format_version: FORMAT_VERSION,
        environment: live.name.to_string(),
        compiler: of_compiler.0,
        target: of_compiler.1,
        action_space: action_space.clone(),
        observations: live.observation_spaces.iter().map(observation).collect(),
        rewards: live.reward_spaces.iter().map(reward).collect(),
        baselines: Vec::new(),
        state_scheme: of_compiler.2,
    };
    match lake.difference(&here) {
        None => Ok(()),
        Some((what, lake, here)) => Err(other(&what, &lake, &here)),
    }
}

/// The place of the column called `name` in `observations`.
fn column(lake: &Identity, name: &str) -> Option<usize> {
    lake.observations.iter().position(|recorded| recorded.name == name)
}

fn source(
    space: &ObservationSpace,
    live: &EnvironmentSpec,
    lake: &Identity,
    has_compiler: bool,
) -> Option<SpaceSource> {
    let name = &*space.name;
    if let Some(place) = column(lake, name) {
        return Some(SpaceSource::Column(place));
    }
    match name {
        _ if space.of_benchmark && lake.baselines.iter().any(|known| known == name) => {
            Some(SpaceSource::Baseline)
        }
        _ if name == live.state_space => Some(SpaceSource::Ir),
        _ => has_compiler.then_some(SpaceSource::Live),
    }
}

/// Where rewards come from; none if from nowhere.
fn reward_source(space: &RewardSpace, lake: &Identity) -> Option<RewardSource> {
    let recorded = lake.rewards.iter().position(|recorded| recorded.name == space.name);
    // The values do not matter here, only which baselines there are.
    let baselines = Baselines(lake.baselines.iter().map(|name| (name.clone(), 1)).collect());
    let cost = column(lake, &space.cost).filter(|_| space.divisor(&baselines).is_ok());
    (recorded.is_some() || cost.is_some()).then_some(RewardSource { cost, recorded })
}
