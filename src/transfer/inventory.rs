//! What a lake holds, as a list: what is published of it, and what a copy of it is made from.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::fetched;
use crate::lake::sqlite::Catalog;
use crate::lake::{
    Identity, Lake, LakeError, LayerId, LossRow, RetractionRow, RunRow, Segment, Snapshot,
    SnapshotId, Table, manifest,
};

/// What a lake holds in one snapshot: its files by their digests, and what the catalog says beside
/// them. These and the files are the lake: [`Fetching`](super::Fetching) makes one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// A file of an [`Inventory`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow {
    /// The table that it holds rows of.
    pub table: Table,
    /// Its rows.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3 of its content, hex.
    pub digest: String,
    /// The least and the greatest value of the leading key column, where that is a number.
    pub key_range: Option<(i64, i64)>,
    /// Of a derived table: the layer that it belongs to.
    pub layer: Option<LayerId>,
    /// Of `steps`: whether the layers count its steps.
    pub is_counted: bool,
}

impl FileRow {
    fn of(segment: &Segment) -> Self {
        Self {
            table: segment.table,
            rows: segment.rows,
            bytes: segment.bytes,
            digest: segment.digest.clone(),
            key_range: segment.key_range,
            layer: segment.layer,
            is_counted: segment.is_counted,
        }
    }

    /// The name of the file in the folder of its table.
    pub(super) fn name(&self) -> String {
        format!("{}-{}.parquet", self.table, &self.digest[..16])
    }

    /// Where it lies in a lake.
    pub(super) fn path(&self, lake: &Path) -> PathBuf {
        lake.join(self.table.name()).join(self.name())
    }

    /// Says whether all of it can be: a digest is 64 hexadecimal digits, in lower case, and only
    /// derived tables have layers.
    pub fn is_well_formed(&self) -> bool {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let digest = self.digest.len() == 64 && self.digest.bytes().all(is_digit);
        let counts = [self.rows, self.bytes].iter().all(|&count| i64::try_from(count).is_ok());
        digest && counts && self.table.is_derived() == self.layer.is_some()
    }
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
            let begun = fetched::fetched_in(log)?.unwrap_or(SnapshotId(0));
            let before = manifest::retired_after(log, self, begun)?;
            Ok(now.into_iter().chain(before).map(|segment| segment.digest).collect())
        })
    }
}
