//! The lake: its contract, failing disks, maintenance, fuzz targets, and what other tools read.

mod appended_spaces;
mod backfill;
mod compact;
mod contract;
mod convert;
mod failing_disk;
mod faults;
mod formats;
mod full_disks;
mod fuzz;
mod imports;
mod log_entries;
mod merge;
mod older_copies;
mod other_tools;
mod program_graphs;
mod ranges;
mod repair;
mod restore;
pub(crate) mod retract;
mod snapshots;
mod verify_states;
mod verify_ways_back;
