//! Specifications of environments: the compiler and the spaces.

use std::collections::BTreeMap;

use super::{ActionSpace, Baselines, Name, ObservationIndex, ObservationSpace, RewardSpace, Scale};

/// The observation spaces of object files that can be linked.
const OBJECT_SPACES: [&str; 2] = ["Object", "obj"];

/// An environment's compiler and spaces. Two environments with equal specs give the same states for
/// the same actions. A lake holds the data of one spec and one of its action spaces.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentSpec {
    /// The name with its version, e.g. `llvm-v0`.
    pub name: Name,
    /// The compiler and its exact build, e.g. `LLVM 22.1.8`.
    pub compiler: String,
    /// The target that it compiles for, e.g. `x86_64-pc-linux-gnu`.
    pub target: String,
    /// The action spaces; the first is the default.
    pub action_spaces: Vec<ActionSpace>,
    /// What actions cost, by their pipelines: their mean time in ns for each instruction of a
    /// program, or another number that grows with it. It is the same on every machine. Empty if it
    /// is not known.
    pub action_costs: BTreeMap<String, u32>,
    /// The observation spaces.
    pub observation_spaces: Vec<ObservationSpace>,
    /// The reward spaces. Each names its cost, which is an observation space of integers, or of
    /// floating-point numbers if the reward has no divisor.
    pub reward_spaces: Vec<RewardSpace>,
    /// How baselines are made: the compiler's own pipelines, and a number that changes with
    /// everything else that baselines depend on. Equal programs have equal baselines if this field,
    /// the compiler and the target are equal.
    pub baselines: Name,
    /// The observation space, of bytes, that serialises a state. Equal states give equal bytes. The
    /// bytes are also a program of the environment, so any state can be a benchmark.
    pub state_space: Name,
    /// The version of the way in which states get their ids: what is hashed of a state, in what
    /// form, and how. Ids of different schemes cannot be compared. The first is 1.
    pub state_scheme: u32,
}

impl EnvironmentSpec {
    /// Returns the action space called `name`.
    pub fn action_space(&self, name: &str) -> Option<&ActionSpace> {
        self.action_spaces.iter().find(|space| space.name == name)
    }

    /// Returns the place of the observation space called `name`.
    pub fn observation_index(&self, name: &str) -> Option<ObservationIndex> {
        let index = self.observation_spaces.iter().position(|space| space.name == name)?;
        u8::try_from(index).ok().map(ObservationIndex)
    }

    /// Returns the place of the space of object files that can be linked, if the environment makes
    /// such: LLVM's `Object`, or `obj` of `gcc-v0`.
    pub fn object_index(&self) -> Option<ObservationIndex> {
        OBJECT_SPACES.iter().find_map(|name| self.observation_index(name))
    }

    /// Returns the place of [`EnvironmentSpec::state_space`].
    pub fn state_index(&self) -> ObservationIndex {
        self.observation_index(&self.state_space).expect("a spec lists its own state space")
    }

    /// Whether the cost of a reward space is observed
    /// [on request](ObservationSpace::on_request), and the rewards so are computed only where they
    /// are wanted.
    pub fn is_on_request(&self, space: &RewardSpace) -> bool {
        let cost = self.observation_index(&space.cost);
        cost.and_then(|cost| self.observation_space(cost)).is_some_and(|cost| cost.on_request)
    }

    /// Whether the observation space called `name` shows what the compiler makes of a state: see
    /// [`ObservationSpace::is_compiled`].
    pub fn is_compiled(&self, name: &str) -> bool {
        let space = self.observation_index(name);
        space.and_then(|space| self.observation_space(space)).is_some_and(|space| space.is_compiled)
    }

    /// Returns the baseline of a cost by which programs are compared: that of the last reward which
    /// is scaled by one. For LLVM this is what `-Oz` leaves.
    pub fn usual_baseline(&self, cost: &str) -> Option<&str> {
        let mut rewards = self.reward_spaces.iter().rev().filter(|space| space.cost == cost);
        rewards.find_map(|space| match &space.scale {
            Scale::Baseline(name) => Some(name.as_ref()),
            Scale::Absolute | Scale::Initial => None,
        })
    }

    /// Returns baselines of 0, for a session whose rewards nobody looks at: to measure them would
    /// run the compiler's own pipelines.
    pub fn zero_baselines(&self) -> Baselines {
        let of_benchmark = self.observation_spaces.iter().filter(|space| space.of_benchmark);
        Baselines(of_benchmark.map(|space| (space.name.to_string(), 0)).collect())
    }

    /// Returns the observation space at `index`.
    pub fn observation_space(&self, index: ObservationIndex) -> Option<&ObservationSpace> {
        self.observation_spaces.get(usize::from(index.0))
    }
}
