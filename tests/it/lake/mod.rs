//! The lake: its contract, failing disks, maintenance, and what other tools read.

mod contract;
mod failing_disk;
mod faults;
mod formats;
mod full_disks;
mod growth;
mod log_entries;
mod merge;
mod other_readers;
mod repair;
mod restore;
pub(crate) mod retract;
mod snapshots;
mod verify_states;
