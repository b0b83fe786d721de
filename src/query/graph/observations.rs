//! The numbers of one observation space for each node.

use std::sync::Arc;

use crate::lake::state_index::Node;

/// The sealed numbers, which engines share, and those that only this snapshot has.
#[derive(Debug, Clone, Default)]
pub(super) struct Observations {
    sealed: Arc<Vec<Option<i64>>>,
    /// Sorted by node.
    more: Vec<(Node, i64)>,
}

impl Observations {
    pub(super) fn new(sealed: Arc<Vec<Option<i64>>>, mut more: Vec<(Node, i64)>) -> Self {
        more.sort_unstable();
        more.dedup_by_key(|&mut (node, _)| node);
        Self { sealed, more }
    }

    pub(super) fn of(&self, node: Node) -> Option<i64> {
        self.sealed.get(node as usize).copied().flatten().or_else(|| {
            let at = self.more.binary_search_by_key(&node, |&(node, _)| node).ok()?;
            Some(self.more[at].1)
        })
    }
}

#[cfg(test)]
impl From<Vec<Option<i64>>> for Observations {
    fn from(values: Vec<Option<i64>>) -> Self {
        Self { sealed: Arc::new(values), more: Vec::new() }
    }
}
