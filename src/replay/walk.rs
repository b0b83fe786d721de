//! Walks along recorded steps in a live session, as long as each leads to the recorded state.

use std::ops::ControlFlow;

use crate::env::{Session, SessionError};
use crate::lake::Identity;
use crate::model::{ActionIndex, Outcome, StateId};

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
    /// Compares the outcome of `action` with the state that was recorded.
    pub(super) fn of(
        outcome: &Outcome,
        expected: StateId,
        action: impl FnOnce() -> String,
    ) -> Option<Self> {
        let (found, is_failure) = match outcome {
            Outcome::State { id, .. } if *id == expected => return None,
            Outcome::State { id, .. } => (format!("state {id}"), false),
            Outcome::Crashed(failure) => {
                (format!("a failure ({}: {})", failure.kind, failure.detail), true)
            }
        };
        Some(Self { action: action(), found, is_failure })
    }

    /// Compares the state in which an episode begins with the one that was recorded.
    pub(super) fn of_start(started: &Outcome, expected: StateId) -> Option<Self> {
        Self::of(started, expected, || "its own start".to_owned())
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
    let actions: Vec<ActionIndex> = steps.iter().map(|&(action, _)| action).collect();
    let (mut ahead, mut divergence) = (steps.iter(), None);
    let walked = session.multistep(&actions, &mut |step, _| {
        let Some(&(action, expected)) = ahead.next() else { return Ok(ControlFlow::Break(())) };
        divergence = Divergence::of(&step.outcome, expected, || {
            let spec = lake.action_space.actions.get(action.place());
            let name =
                spec.map_or_else(|| format!("action {}", action.0), |spec| spec.name.clone());
            format!("`{name}`")
        });
        let flow =
            if divergence.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        Ok(flow)
    });
    if let Err(error) = walked {
        return Divergence::of_way_back(error).map(Some);
    }
    if divergence.is_none() && ahead.next().is_some() {
        let action = "a step before the last one".to_owned();
        let found = "the end of the episode".to_owned();
        divergence = Some(Divergence { action, found, is_failure: false });
    }
    Ok(divergence)
}
