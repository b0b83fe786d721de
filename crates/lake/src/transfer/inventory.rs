//! The list of what a lake holds. It is published, and copies are made from it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::kernel::versions::manifest;
use crate::kernel::versions::sqlite::Catalog;
use crate::kernel::{
    FileRow, Identity, Lake, LakeError, LossRow, RetractionRow, RunRow, Snapshot, SnapshotId, Table,
};

/// What a lake holds in one snapshot: its files by their digests, and the other lists of the
/// catalog. A [`ReplicaWriter`](super::ReplicaWriter) makes a lake from these and the files.
///
/// Its JSON is part of the format of published lakes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// The identity of the lake.
    pub identity: Identity,
    /// The number of the snapshot.
    pub snapshot: SnapshotId,
    /// The runs at the time when the list was made.
    pub runs: Vec<RunRow>,
    /// What was retracted up to this snapshot.
    pub retractions: Vec<RetractionRow>,
    /// What repairs had dropped up to this snapshot.
    pub losses: Vec<LossRow>,
    /// How the derived tables were made; `None` if there are none.
    pub dedup_inputs: Option<String>,
    /// The files, in the order in which the lake got them.
    pub files: Vec<FileRow>,
}

impl Snapshot {
    /// Lists the sealed rows of this snapshot. For a list that leaves the lake, take the snapshot
    /// with [`Lake::sealed_part`].
    pub fn inventory(&self) -> Inventory {
        let files = Table::ALL.into_iter().flat_map(|table| self.segments(table));
        Inventory {
            identity: self.identity().clone(),
            snapshot: self.id(),
            runs: self.runs().to_vec(),
            retractions: self.retractions().to_vec(),
            losses: self.losses().to_vec(),
            dedup_inputs: self.dedup_inputs().map(str::to_owned),
            files: files.map(|segment| segment.row.clone()).collect(),
        }
    }
}

impl Lake {
    /// Returns the digests of the files of all snapshots that have not expired: what the lake
    /// holds, and what it held before a retraction, a repair or a merge of layers. In a fetched
    /// lake, files of snapshots before the fetch do not count: the copy of an older version is not
    /// known to contain the newer version that was in the folder before.
    ///
    /// # Errors
    ///
    /// Returns an error if the catalog cannot be read.
    pub fn known_files(&self) -> Result<BTreeSet<String>, LakeError> {
        let catalog = Catalog::open_for_reading(self)?;
        catalog.reading(|log| {
            let now = manifest::segments(log, self, SnapshotId::NEWEST)?;
            let begun = manifest::fetched(log)?.map_or(SnapshotId(0), |fetched| fetched.snapshot);
            let before = manifest::retired_after(log, self, begun)?;
            Ok(now.into_iter().chain(before).map(|segment| segment.row.digest).collect())
        })
    }
}
