//! A session as the page sees it.

use std::sync::Arc;

use serde::Serialize;
use steplake::env::llvm;
use steplake::model::{ActionSpec, opt_command};

use super::costs::ShownBaselines;

/// An action with its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NamedAction {
    pub(crate) index: u32,
    pub(crate) name: String,
}

/// A node, as the page sees it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ShownNode {
    pub(super) id: usize,
    pub(super) parent: Option<usize>,
    pub(super) action: Option<NamedAction>,
    pub(super) state_id: Option<String>,
    pub(super) is_changed: bool,
    pub(super) reward: Option<f64>,
    pub(super) cumulative_reward: Option<f64>,
    pub(super) cost: Option<f64>,
    pub(super) failure: Option<NodeFailure>,
    pub(super) depth: usize,
}

/// A session, as the page sees it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ShownTree {
    pub(super) id: String,
    pub(super) benchmark: String,
    pub(super) action_space: String,
    pub(super) reward_space: String,
    pub(super) cost_name: String,
    pub(super) baselines: ShownBaselines,
    pub(super) nodes: Vec<ShownNode>,
}

/// The commands that lead to a node.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ShownCommand {
    /// The command with the actions that changed something.
    pub(super) opt: String,
    /// The command with all actions.
    pub(super) opt_all: String,
    pub(super) note: Option<&'static str>,
}

/// A vector of features in one state.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ShownFeatures {
    pub(crate) names: Vec<String>,
    pub(crate) values: Arc<[f64]>,
}

/// What `opt` does otherwise.
pub(super) const NOTE: &str = "input.bc is the program in its first state. Between two actions, steplake brings a program into a \
                    canonical form, which opt does not know: where a pass depends on the order of uses, the result of \
                    this command may differ slightly.";

/// How the compiler failed.
#[derive(Debug, Clone, Serialize)]
pub(super) struct NodeFailure {
    pub(super) kind: String,
    pub(super) detail: String,
}

/// Returns the command that takes actions: that of `opt` for LLVM, else their names.
pub(crate) fn command_of<'a>(
    environment: &str,
    actions: impl Iterator<Item = &'a ActionSpec>,
) -> String {
    if environment != llvm::NAME {
        return actions.map(|action| action.name.as_str()).collect::<Vec<_>>().join(" ");
    }
    let pipelines = actions.map(|action| action.pipeline.as_str());
    opt_command(pipelines.filter(|pipeline| !pipeline.is_empty()))
}
