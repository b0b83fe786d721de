//! The identity of a lake: the content of `lake.json`.

use serde::{Deserialize, Serialize};

use super::ids::{FORMAT_VERSION, FORMAT_VERSION_OLDEST};
use steplake_model::{ActionFlags, ActionSpace, ActionSpec, Value, ValueType, plain_problem};

/// A number that goes into [`Identity::digest`]. It never changes: it is the format in which the
/// digest came.
const DIGEST_VERSION: u32 = 4;

/// What a lake holds: its environment, compiler, actions and recorded spaces.
///
/// The environment, the compiler, the target and the name of the action space are fixed: a lake
/// refuses rows of others. Actions and spaces can be appended: see [`grown`](Self::grown). Rows
/// that are older than a space have null in its columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "IdentityFile", into = "IdentityFile")]
pub struct Identity {
    /// The format of the lake: [`FORMAT_VERSION`], or an older one that is read.
    pub format_version: u32,
    /// The environment's name with its version.
    pub environment: String,
    /// The compiler and its exact build.
    pub compiler: String,
    /// The target that it compiles for.
    pub target: String,
    /// The actions.
    pub action_space: ActionSpace,
    /// The observation spaces that are recorded for each state.
    pub observations: Vec<RecordedObservation>,
    /// The reward spaces that are recorded for each step.
    pub rewards: Vec<RecordedReward>,
    /// The baselines that are recorded for each program.
    pub baselines: Vec<String>,
    /// The [scheme](steplake_model::EnvironmentSpec::state_scheme) of the ids of states.
    pub state_scheme: u32,
}

/// What differs between identities whose states have ids of other schemes: see
/// [`Identity::difference`].
pub const STATE_SCHEME: &str = "scheme of state ids";

/// An observation space that is recorded for each state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedObservation {
    /// The space's name.
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type")]
    pub value_type: ValueType,
    /// The names of the numbers of a vector. Empty if they have no names.
    pub features: Vec<String>,
}

/// A reward space that is recorded for each step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedReward {
    /// The space's name.
    pub name: String,
    /// The observation space whose reduction it rewards.
    pub cost: String,
}

/// Why a text is not an [`Identity`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The text is damaged. The field says what shows it, in one line.
    #[error("{0}")]
    Damaged(String),
    /// The lake has another format.
    #[error("it is of format {found}, not {FORMAT_VERSION_OLDEST} to {FORMAT_VERSION}")]
    Format {
        /// The lake's format version.
        found: u32,
    },
}

impl Identity {
    /// Returns the names of the observation spaces of single numbers.
    pub fn number_spaces(&self) -> impl Iterator<Item = &str> {
        let is_number = |kind| matches!(kind, ValueType::Int | ValueType::Float);
        let spaces = self.observations.iter().filter(move |space| is_number(space.value_type));
        spaces.map(|space| space.name.as_str())
    }

    /// Returns the space of numbers that is the cost where nobody names another: that of the first
    /// reward if it is recorded, else the first one.
    pub fn usual_cost(&self) -> Option<&str> {
        let mut costs = self.rewards.iter().map(|reward| reward.cost.as_str());
        let recorded = |cost: &&str| self.number_spaces().any(|space| space == *cost);
        costs.find(recorded).or_else(|| self.number_spaces().next())
    }

    /// BLAKE3 of the fixed part, in hexadecimal digits. It stays when a lake of an older format
    /// becomes one of this format: the database and the log of snapshots hold it.
    pub fn digest(&self) -> String {
        let fixed = self.fixed().map(|(_, value)| value);
        match self.state_scheme {
            1 => digest_of(&(DIGEST_VERSION, fixed)),
            later => digest_of(&(DIGEST_VERSION, fixed, later)),
        }
    }

    /// The fixed fields except the format, with their names.
    fn fixed(&self) -> [(&'static str, &str); 4] {
        [
            ("environment", &self.environment),
            ("compiler", &self.compiler),
            ("target", &self.target),
            ("action space", &self.action_space.name),
        ]
    }

    /// Whether rows of both belong into one context: the environment, the compiler, the target and
    /// the name of the action space are the same.
    pub fn is_of_context(&self, other: &Self) -> bool {
        self.fixed() == other.fixed()
    }

    /// Parses a `lake.json`.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    pub fn from_json(text: &str) -> Result<Self, IdentityError> {
        let damaged =
            |error: serde_json::Error| IdentityError::Damaged(plain_problem(&error.to_string()));
        let FormatVersion { format_version: found } =
            serde_json::from_str(text).map_err(damaged)?;
        if !is_read(found) {
            return Err(IdentityError::Format { found });
        }
        let file = serde_json::from_str::<IdentityFile>(text).map_err(damaged)?;
        let (found, file) = (file.digest.clone(), file.with_digest());
        if file.digest != found {
            return Err(IdentityError::Damaged("its digest does not match".to_owned()));
        }
        Ok(file.into())
    }

