//! The numbers of formats, snapshots and layers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of the format of lakes.
pub const FORMAT_VERSION: u32 = 5;

/// The oldest version that is read. A lake of it becomes one of [`FORMAT_VERSION`] when it is
/// opened for writing. Format 5 is format 4 with two more tables, and a column that is null in
/// older rows.
pub const FORMAT_VERSION_OLDEST: u32 = 4;

/// The number of a snapshot. Later snapshots have greater numbers. A number is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SnapshotId(pub i64);

impl SnapshotId {
    /// Stands for the newest snapshot, whatever its number.
    pub(crate) const NEWEST: Self = Self(i64::MAX);
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a layer: the result of one dedup pass over some of the sealed steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerId(pub i64);
