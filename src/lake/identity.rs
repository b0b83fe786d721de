//! What a lake is a lake of: `lake.json`, written once.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ids::FORMAT_VERSION;
use crate::model::{ActionFlags, ActionSpace, ActionSpec};

/// What a lake is a lake of. Rows of another identity are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// How the lake is kept: [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The environment's name with its version.
    pub environment: String,
    /// The compiler and its exact build.
    pub compiler: String,
    /// The target that it compiles for.
    pub target: String,
    /// The actions.
    pub action_space: ActionSpace,
    /// The observation spaces that are recorded of each state.
    pub observations: Vec<RecordedObservation>,
    /// The reward spaces that are recorded of each step.
    pub rewards: Vec<String>,
    /// The costs that are kept of each program.
    pub baselines: Vec<String>,
}

/// An observation space that is recorded of each state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedObservation {
    /// The space's name.
    pub name: String,
    /// Numbers in the vector; none for a scalar.
    pub width: Option<u32>,
    /// The names of those numbers; empty for a scalar.
    pub features: Vec<String>,
}

/// Why a text is no [`Identity`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// It is not what is written there; one line says how that shows.
    #[error("{0}")]
    Damaged(String),
    /// It is of a lake that is kept otherwise.
    #[error("it is of format {found}, not {FORMAT_VERSION}")]
    Format {
        /// The lake's format version.
        found: u32,
    },
}

impl Serialize for Identity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        File::of(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Identity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        File::deserialize(deserializer).map(File::into_identity)
    }
}

impl Identity {
    /// BLAKE3 of what stands in `lake.json`, hex.
    pub fn digest(&self) -> String {
        blake3::hash(self.to_json().as_bytes()).to_hex().to_string()
    }

    /// Reads what stands in a `lake.json`.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn from_json(text: &str) -> Result<Self, IdentityError> {
        let damaged = |error: serde_json::Error| IdentityError::Damaged(error.to_string());
        let Version { format_version: found } = serde_json::from_str(text).map_err(damaged)?;
        if found != FORMAT_VERSION {
            return Err(IdentityError::Format { found });
        }
        serde_json::from_str::<File>(text).map(File::into_identity).map_err(damaged)
    }

    /// What differs first in another identity: its name, what it is here, and what it is there.
    pub fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let wanted = other;
        let spaces = |identity: &Self| {
            let shown = identity.observations.iter().map(|space| match space.width {
                None => space.name.clone(),
                Some(width) => format!("{}[{width}]", space.name),
            });
            listed(shown)
        };
        let features = |identity: &Self| digest_of(&identity.observations);
        // What a probe found out about an action may be learnt later; it changes no row.
        let actions = |identity: &Self| {
            let space = &identity.action_space;
            let meant = space.actions.iter().map(|action| (&action.name, &action.pipeline));
            format!("{} (digest {})", space.name, digest_of(&meant.collect::<Vec<_>>()))
        };
        let parts: [(&'static str, String, String); 9] = [
            ("environment", self.environment.clone(), wanted.environment.clone()),
            ("compiler", self.compiler.clone(), wanted.compiler.clone()),
            ("target", self.target.clone(), wanted.target.clone()),
            ("action space", self.action_space.name.clone(), wanted.action_space.name.clone()),
            ("action space", actions(self), actions(wanted)),
            ("observations", spaces(self), spaces(wanted)),
            ("feature names", features(self), features(wanted)),
            (
                "rewards",
                listed(self.rewards.iter().cloned()),
                listed(wanted.rewards.iter().cloned()),
            ),
            (
                "baselines",
                listed(self.baselines.iter().cloned()),
                listed(wanted.baselines.iter().cloned()),
            ),
        ];
        parts.into_iter().find(|(_, lake, wanted)| lake != wanted)
    }

    /// What stands in `lake.json`.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(&File::of(self)).expect("strings and numbers serialise");
        text.push('\n');
        text
    }
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let names = names.collect::<Vec<_>>();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn digest_of(value: &impl Serialize) -> String {
    let json = serde_json::to_vec(value).expect("strings and numbers serialise");
    blake3::hash(&json).to_hex()[..16].to_owned()
}

/// The part of `lake.json` that every format has.
#[derive(Deserialize)]
struct Version {
    format_version: u32,
}

/// `lake.json` as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format_version: u32,
    environment: String,
    compiler: String,
    target: String,
    observations: Vec<RecordedObservation>,
    rewards: Vec<String>,
    baselines: Vec<String>,
    action_space: FileActionSpace,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileActionSpace {
    name: String,
    actions: Vec<FileAction>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of an action, one key each")]
struct FileAction {
    name: String,
    pipeline: String,
    replayable: bool,
    crashes: bool,
    slow: bool,
    never_changes: bool,
}

impl File {
    fn of(identity: &Identity) -> Self {
        let action = |action: &ActionSpec| FileAction {
            name: action.name.clone(),
            pipeline: action.pipeline.clone(),
            replayable: action.flags.replayable,
            crashes: action.flags.crashes,
            slow: action.flags.slow,
            never_changes: action.flags.never_changes,
        };
        Self {
            format_version: identity.format_version,
            environment: identity.environment.clone(),
            compiler: identity.compiler.clone(),
            target: identity.target.clone(),
            observations: identity.observations.clone(),
            rewards: identity.rewards.clone(),
            baselines: identity.baselines.clone(),
            action_space: FileActionSpace {
                name: identity.action_space.name.clone(),
                actions: identity.action_space.actions.iter().map(action).collect(),
            },
        }
    }

    fn into_identity(self) -> Identity {
        let action = |action: FileAction| ActionSpec {
            name: action.name,
            pipeline: action.pipeline,
            flags: ActionFlags {
                replayable: action.replayable,
                crashes: action.crashes,
                slow: action.slow,
                never_changes: action.never_changes,
            },
        };
        Identity {
            format_version: self.format_version,
            environment: self.environment,
            compiler: self.compiler,
            target: self.target,
            action_space: ActionSpace {
                name: self.action_space.name,
                actions: self.action_space.actions.into_iter().map(action).collect(),
            },
            observations: self.observations,
            rewards: self.rewards,
            baselines: self.baselines,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small identity that has a column of every kind.
    pub(crate) fn identity() -> Identity {
        let action = |name: &str| ActionSpec {
            name: name.into(),
            pipeline: name.into(),
            flags: ActionFlags::UNREMARKABLE,
        };
        let space = |name: &str, features: &[&str]| RecordedObservation {
            name: name.into(),
            width: (!features.is_empty()).then(|| u32::try_from(features.len()).unwrap()),
            features: features.iter().map(|&name| name.into()).collect(),
        };
        Identity {
            format_version: FORMAT_VERSION,
            environment: "toy-v0".into(),
            compiler: "toy 1".into(),
            target: "none".into(),
            action_space: ActionSpace {
                name: "toy-v0".into(),
                actions: vec![action("a"), action("b")],
            },
            observations: vec![space("Size", &[]), space("Counts", &["x", "y", "z"])],
            rewards: vec!["Cost".into(), "CostNorm".into()],
            baselines: vec!["CostO0".into()],
        }
    }
}
