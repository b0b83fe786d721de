//! Lakes made from other lakes.
//!
//! [`merge`] makes one new lake of several. An [`Inventory`] lists what a lake holds, and a
//! [`ReplicaWriter`] makes a copy of a lake from such a list and the files.

mod folder;
mod inventory;
pub mod merge;
mod origin;
mod replica;

pub use inventory::Inventory;
pub use replica::{IncomingFile, ReplicaWriter};
