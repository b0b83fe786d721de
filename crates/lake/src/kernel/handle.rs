//! The handle of a lake: its folder, identity and disk.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::clock::Clock;
use super::error::LakeError;
use super::identity::Identity;
use super::ids::FORMAT_VERSION;
use crate::kernel::files::disk::Disk;
use crate::kernel::schema::encode::Schemas;
use crate::kernel::schema::table::Table;

/// The folder of the files of all tables.
pub(crate) const DATA: &str = "data";

/// A lake: a folder that holds the data of one environment. See the [crate](crate).
#[derive(Debug, Clone)]
pub struct Lake {
    pub(crate) path: PathBuf,
    pub(crate) identity: Arc<Identity>,
    pub(crate) schemas: Schemas,
    pub(crate) disk: Disk,
    pub(crate) clock: Clock,
}

/// Returns a path without a working directory and without `..`: queries name files by URL, which
/// has neither. The last part of the path need not exist.
fn plain(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_unknown| path.to_owned());
    if !path.components().any(|part| part == Component::ParentDir) {
        return path;
    }
    let beside = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(beside).unwrap_or(path)
}

impl Lake {
    /// Opens a lake. Nothing is written, so the folder may be read-only.
    ///
    /// # Errors
    ///
    /// [`LakeError::NotFound`], [`LakeError::NotALake`], [`LakeError::Format`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LakeError> {
        Self::open_on(Disk::default(), path)
    }

    /// [`open`](Self::open) on a disk with faults.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_on(disk: Disk, path: impl AsRef<Path>) -> Result<Self, LakeError> {
        let path = path.as_ref();
        Ok(Self::new(path, Identity::read(path, &disk)?, disk))
    }

    /// The lake with its current actions and spaces. A run may have appended some since the lake
    /// was opened.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub(crate) fn current(&self) -> Result<Self, LakeError> {
        let identity = Identity::read(&self.path, &self.disk)?;
        if identity == *self.identity {
            return Ok(self.clone());
        }
        self.identity.demand(&identity, &self.path)?;
        let (disk, clock) = (self.disk.clone(), self.clock.clone());
        Ok(Self { clock, ..Self::new(&self.path, identity, disk) })
    }

    /// The lake in this format. One rename makes an older one such a lake: a reader sees the old
    /// `lake.json` or the new one. No file of a table changes. The caller has the right to write.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The lake is then unchanged.
    pub(crate) fn upgraded(self) -> Result<Self, LakeError> {
        if self.identity.format_version == FORMAT_VERSION {
            return Ok(self);
        }
        let identity = Identity { format_version: FORMAT_VERSION, ..(*self.identity).clone() };
        identity.write(&self.path, &self.disk)?;
        self.current()
    }

    /// A lake of this identity at this path. The lake need not exist.
    pub(crate) fn new(path: &Path, identity: Identity, disk: Disk) -> Self {
        let schemas = Schemas::new(&identity);
        let path = plain(path);
        Self { path, identity: Arc::new(identity), schemas, disk, clock: Clock::default() }
    }

    /// The same lake, with another clock to date its snapshots.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Returns the present time of its clock: Unix time in milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// The identity of the lake.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The folder of a table's files.
    pub(crate) fn table_folder(&self, table: Table) -> PathBuf {
        self.path.join(DATA).join(table.name())
    }

    /// The folder of the lake.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_lake_leads_through_no_parent() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("beside")).unwrap();
        let winding = folder.join("beside").join("..").join("lake");
        assert_eq!(plain(&winding), folder.join("lake"), "of a lake that is not there yet");
        std::fs::create_dir(folder.join("lake")).unwrap();
        assert_eq!(plain(&winding), folder.join("lake"));
        assert_eq!(plain(&folder.join("lake")), folder.join("lake"));
    }
}
