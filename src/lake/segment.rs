//! Segments: immutable Parquet files, each named by its table and the digest of its content.

use std::path::PathBuf;

use super::digest::BlockDigests;
use super::disk::Disk;
use super::ids::LayerId;
use super::table::Table;

/// A Parquet file of the lake, as the manifest lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The table that it holds rows of.
    pub table: Table,
    /// Where it lies while the newest snapshot has it: the file's name for good. A retired one lies
    /// at [`retired_place`](super::retired_place) of this, see [`place`](Self::place).
    pub path: PathBuf,
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
    /// Of `steps`: whether the layers of the same snapshot count its steps.
    pub is_counted: bool,
    /// The digests of the blocks of its content.
    pub(crate) blocks: BlockDigests,
    /// The disk that it lies on.
    pub(crate) disk: Disk,
}

/// Says whether `name` is one that this module gives to the files of `table`.
pub(crate) fn is_own_name(table: Table, name: &str) -> bool {
    let of_table = |name: &str, end: &str| {
        let rest = name.strip_prefix(table.name())?.strip_prefix('-')?;
        rest.strip_suffix(end).map(str::to_owned)
    };
    let hex = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let finished = of_table(name, ".parquet").is_some_and(|text| hex(&text));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let temporary = name.strip_prefix('.').and_then(|name| of_table(name, ".tmp"));
    finished || temporary.is_some_and(|text| number(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

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
