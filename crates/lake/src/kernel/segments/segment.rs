//! Segments: immutable Parquet files, each named by its table and the digest of its content.

use std::ops::Deref;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::deletions::DeletionVector;
use crate::kernel::files::digest::BlockDigests;
use crate::kernel::files::disk::Disk;
use crate::kernel::handle::Lake;
use crate::kernel::ids::LayerId;
use crate::kernel::schema::table::Table;

/// A Parquet file of the lake, as the manifest lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// What the list of files says of it.
    pub row: FileRow,
    /// Its path, valid as long as a snapshot has it.
    pub path: PathBuf,
    /// The digests of the blocks of its content.
    pub(crate) blocks: BlockDigests,
    /// The disk that it lies on.
    pub(crate) disk: Disk,
}

/// A segment has the fields of its row.
impl Deref for Segment {
    type Target = FileRow;

    fn deref(&self) -> &FileRow {
        &self.row
    }
}

impl Segment {
    /// The name of the file in the folder of its table.
    pub(crate) fn name(&self) -> &str {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.expect("the lake names its files in ASCII")
    }
}

/// A row of a list of files of a lake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Of a derived table: the rows that newer layers have instead. None for a recorded table, and
    /// for a layer from before there were such vectors: its (state, action)s may be in others too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<DeletionVector>,
}

impl FileRow {
    /// The segment in this file, whose blocks have these digests.
    pub(crate) fn segment(&self, lake: &Lake, blocks: BlockDigests) -> Segment {
        let path = lake.table_folder(self.table).join(self.name());
        Segment { row: self.clone(), path, blocks, disk: lake.disk.clone() }
    }

    /// The rows that its table does not have.
    pub fn deleted(&self) -> &DeletionVector {
        static NONE: DeletionVector = DeletionVector::NONE;
        self.deletions.as_ref().unwrap_or(&NONE)
    }

    /// Names the rows that its table has of it: the digest of the file, with the deleted rows if
    /// there are any.
    pub fn rows_name(&self) -> String {
        format!("{}{}", self.digest, self.deleted().to_text().0)
    }

    /// The number of rows that its table has: those that are not deleted.
    pub fn live_rows(&self) -> u64 {
        self.rows.saturating_sub(self.deleted().len())
    }

    /// The name of the file in the folder of its table.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}.parquet", self.table, &self.digest[..16])
    }

    /// Whether the values are possible: a digest has 64 lower-case hexadecimal digits, exactly
    /// derived tables have layers, and only they lose rows, which they have.
    pub fn is_well_formed(&self) -> bool {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let digest = self.digest.len() == 64 && self.digest.bytes().all(is_digit);
        let counts = [self.rows, self.bytes].iter().all(|&count| i64::try_from(count).is_ok());
        let layer = self.layer.is_some();
        digest
            && counts
            && self.table.is_derived() == layer
            && (layer || self.deletions.is_none())
            && self.deleted().fits(self.rows)
    }
}

/// Whether steplake gives such a name to files of `table`.
pub(crate) fn is_own_name(table: Table, name: &str) -> bool {
    let is_digest =
        |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    middle(table, name, ".parquet").is_some_and(is_digest) || is_temporary(table, name)
}

/// Whether steplake gives such a name to unfinished files of `table`.
pub(crate) fn is_temporary(table: Table, name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix('.').and_then(|name| middle(table, name, ".tmp")).is_some_and(is_number)
}

/// The part of a name between the table and `end`.
fn middle<'a>(table: Table, name: &'a str, end: &str) -> Option<&'a str> {
    name.strip_prefix(table.name())?.strip_prefix('-')?.strip_suffix(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_file_with_other_deleted_rows_has_another_name() {
        let with = |deletions| FileRow {
            table: Table::Conflicts,
            rows: 3,
            bytes: 1,
            digest: "0123456789abcdef".repeat(4),
            key_range: None,
            layer: Some(LayerId(1)),
            is_counted: false,
            deletions,
        };
        let none = with(Some(DeletionVector::NONE));
        assert_eq!(none.rows_name(), none.digest);
        let deleted = |row| with(Some(DeletionVector::NONE.with(&[row].into_iter().collect())));
        let names = [none, deleted(0), deleted(1)].map(|row| row.rows_name());
        assert!(names[0] != names[1] && names[1] != names[2], "{names:?}");
    }

    #[test]
    fn only_our_own_names_are_ours() {
        for name in ["steps-0123456789abcdef.parquet", ".steps-0.tmp", ".steps-12.tmp"] {
            assert!(is_own_name(Table::Steps, name), "{name}");
            assert!(!is_own_name(Table::Ir, name), "{name}");
        }
        for name in [
            "steps.parquet",
            "steps-copy.parquet",
            "steps-0123456789abcdef.parquet.bak",
            ".steps-.tmp",
            "notes",
        ] {
            assert!(!is_own_name(Table::Steps, name), "{name}");
        }
    }
}
