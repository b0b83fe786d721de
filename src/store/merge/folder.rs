//! The folder of a lake that is being made by a merge.

use std::path::Path;

use super::runs::Runs;
use crate::store::catalog::{self, Catalog};
use crate::store::lake::demand_empty;
use crate::store::lock::{Lock, ReadersLock, Right};
use crate::store::{
    Disk, Identity, Lake, LossRow, RetractionRow, Segment, SnapshotKind, StoreError, Table,
    identity, losses, manifest, retired, retractions,
};

/// The file that says that a folder is of a merge that was not completed.
pub(in crate::store) const UNFINISHED: &str = "merge.unfinished";

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
    pub(super) fn prepare(
        disk: Disk,
        path: &Path,
        identity: &Identity,
    ) -> Result<Self, StoreError> {
        let fresh = !path.exists();
        let unfinished = path.join(UNFINISHED);
        let demand = || {
            let is_lake = path.join(identity::FILE_NAME).exists();
            if unfinished.exists() && !is_lake { Ok(()) } else { demand_empty(path) }
        };
        demand()?;
        disk.create_dir(path)?;
        let lock = Lock::take(path, Right::Write)?;
        demand()?;
        let folder = Self { lake: Lake::new(path, identity.clone(), disk), lock, fresh };
        folder.clear()?;
        folder.lake.disk.write_file(&unfinished, WHAT_IT_SAYS.as_bytes())?;
        Ok(folder)
    }

    /// Removes what a merge writes.
    fn clear(&self) -> Result<(), StoreError> {
        let Lake { path, disk, .. } = &self.lake;
        let tables = Table::ALL.into_iter();
        retired::remove_orphans(path, disk, tables, &std::collections::HashSet::new())?;
        for suffix in ["-journal", "", "-wal", "-shm"] {
            let part = path.join(format!("{}{suffix}", catalog::FILE_NAME));
            if part.exists() {
                disk.remove(&part)?;
            }
        }
        Ok(())
    }

    /// Leaves the folder as it was before, as far as that can be done.
    pub(super) fn abandon(self) {
        let path = self.lake.path.clone();
        if self.clear().is_err() {
            return;
        }
        let _ = self.lake.disk.remove(&path.join(UNFINISHED));
        for table in Table::ALL {
            // Only where it is empty.
            let _ = std::fs::remove_dir(path.join(table.name()));
        }
        if self.fresh {
            let _ = self.lake.disk.remove(&Right::Write.path(&path));
            let _ = std::fs::remove_dir(&path);
        }
    }

    /// Makes the catalog, with all of this in one transaction. It is still no lake.
    pub(super) fn publish(
        &self,
        runs: &Runs,
        segments: &[Segment],
        detail: &str,
    ) -> Result<(), StoreError> {
        let Lake { path: lake, identity, disk, .. } = &self.lake;
        Catalog::create(lake, identity, disk)?;
        let mut catalog = Catalog::open_for_writing(lake, identity, disk)?;
        let path = catalog.path().to_owned();
        let now_ms = disk.now_ms();
        let transaction = catalog.write()?;
        let publish = || {
            let kind = SnapshotKind::Merge;
            let snapshot = manifest::begin_snapshot(&transaction, now_ms, kind, detail)?;
            for run in &runs.rows {
                catalog::insert_run(&transaction, run)?;
            }
            for row in &runs.retractions {
                retractions::insert(&transaction, &RetractionRow { snapshot, ..row.clone() })?;
            }
            for row in &runs.losses {
                losses::insert(&transaction, &LossRow { snapshot, ..row.clone() })?;
            }
            let mut segments = segments.iter();
            segments.try_for_each(|segment| manifest::insert(&transaction, lake, segment, snapshot))
        };
        publish().map_err(StoreError::sqlite(&path))?;
        disk.commit(transaction, &path)
    }

    /// Makes it a lake.
    pub(super) fn complete(self) -> Result<Lake, StoreError> {
        let Lake { path, identity, disk, .. } = &self.lake;
        ReadersLock::create(path)?;
        identity.write(path, disk)?;
        // It is a lake, whatever becomes of this: nobody heeds the file beside a lake.json.
        let _ = disk.remove(&path.join(UNFINISHED));
        drop(self.lock);
        Ok(self.lake)
    }
}
