//! The folder of a lake that is being made by a merge.

use std::collections::HashSet;
use std::path::Path;

use super::runs::Runs;
use crate::lake::create::{MERGE_UNFINISHED, clear_unfinished, create_catalog, demand_empty};
use crate::lake::edit::{self, VersionEdit};
use crate::lake::lock::{Lock, ReadersLock, Right};
use crate::lake::{
    DATA, Disk, Identity, Lake, LakeError, Segment, SnapshotKind, Table, identity_file, orphans,
};

const WHAT_IT_SAYS: &str = "This folder is no lake yet: a `steplake merge` into it is under way, or was \
interrupted. The same command begins anew; or delete the folder.\n";

/// A folder that is to become a lake. It is none before [`complete`](Self::complete).
pub(super) struct Folder {
    pub(super) lake: Lake,
    lock: Lock,
    /// Whether there was no folder before.
    fresh: bool,
}

impl Folder {
    /// Takes a folder that is empty, not there yet, or left by a merge that was cut short.
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
        folder.lake.disk.write_file(&unfinished, WHAT_IT_SAYS.as_bytes())?;
        Ok(folder)
    }

    /// Removes what a merge writes.
    fn clear(&self) -> Result<(), LakeError> {
        clear_unfinished(&self.lake.disk, &self.lake.path)?;
        orphans::remove_unlisted(&self.lake, Table::ALL.into_iter(), &HashSet::new()).map(drop)
    }

    /// Leaves the folder as it was before, as far as that can be done.
    pub(super) fn abandon(self) {
        let path = self.lake.path.clone();
        if self.clear().is_err() {
            return;
        }
        let _ = self.lake.disk.remove(&path.join(MERGE_UNFINISHED));
        for table in Table::ALL {
            // Only where it is empty.
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

    /// Makes the catalog, with all of this in one transaction. It is still no lake.
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

    /// Makes it a lake.
    pub(super) fn complete(self) -> Result<Lake, LakeError> {
        let Lake { path, identity, disk, .. } = &self.lake;
        ReadersLock::create(path)?;
        identity.write(path, disk)?;
        // It is a lake, whatever becomes of this: nobody heeds the file beside a lake.json.
        let _ = disk.remove(&path.join(MERGE_UNFINISHED));
        drop(self.lock);
        Ok(self.lake)
    }
}
