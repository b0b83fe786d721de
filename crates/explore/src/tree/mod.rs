//! Live sessions as trees.

pub(super) mod costs;
mod living;
mod node;
pub(super) mod shown;

pub(super) use self::living::{ACTIONS_MAX, ROOT, Tree, TreeStart};
