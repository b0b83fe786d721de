//! What a lake holds, as a list: what is published of it, and what a copy of it is made from.

use std::collections::BTreeSet;

use crate::lake::sqlite::Catalog;
use crate::lake::{
    FileRow, Identity, Lake, LakeError, LossRow, RetractionRow, RunRow, Snapshot, SnapshotId,
    Table, manifest,
};

/// What a lake holds in one snapshot: its files by their digests, and what the catalog says beside
/// them. These and the files are the lake: [`Fetching`](super::Fetching) makes one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Inventory {
    /// What it is a lake of.
    pub identity: Identity,
    /// The number of the snapshot.
    pub snapshot: SnapshotId,
    /// The runs, as they were when the list was made.
    pub runs: Vec<RunRow>,
    /// What was taken back up to this snapshot.
    pub retractions: Vec<RetractionRow>,
    /// What repairs had to drop up to this snapshot.
    pub losses: Vec<LossRow>,
    /// How the derived tables were made; none where there are none.
    pub dedup_inputs: Option<String>,
    /// The files, in the order in which the lake got them.
    pub files: Vec<FileRow>,
}

impl Snapshot {
    /// What the snapshot holds of sealed rows, as a list.
    pub fn inventory(&self) -> Inventory {
        let files = Table::ALL.into_iter().flat_map(|table| self.segments(table));
        Inventory {
            identity: self.identity().clone(),
            snapshot: self.id(),
            runs: self.runs().to_vec(),
            retractions: self.retractions().to_vec(),
            losses: self.losses().to_vec(),
            dedup_inputs: self.dedup_inputs().map(str::to_owned),
            files: files.map(FileRow::of).collect(),
        }
    }
}

impl Lake {
    /// The digests of all files that some snapshot has which has not expired: what the lake holds,
    /// and what it held before it was retracted, repaired or put together anew. Where it was
    /// fetched, what it held before does not count: the copy of an older version knows nothing of
    /// the newer one that lay there.
    ///
    /// # Errors
    ///
    /// When the catalog cannot be read.
    pub fn known_files(&self) -> Result<BTreeSet<String>, LakeError> {
        let catalog = Catalog::open_for_reading(&self.path, &self.identity, &self.disk)?;
        catalog.reading(|log| {
            let now = manifest::segments(log, self, SnapshotId(i64::MAX))?;
            let begun = manifest::fetched(log)?.map_or(SnapshotId(0), |fetched| fetched.snapshot);
            let before = manifest::retired_after(log, self, begun)?;
            Ok(now.into_iter().chain(before).map(|segment| segment.digest).collect())
        })
    }
}
