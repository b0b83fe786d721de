//! Walks along recorded steps in a live session, as long as each leads to the recorded state.

use steplake_env::{Destination, Expected, Route, Session, SessionError, Strayed};
use steplake_lake::Identity;
use steplake_model::{ActionIndex, Outcome, StateId};

/// Where a walk left the recorded path.
#[derive(Debug, Clone)]
pub(super) struct Divergence {
    /// The point of divergence, in words: an action, or the start itself.
    pub(super) action: String,
    /// The result there, in words: a state, or how the compiler failed.
    pub(super) found: String,
    /// Whether the compiler failed.
    pub(super) is_failure: bool,
}

impl Divergence {
    fn of(action: String, found: &Destination) -> Self {
        let is_failure = matches!(found, Destination::Failure(_));
        Self { action, found: found.to_string(), is_failure }
    }

    /// Compares the state in which an episode begins with the one that was recorded.
    pub(super) fn of_start(started: &Outcome, expected: StateId) -> Option<Self> {
        let strayed = Strayed::at_start(Destination::of(started), expected).err()?;
        Some(Self::of("its own start".to_owned(), &strayed.found))
    }

    /// Where the way back of a session led whose worker was lost.
    pub(super) fn of_way_back(error: SessionError) -> Result<Self, SessionError> {
        match error {
            SessionError::Unrepeatable { found, is_failure } => {
                Ok(Self { action: "a second try of the path".to_owned(), found, is_failure })
            }
            other => Err(other),
        }
    }
}

/// Takes recorded steps. Returns where one led elsewhere, if one did: the session is then in that
/// state or a later one, or cannot be brought back to where it was.
pub(super) fn walk(
    session: &mut dyn Session,
    lake: &Identity,
    steps: &[(ActionIndex, StateId)],
) -> Result<Option<Divergence>, SessionError> {
    let (actions, states): (Vec<_>, Vec<_>) = steps.iter().copied().unzip();
    let route = Route { actions: &actions, expected: Expected::Each(&states) };
    let walked = match route.bring(session, |_, _| {}) {
        Ok(walked) => walked,
        Err(error) => return Divergence::of_way_back(error).map(Some),
    };
    Ok(walked.err().map(|Strayed { at, found }| {
        let action = actions[at - 1];
        let name = match lake.action_space.get(action) {
            _ if found == Destination::End => "a step before the last one".to_owned(),
            Some(spec) => format!("`{}`", spec.name),
            None => format!("`action {}`", action.0),
        };
        Divergence::of(name, &found)
    }))
}