    /// The first difference from another identity: its name, the value here, and the value there.
    /// None if one lake can hold the rows of both.
    pub fn difference(&self, other: &Self) -> Option<(String, String, String)> {
        let mut fixed = self.fixed().into_iter().zip(other.fixed());
        if let Some(((name, here), (_, there))) = fixed.find(|(here, there)| here != there) {
            return Some((name.into(), here.into(), there.into()));
        }
        if self.state_scheme != other.state_scheme {
            let [here, there] = [self, other].map(|lake| lake.state_scheme.to_string());
            return Some((STATE_SCHEME.into(), here, there));
        }
        let actions = self.action_space.actions.iter().zip(&other.action_space.actions);
        for (index, (here, there)) in actions.enumerate() {
            // The flags of an action may change: a probe may learn them later, and no row depends
            // on them.
            let meaning = |action: &ActionSpec| FileAction::of(action).meaning();
            if meaning(here) != meaning(there) {
                return Some((format!("action {index}"), meaning(here), meaning(there)));
            }
        }
        for here in &self.observations {
            let there = other.observations.iter().find(|there| there.name == here.name);
            if let Some(there) = there.filter(|there| *there != here) {
                let name = format!("observation space {}", here.name);
                return Some((name, here.meaning(), there.meaning()));
            }
        }
        for here in &self.rewards {
            let there = other.rewards.iter().find(|there| there.name == here.name);
            if let Some(there) = there.filter(|there| *there != here) {
                let name = format!("cost of the reward space {}", here.name);
                return Some((name, here.cost.clone(), there.cost.clone()));
            }
        }
        None
    }

    /// This identity with the actions and spaces appended that only `other` has, and with the newer
    /// of the two formats. None if that changes nothing. The two must have no
    /// [difference](Self::difference).
    pub fn grown(&self, other: &Self) -> Option<Self> {
        let mut grown = self.clone();
        grown.format_version = self.format_version.max(other.format_version);
        let actions = other.action_space.actions.iter().skip(self.action_space.actions.len());
        grown.action_space.actions.extend(actions.cloned());
        append(&mut grown.observations, &other.observations);
        append(&mut grown.rewards, &other.rewards);
        append(&mut grown.baselines, &other.baselines);
        (grown != *self).then_some(grown)
    }

    /// The content of `lake.json`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("strings and numbers serialise") + "\n"
    }
}

impl RecordedObservation {
    /// A space of integers.
    pub fn int(name: &str) -> Self {
        Self { name: name.into(), value_type: ValueType::Int, features: Vec::new() }
    }

    /// A space of vectors of integers with these names.
    pub fn int_vector(name: &str, features: &[&str]) -> Self {
        let features = features.iter().map(|&name| name.into()).collect();
        Self { name: name.into(), value_type: ValueType::IntVector, features }
    }

    /// The type and the features, in one line.
    fn meaning(&self) -> String {
        let value_type = serde_json::json!(self.value_type);
        let features = &digest_of(&self.features)[..16];
        let count = self.features.len();
        format!("{value_type} of {count} features (digest {features})")
    }
}

impl RecordedReward {
    /// A reward space of this name, for this cost.
    pub fn new(name: &str, cost: &str) -> Self {
        Self { name: name.into(), cost: cost.into() }
    }
}

/// Appends the items that the list lacks.
fn append<T: Clone + PartialEq>(list: &mut Vec<T>, more: &[T]) {
    for one in more {
        if !list.contains(one) {
            list.push(one.clone());
        }
    }
}

fn digest_of(value: &impl Serialize) -> String {
    let json = serde_json::to_vec(value).expect("strings and numbers serialise");
    blake3::hash(&json).to_hex().to_string()
}

/// Whether lakes of this format version are read.
pub fn is_read(format_version: u32) -> bool {
    (FORMAT_VERSION_OLDEST..=FORMAT_VERSION).contains(&format_version)
}

/// The part of `lake.json` that all formats have.
#[derive(Deserialize)]
struct FormatVersion {
    format_version: u32,
}

/// `lake.json` as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityFile {
    format_version: u32,
    environment: String,
    compiler: String,
    target: String,
    observations: Vec<RecordedObservation>,
    rewards: Vec<RecordedReward>,
    baselines: Vec<String>,
    /// Older files have no scheme, which was the first.
    #[serde(default = "first_scheme", skip_serializing_if = "is_first_scheme")]
    state_scheme: u32,
    action_space: FileActionSpace,
    /// BLAKE3 of the rest, in hexadecimal digits. Without it, a flipped bit could make another
    /// action or space.
    digest: String,
}

