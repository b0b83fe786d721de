//! What tells the rows of one snapshot from those of another.

use crate::kernel::ids::SnapshotId;
use crate::kernel::schema::rows::RunRow;
use crate::kernel::snapshot::Snapshot;

/// What a snapshot holds, as far as a later one can be compared with it: who keeps an engine of the
/// lake as it is now learns from this whether to open another one.
#[derive(Debug, Clone)]
pub struct SnapshotContents {
    snapshot: SnapshotId,
    has_hot_rows: bool,
    runs: Vec<RunRow>,
}

impl SnapshotContents {
    /// Takes down what `snapshot` holds.
    pub fn of(snapshot: &Snapshot) -> Self {
        Self {
            snapshot: snapshot.id(),
            has_hot_rows: snapshot.has_hot_rows(),
            runs: snapshot.runs().to_vec(),
        }
    }

    /// The number of the sealed part.
    pub fn snapshot(&self) -> SnapshotId {
        self.snapshot
    }

    /// Returns whether `snapshot` certainly holds the same rows. Hot rows are not compared: with
    /// them it may hold others.
    pub fn are_those_of(&self, snapshot: &Snapshot) -> bool {
        let is_sealed = !self.has_hot_rows && !snapshot.has_hot_rows();
        is_sealed && self.snapshot == snapshot.id() && self.runs == snapshot.runs()
    }
}
