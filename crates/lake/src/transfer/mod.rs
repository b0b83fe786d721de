//! Lakes made from other lakes, and from logs of other programs.
//!
//! [`merge`] makes one new lake of several, a [`ConvertedLake`] takes the place of one with ids of
//! an older scheme, and [`import`] fills one from CompilerGym's logs. An [`Inventory`] lists what a
//! lake holds, and a [`ReplicaWriter`] makes a copy of a lake from such a list and the files.

mod convert;
mod folder;
pub mod import;
mod inventory;
pub mod merge;
mod origin;
mod replica;

pub use convert::ConvertedLake;
pub use inventory::Inventory;
pub use replica::{IncomingFile, ReplicaWriter};
