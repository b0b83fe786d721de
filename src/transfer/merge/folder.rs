//! The folder in which a merge makes a lake.

use std::collections::HashSet;
use std::path::Path;

use super::runs::Runs;
use crate::lake::create::{MERGE_UNFINISHED, clear_unfinished, create_catalog, demand_empty};
use crate::lake::edit::{self, VersionEdit};
use crate::lake::lock::{Lock, Right};
use crate::lake::{
    DATA, Disk, Identity, Lake, LakeError, Segment, SnapshotKind, Table, identity_file, orphans,
};

const UNFINISHED_NOTE: &str = "This folder is not a lake yet: a `steplake merge` into it is running or was \
interrupted. Run the same command again to start over, or delete the folder.\n";

/// A folder that becomes a lake with [`complete`](Self::complete).
pub(super) struct Folder {
    pub(super) lake: Lake,
    lock: Lock,
    /// Whether the folder did not exist before.
    fresh: bool,
}

impl Folder {
    /// Begins with a folder that is empty, does not exist, or was left by an interrupted merge.
    pub(super) fn prepare(disk: Disk, path: &Path, identity: &Identity) -> Result<Self, LakeError> {
        let fresh = !path.exists();
        let unfinished = path.join(MERGE_UNFINISHED);
        let demand = || {
            let is_lake = path.join(identity_file::FILE_NAME).exists();
            if unfinished.exists() && !is_lake { Ok(()) } else { demand_empty(path) }
        };
        demand()?;
        disk.create_dir(path)?;
        let lock = Lock::take(&disk, path, Right::Write)?;
        demand()?;
        let folder = Self { lake: Lake::new(path, identity.clone(), disk), lock, fresh };
        folder.clear()?;
        folder.lake.disk.write_file(&unfinished, UNFINISHED_NOTE.as_bytes())?;
        Ok(folder)
    }

    /// Removes everything that a merge writes.
    fn clear(&self) -> Result<(), LakeError> {
        clear_unfinished(&self.lake.disk, &self.lake.path)?;
        orphans::remove_unlisted(&self.lake, Table::ALL.into_iter(), &HashSet::new()).map(drop)
    }

    /// Restores the folder to its state before, as far as possible.
    pub(super) fn abandon(self) {
        let path = self.lake.path.clone();
        if self.clear().is_err() {
            return;
        }
        let _ = self.lake.disk.remove(&path.join(MERGE_UNFINISHED));
        for table in Table::ALL {
            // This fails if the folder is not empty, which is intended.
            let _ = std::fs::remove_dir(self.lake.table_folder(table));
        }
        let _ = std::fs::remove_dir(path.join(DATA));
        if self.fresh {
            for right in [Right::Write, Right::Show] {
                let _ = self.lake.disk.remove(&right.path(&path));
            }
            let _ = std::fs::remove_dir(&path);
        }
    }

    /// Makes the catalog and fills it in one transaction. The folder is still no lake.
    pub(super) fn publish(
        &self,
        runs: &Runs,
        segments: &[Segment],
        detail: &str,
    ) -> Result<(), LakeError> {
        let mut catalog = create_catalog(&self.lake)?;
        let mut edit = VersionEdit::new(SnapshotKind::Merge, detail);
        edit.add = segments.to_vec();
        edit.runs.clone_from(&runs.rows);
        edit.retractions.clone_from(&runs.retractions);
        edit.losses.clone_from(&runs.losses);
        edit::apply(&mut catalog, &self.lake, &edit).map(drop)
    }

    /// Makes the folder a lake.
    pub(super) fn complete(self) -> Result<Lake, LakeError> {
        let Lake { path, identity, disk, .. } = &self.lake;
        Lock::create_readers(path)?;
        identity.write(path, disk)?;
        // If this fails, the folder is a lake all the same: its `lake.json` decides.
        let _ = disk.remove(&path.join(MERGE_UNFINISHED));
        drop(self.lock);
        Ok(self.lake)
    }
}
