//! The observation and reward spaces.

use std::sync::Arc;

use super::options::{GccOptions, OptionFamily, OptionValues};
use super::{OBJECT_SIZE, TEXT_SIZE};
use steplake_model::{Name, ObservationSpace, RewardSpace, Scale, ValueType};

/// The observation space that serialises a state.
pub(super) const STATE_SPACE: &str = "state";

/// The name of the space of the size of the assembly.
const ASM_SIZE: &str = "asm_size";

/// The levels that baselines are measured at, where the compiler has them. The first one is the
/// initial cost.
const LEVELS: [&str; 6] = ["0", "1", "2", "3", "s", "z"];

/// A cost: the size of what the compiler makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SizeCost {
    Assembly,
    Object,
    /// Code and read-only data in the object.
    Text,
}

impl SizeCost {
    /// The name of its space.
    fn name(self) -> &'static str {
        match self {
            Self::Assembly => ASM_SIZE,
            Self::Object => OBJECT_SIZE,
            Self::Text => TEXT_SIZE,
        }
    }
}

/// What an observation space shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Observation {
    Source,
    Rtl,
    Assembly,
    AssemblyHash,
    ObjectHash,
    InstructionCounts,
    CommandLine,
    Size(SizeCost),
    Object,
    Choices,
    State,
    /// The cost of the program with this option alone.
    Baseline(SizeCost, String),
}

/// Returns what the observation spaces show, with the spaces, in order.
///
/// All but the state itself are on request: they ask the compiler, or follow from the state.
pub(super) fn observations(options: &GccOptions) -> Vec<(Observation, ObservationSpace)> {
    let text = |name: &'static str| ObservationSpace::new(name, ValueType::Text);
    let made = |name: &'static str, value_type| ObservationSpace::new(name, value_type).compiled();
    let [made_text, made_int] =
        [ValueType::Text, ValueType::Int].map(|of| move |name: &'static str| made(name, of));
    let features: Arc<[Name]> =
        options.list().iter().map(|option| option.label().into()).collect::<Vec<_>>().into();
    let choices =
        ObservationSpace { features, ..ObservationSpace::new("choices", ValueType::IntVector) };
    let mut spaces = vec![
        (Observation::Source, text("source")),
        (Observation::Rtl, made_text("rtl")),
        (Observation::Assembly, made_text("asm")),
        (Observation::AssemblyHash, made_text("asm_hash")),
        (Observation::ObjectHash, made_text("obj_hash")),
        (Observation::InstructionCounts, made_text("instruction_counts")),
        (Observation::CommandLine, text("command_line")),
        (Observation::Size(SizeCost::Assembly), made_int(ASM_SIZE)),
        (Observation::Size(SizeCost::Object), made_int(OBJECT_SIZE)),
        (Observation::Object, made("obj", ValueType::Bytes)),
        (Observation::Choices, choices),
    ];
    let baselines = |cost: SizeCost| {
        levels(options).into_iter().map(move |level| {
            let space = ObservationSpace::int(baseline(cost.name(), &level));
            (Observation::Baseline(cost, level), space.of_benchmark().compiled())
        })
    };
    spaces.extend(baselines(SizeCost::Assembly));
    spaces.extend(baselines(SizeCost::Object));
    spaces.push((Observation::State, ObservationSpace::new(STATE_SPACE, ValueType::Bytes)));
    // Clients know spaces by their places, so later ones come behind.
    spaces.push((Observation::Size(SizeCost::Text), made_int(TEXT_SIZE)));
    spaces.extend(baselines(SizeCost::Text));
    for (shown, space) in &mut spaces {
        if *shown != Observation::State {
            *space = space.clone().on_request();
        }
    }
    spaces
}

/// Returns the reward spaces: what a step saves of each cost and, for each level but the first,
/// the same relative to what the level saves. The first one is what a search is for, if nobody says
/// otherwise.
pub(super) fn rewards(options: &GccOptions) -> Vec<RewardSpace> {
    let mut rewards = Vec::new();
    for cost in [SizeCost::Text, SizeCost::Assembly, SizeCost::Object].map(SizeCost::name) {
        let initial: Name = baseline(cost, "-O0").into();
        let scales = levels(options).into_iter().skip(1).map(|level| baseline(cost, &level));
        let scaled = scales.map(|name| (Name::from(name.clone()), Scale::Baseline(name.into())));
        let plain = (Name::from(cost), Scale::Absolute);
        for (name, scale) in std::iter::once(plain).chain(scaled) {
            rewards.push(RewardSpace { name, cost: cost.into(), initial: initial.clone(), scale });
        }
    }
    rewards
}

/// The levels of the compiler that are baselines, as options.
fn levels(options: &GccOptions) -> Vec<String> {
    let words = options.list().iter().find_map(|option| match (&option.family, &option.values) {
        (OptionFamily::Level, OptionValues::Words(words)) => Some(words.as_slice()),
        _ => None,
    });
    let has = |level: &&str| words.unwrap_or_default().iter().any(|word| word == level);
    LEVELS.into_iter().filter(has).map(|level| format!("-O{level}")).collect()
}

/// Returns the name of a baseline: `obj_size_Os`.
fn baseline(cost: &str, level: &str) -> String {
    format!("{cost}_{}", level.trim_start_matches('-'))
}