fn first_scheme() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first_scheme(scheme: &u32) -> bool {
    *scheme == first_scheme()
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
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    parameters: serde_json::Map<String, serde_json::Value>,
    replayable: bool,
    crashes: bool,
    slow: bool,
    never_changes: bool,
}

impl FileAction {
    fn of(action: &ActionSpec) -> Self {
        Self {
            name: action.name.clone(),
            pipeline: action.pipeline.clone(),
            parameters: parameters_json(&action.parameters),
            replayable: action.flags.replayable,
            crashes: action.flags.crashes,
            slow: action.flags.slow,
            never_changes: action.flags.never_changes,
        }
    }

    fn into_action(self) -> ActionSpec {
        let value = |value: serde_json::Value| match (value.as_i64(), value.as_f64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(float)) => Value::Float(float),
            (None, None) => Value::Text(value.as_str().unwrap_or_default().to_owned()),
        };
        let parameters = self.parameters.into_iter().map(|(name, given)| (name, value(given)));
        ActionSpec {
            name: self.name,
            pipeline: self.pipeline,
            parameters: parameters.collect(),
            flags: ActionFlags {
                replayable: self.replayable,
                crashes: self.crashes,
                slow: self.slow,
                never_changes: self.never_changes,
            },
        }
    }

    /// What the action does, in one line.
    fn meaning(&self) -> String {
        let Self { name, pipeline, .. } = self;
        let parameters = if self.parameters.is_empty() {
            String::new()
        } else {
            format!(" with {}", serde_json::Value::Object(self.parameters.clone()))
        };
        format!("`{name}` (`{pipeline}`{parameters})")
    }
}

/// The parameters of an action as a JSON object.
///
/// # Panics
///
/// If a parameter is not an integer, a float or a text.
pub(crate) fn parameters_json(
    parameters: &[(String, Value)],
) -> serde_json::Map<String, serde_json::Value> {
    let value = |value: &Value| match value {
        Value::Int(int) => serde_json::json!(int),
        Value::Float(float) => serde_json::json!(float),
        Value::Text(text) => serde_json::json!(text),
        other => panic!("a parameter of an action is a number or a text, not {other:?}"),
    };
    parameters.iter().map(|(name, given)| (name.clone(), value(given))).collect()
}

impl IdentityFile {
    fn with_digest(self) -> Self {
        let undigested = Self { digest: String::new(), ..self };
        Self { digest: digest_of(&undigested), ..undigested }
    }
}

impl From<Identity> for IdentityFile {
    fn from(identity: Identity) -> Self {
        let actions = identity.action_space.actions.iter().map(FileAction::of).collect();
        let file = Self {
            format_version: identity.format_version,
            environment: identity.environment,
            compiler: identity.compiler,
            target: identity.target,
            observations: identity.observations,
            rewards: identity.rewards,
            baselines: identity.baselines,
            state_scheme: identity.state_scheme,
            action_space: FileActionSpace { name: identity.action_space.name, actions },
            digest: String::new(),
        };
        file.with_digest()
    }
}

impl From<IdentityFile> for Identity {
    fn from(file: IdentityFile) -> Self {
        let actions = file.action_space.actions.into_iter().map(FileAction::into_action);
        Self {
            format_version: file.format_version,
            environment: file.environment,
            compiler: file.compiler,
            target: file.target,
            action_space: ActionSpace { name: file.action_space.name, actions: actions.collect() },
            observations: file.observations,
            rewards: file.rewards,
            baselines: file.baselines,
            state_scheme: file.state_scheme,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small identity that has a column of every kind.
    pub(crate) fn identity() -> Identity {
        let action = |name| ActionSpec::new(name, name, ActionFlags::UNREMARKABLE);
        Identity {
            format_version: FORMAT_VERSION,
            environment: "toy-v0".into(),
            compiler: "toy 1".into(),
            target: "none".into(),
            action_space: ActionSpace {
                name: "toy-v0".into(),
                actions: vec![action("a"), action("b")],
            },
            observations: vec![
                RecordedObservation::int("Size"),
                RecordedObservation::int_vector("Counts", &["x", "y", "z"]),
            ],
            rewards: ["Cost", "CostNorm"].map(|name| RecordedReward::new(name, "Size")).into(),
            baselines: vec!["CostO0".into()],
            state_scheme: 1,
        }
    }
}
