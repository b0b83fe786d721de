//! What a lake consists of: the manifest and its catalog, the edits that change them, and the log
//! of snapshots.

pub(crate) mod catalog;
pub(crate) mod contents;
pub(crate) mod edit;
pub(crate) mod losses;
pub(crate) mod manifest;
pub(crate) mod recovery;
pub(crate) mod retractions;
pub(crate) mod snapshot_log;
pub(crate) mod sqlite;
