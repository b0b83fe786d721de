//! A node of a session's tree.

use steplake::model::{ActionIndex, ActionSpace, StateId};

use super::shown::{NamedAction, NodeFailure, ShownNode};

/// A state that was reached, or a failure.
#[derive(Debug, Clone)]
pub(super) struct TreeNode {
    pub(super) parent: Option<usize>,
    pub(super) action: Option<ActionIndex>,
    /// None after a failure.
    pub(super) state: Option<StateId>,
    pub(super) is_changed: bool,
    pub(super) reward: Option<f64>,
    pub(super) cumulative: f64,
    pub(super) cost: Option<f64>,
    pub(super) failure: Option<NodeFailure>,
    pub(super) depth: usize,
    pub(super) children: Vec<usize>,
}

impl TreeNode {
    /// Returns a node without anything.
    pub(super) fn new() -> Self {
        Self {
            parent: None,
            action: None,
            state: None,
            is_changed: false,
            reward: None,
            cumulative: 0.0,
            cost: None,
            failure: None,
            depth: 0,
            children: Vec::new(),
        }
    }

    /// Shows the node, which has this number. Its action is one of `space`.
    pub(super) fn show(&self, number: usize, space: Option<&ActionSpace>) -> ShownNode {
        let action = self.action.map(|index| {
            let name = space.and_then(|space| space.get(index)).map(|action| action.name.clone());
            NamedAction { index: index.0, name: name.unwrap_or_default() }
        });
        ShownNode {
            id: number,
            parent: self.parent,
            action,
            state_id: self.state.map(|state| state.to_string()),
            is_changed: self.is_changed,
            reward: self.reward,
            cumulative_reward: Some(self.cumulative),
            cost: self.cost,
            failure: self.failure.clone(),
            depth: self.depth,
        }
    }
}
