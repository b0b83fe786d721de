//! The identity of a lake that is to be recorded into.

use crate::assembly::command_error::CommandError;
use crate::assembly::environments::action_space;
use crate::lake::Identity;
use crate::model::EnvironmentSpec;
use crate::record::{self, Choice};

/// Returns the identity of the lake: that of the choices. `there` is the identity of an existing
/// lake, which grows to it; without a choice of an action space or of spaces, it keeps those that
/// it has. An existing lake of another environment gives no defaults, and is refused when it is
/// opened with this identity.
pub(super) fn identity(
    spec: &EnvironmentSpec,
    there: Option<&Identity>,
    wanted_space: Option<&str>,
    choice: &Choice<'_>,
) -> Result<Identity, CommandError> {
    let there = there.filter(|there| there.environment == spec.name);
    let wanted = wanted_space.or(there.map(|there| there.action_space.name.as_str()));
    let mut identity = record::identity(spec, &action_space(spec, wanted)?, choice)?;
    if let Some(there) = there {
        if choice.observations.is_none() {
            identity.observations.clone_from(&there.observations);
        }
        if choice.rewards.is_none() {
            identity.rewards.clone_from(&there.rewards);
        }
    }
    Ok(identity)
}
