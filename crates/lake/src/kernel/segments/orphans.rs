//! Files that no snapshot has: leftovers of crashes, and files of expired snapshots.

use std::collections::HashSet;
use std::path::PathBuf;

use super::segment::{is_own_name, is_temporary};
use crate::kernel::error::LakeError;
use crate::kernel::files::disk::entries;
use crate::kernel::handle::Lake;
use crate::kernel::schema::table::Table;

/// Files that were removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Their number.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Removes the files of these tables, except those in `keep`. Only files with names that steplake
/// gives are removed.
pub(crate) fn remove_unlisted(
    lake: &Lake,
    tables: impl Iterator<Item = Table>,
    keep: &HashSet<PathBuf>,
) -> Result<Removed, LakeError> {
    remove(lake, tables, &|table, name, path| is_own_name(table, name) && !keep.contains(path))
}

/// Removes unfinished files of these tables, which a crash left. The caller has the right to write
/// these tables.
pub(crate) fn remove_temporary(
    lake: &Lake,
    tables: impl Iterator<Item = Table>,
) -> Result<Removed, LakeError> {
    remove(lake, tables, &|table, name, _| is_temporary(table, name))
}

fn remove(
    lake: &Lake,
    tables: impl Iterator<Item = Table>,
    goes: &dyn Fn(Table, &str, &PathBuf) -> bool,
) -> Result<Removed, LakeError> {
    let mut removed = Removed::default();
    for table in tables {
        for entry in entries(&lake.table_folder(table))? {
            let (path, name) = (entry.path(), entry.file_name());
            if name.to_str().is_some_and(|name| goes(table, name, &path)) {
                let bytes = entry.metadata().map_or(0, |file| file.len());
                lake.disk.remove(&path)?;
                removed.files += 1;
                removed.bytes += bytes;
            }
        }
    }
    Ok(removed)
}
