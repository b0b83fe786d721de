//! The environment: its actions and spaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::programs::{PROGRAMS, benchmark};
use super::session::ToySession;
use super::{NAME, UNSURE};
use crate::{Environment, EnvironmentOpening, ListedEnvironment, Session, SessionError};
use steplake_model::{
    ActionFlags, ActionSpace, ActionSpec, EnvironmentSpec, ObservationIndex, ObservationSpace,
    RewardSpace, Scale, ValueType,
};
use steplake_programs::datasets::{Dataset, Seeds};

pub(super) const COST: ObservationIndex = ObservationIndex(0);
pub(super) const BITS: ObservationIndex = ObservationIndex(1);
pub(super) const NUMBER: ObservationIndex = ObservationIndex(2);

/// The names of the vector observation `Bits`.
const BIT_NAMES: [&str; 16] = [
    "bit0", "bit1", "bit2", "bit3", "bit4", "bit5", "bit6", "bit7", "bit8", "bit9", "bit10",
    "bit11", "bit12", "bit13", "bit14", "bit15",
];

/// The action `invert` fails in states whose number modulo [`FRAGILE_MODULUS`] is this.
pub(super) const FRAGILE: u32 = 250;
pub(super) const FRAGILE_MODULUS: u32 = 251;

type ToyAction = (&'static str, fn(u32, u32) -> u32);

/// The actions: functions of a number and the size above it. The last one fails in fragile states.
pub(super) const ACTIONS: [ToyAction; 8] = [
    ("increment", |n, size| (n + 1) % size),
    ("double", |n, size| n.wrapping_mul(2) % size),
    ("halve", |n, _| n / 2),
    ("align", |n, _| n & !3),
    ("clear-lowest-bit", |n, _| n & n.saturating_sub(1)),
    ("triple", |n, size| (n.wrapping_mul(3) + 1) % size),
    ("scatter", |n, size| n.wrapping_mul(0x9e37_79b1).rotate_left(7) % size),
    ("invert", |n, size| size - 1 - n),
];

/// The environments by their names.
pub const ENTRIES: &[ListedEnvironment] = &[
    ListedEnvironment {
        name: NAME,
        opening: EnvironmentOpening::OfOne(|| Box::new(ToyEnvironment::default())),
        is_listed: true,
    },
    ListedEnvironment {
        name: UNSURE,
        opening: EnvironmentOpening::OfOne(|| Box::new(ToyEnvironment::unsure())),
        is_listed: false,
    },
];

/// The environment.
#[derive(Debug)]
pub struct ToyEnvironment {
    spec: Arc<EnvironmentSpec>,
}

impl Default for ToyEnvironment {
    fn default() -> Self {
        Self::called(NAME)
    }
}

impl ToyEnvironment {
    /// Creates a variant in which the result of `scatter` depends on the process, as its flags say.
    /// It is for tests.
    #[doc(hidden)]
    pub fn unsure() -> Self {
        Self::called(UNSURE)
    }

    fn called(environment: &'static str) -> Self {
        let action = |&(name, _): &ToyAction| {
            let flags = ActionFlags {
                crashes: name == "invert",
                replayable: environment == NAME || name != "scatter",
                ..ActionFlags::UNREMARKABLE
            };
            ActionSpec::new(name, name, flags)
        };
        let reward = |name: &'static str, scale| {
            let (cost, initial) = ("Cost".into(), "CostO0".into());
            RewardSpace { name: name.into(), cost, initial, scale }
        };
        Self {
            spec: Arc::new(EnvironmentSpec {
                name: environment.into(),
                compiler: "toy 1".into(),
                target: "any".into(),
                action_spaces: vec![ActionSpace {
                    name: NAME.into(),
                    actions: ACTIONS.iter().map(action).collect(),
                }],
                observation_spaces: vec![
                    ObservationSpace::int("Cost"),
                    ObservationSpace::int_vector("Bits", &BIT_NAMES),
                    ObservationSpace::new("Number", ValueType::Bytes),
                    ObservationSpace::int("CostO0").of_benchmark(),
                    ObservationSpace::int("CostOz").of_benchmark(),
                ],
                reward_spaces: vec![
                    reward("Cost", Scale::Absolute),
                    reward("CostNorm", Scale::Initial),
                    reward("CostOz", Scale::Baseline("CostOz".into())),
                ],
                baselines: "toy 1".into(),
                state_space: "Number".into(),
                action_costs: BTreeMap::new(),
                state_scheme: 1,
            }),
        }
    }
}

impl Environment for ToyEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(ToySession::new(Arc::clone(&self.spec))))
    }

    /// The unsure one differs between processes.
    fn may_live_here(&self) -> bool {
        self.spec.name == NAME
    }

    fn own_datasets(&self) -> Vec<Box<dyn Dataset>> {
        vec![Box::new(Seeds { about: &PROGRAMS, last: u32::MAX, make: benchmark })]
    }
}
