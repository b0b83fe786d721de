//! Where the files of segments lie, and which of them can go.
//!
//! A segment lies in the folder of its table while the newest snapshot has it, so that any reader
//! of `steps/*.parquet` sees the newest snapshot and nothing else. Once it is retired it lies in
//! `retired/<table>/`. It is moved there after the transaction that retires it; where a crash came
//! between, by the next one to maintain the lake. So a reader looks in both places.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::disk::{Disk, DiskReader};
use super::error::LakeError;
use super::segment::{Segment, is_own_name};
use super::table::Table;

/// The folder of retired files in the lake, with one folder a table.
pub(crate) const FOLDER: &str = "retired";

/// The other place of a segment's file, given its place in the folder of its table.
pub fn retired_place(path: &Path) -> PathBuf {
    let (folder, name) = (path.parent(), path.file_name());
    let table = folder.and_then(Path::file_name);
    let lake = folder.and_then(Path::parent).unwrap_or(Path::new(""));
    let mut place = lake.join(FOLDER);
    place.extend(table);
    place.extend(name);
    place
}

/// Opens the file of a segment, wherever it lies. It may be retired between two looks, and the same
/// content may come back, so the first place is looked at twice.
pub(crate) fn open(path: &Path, disk: &Disk) -> io::Result<DiskReader> {
    let mut last = disk.open(path);
    for place in [&retired_place(path), path] {
        match last {
            Err(error) if error.kind() == ErrorKind::NotFound => last = disk.open(place),
            other => return other,
        }
    }
    last
}

/// Moves the files of retired segments that still lie in the folders of their tables. Durable on
/// return. The caller maintains the lake, and has the right to write where `recorded`: a writer may
/// be about to list a file of the same content anew, so without that right only derived tables are
/// seen to.
pub(crate) fn settle(
    lake: &Path,
    disk: &Disk,
    retired: &[Segment],
    recorded: bool,
) -> Result<(), LakeError> {
    let own = retired.iter().filter(|segment| recorded || segment.table.is_derived());
    for segment in own.filter(|segment| segment.path.exists()) {
        disk.create_dir(&lake.join(FOLDER))?;
        disk.create_dir(&lake.join(FOLDER).join(segment.table.name()))?;
        disk.rename(&segment.path, &retired_place(&segment.path))?;
    }
    Ok(())
}

/// Moves files of the newest snapshot back that lie among the retired ones: a change that retired
/// them was lost after it had moved them.
pub(crate) fn bring_back(disk: &Disk, live: &HashSet<PathBuf>) -> Result<(), LakeError> {
    for path in live.iter().filter(|path| !path.exists()) {
        let place = retired_place(path);
        if place.exists() {
            disk.rename(&place, path)?;
        }
    }
    Ok(())
}

/// Files that were removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Removes what writing left in the folders of these tables and no snapshot has. Only files that
/// bear our names go.
pub(crate) fn remove_orphans(
    lake: &Path,
    disk: &Disk,
    tables: impl Iterator<Item = Table>,
    keep: &HashSet<PathBuf>,
) -> Result<Removed, LakeError> {
    let mut removed = Removed::default();
    for table in tables {
        remove_unlisted(disk, table, &lake.join(table.name()), keep, &mut removed)?;
    }
    Ok(removed)
}

/// Removes the retired files that no snapshot has, of those that are `listed`. The caller has seen
/// to it that nobody reads.
pub(crate) fn remove_expired(
    lake: &Path,
    disk: &Disk,
    retired: &[Segment],
    listed: &HashSet<PathBuf>,
) -> Result<Removed, LakeError> {
    let keep = retired.iter().map(|segment| &segment.path);
    // Whatever else is wrong, the only copy of a file of any snapshot stays.
    let keep = keep.chain(listed.iter().filter(|path| !path.exists()));
    let keep = keep.map(|path| retired_place(path)).collect();
    let mut removed = Removed::default();
    for table in Table::ALL {
        let folder = lake.join(FOLDER).join(table.name());
        remove_unlisted(disk, table, &folder, &keep, &mut removed)?;
    }
    Ok(removed)
}

fn remove_unlisted(
    disk: &Disk,
    table: Table,
    folder: &Path,
    keep: &HashSet<PathBuf>,
    removed: &mut Removed,
) -> Result<(), LakeError> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(LakeError::io("list", folder))?;
        let (path, name) = (entry.path(), entry.file_name());
        let own = name.to_str().is_some_and(|name| is_own_name(table, name));
        if own && !keep.contains(&path) {
            let bytes = entry.metadata().map_or(0, |file| file.len());
            disk.remove(&path)?;
            removed.files += 1;
            removed.bytes += bytes;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_file_lies_beside_the_folder_of_its_table() {
        let place = retired_place(Path::new("/a/lake/steps/steps-0123456789abcdef.parquet"));
        assert_eq!(place, Path::new("/a/lake/retired/steps/steps-0123456789abcdef.parquet"));
    }
}
