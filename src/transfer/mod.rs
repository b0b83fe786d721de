//! Lakes from other lakes.
//!
//! [`merge`] makes one new lake from several. [`Inventory`] lists what a lake holds, and
//! [`Fetching`] makes a copy of a lake from such a list and the files.

mod fetch;
mod fetched;
mod inventory;
pub mod merge;

pub use fetch::{FetchedFile, Fetching};
pub use inventory::Inventory;
