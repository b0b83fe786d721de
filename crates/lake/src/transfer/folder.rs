//! A folder in which a lake is made from other lakes.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::kernel::create::{clear_unfinished, create_catalog, demand_empty};
use crate::kernel::files::lock::{Lock, Right};
use crate::kernel::segments::orphans;
use crate::kernel::{DATA, Disk, Identity, Lake, LakeError, Table, Writer, identity_file};
use crate::upkeep::backfill::parts;

/// Whether a folder lies in the folder of a lake, and is not this one.
pub(super) fn lies_within(folder: &Path, lake: &Path) -> bool {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    std::path::absolute(lake).is_ok_and(|lake| folder != lake && folder.starts_with(lake))
}

/// A folder that becomes a lake with [`complete`](Self::complete).
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) lake: Lake,
    /// The file that marks the folder until then.
    unfinished: &'static str,
    /// Whether the folder did not exist before.
    is_new: bool,
    lock: Arc<Lock>,
}

impl Folder {
    /// Begins with a folder that is empty, does not exist, or holds the file `unfinished` because
    /// an earlier attempt was interrupted.
    pub(super) fn prepare(
        disk: Disk,
        path: &Path,
        identity: &Identity,
        unfinished: &'static str,
    ) -> Result<Self, LakeError> {
        let demand = || {
            let is_lake = path.join(identity_file::FILE_NAME).exists();
            let is_unfinished = path.join(unfinished).exists() && !is_lake;
            if is_unfinished { Ok(()) } else { demand_empty(path) }
        };
        demand()?;
        let is_new = !path.exists();
        disk.create_dir(path)?;
        let lock = Arc::new(Lock::take(&disk, path, Right::Write)?);
        demand()?;
        Ok(Self { lake: Lake::new(path, identity.clone(), disk), unfinished, is_new, lock })
    }

    /// Removes everything that an interrupted attempt wrote.
    pub(super) fn clear(&self) -> Result<(), LakeError> {
        clear_unfinished(&self.lake.disk, &self.lake.path)?;
        self.lake.disk.remove_tree(&self.lake.path.join(parts::FOLDER))?;
        orphans::remove_unlisted(&self.lake, Table::ALL.into_iter(), &HashSet::new()).map(drop)
    }

    /// Makes the database of the lake, and returns the writer of its rows. What it writes is part
    /// of no lake before [`complete`](Self::complete).
    pub(super) fn writer(&self) -> Result<Writer, LakeError> {
        let catalog = create_catalog(&self.lake)?;
        Ok(Writer::of_new(self.lake.clone(), catalog, Arc::clone(&self.lock)))
    }

    /// Restores the folder to its state before the work, as far as possible.
    pub(super) fn abandon(&self) {
        if self.clear().is_err() {
            return;
        }
        let Lake { path, disk, .. } = &self.lake;
        let _ = disk.remove(&path.join(self.unfinished));
        for table in Table::ALL {
            // This fails if the folder is not empty, which is intended.
            let _ = std::fs::remove_dir(self.lake.table_folder(table));
        }
        let _ = std::fs::remove_dir(path.join(DATA));
        if self.is_new {
            for right in [Right::Write, Right::Maintain, Right::Show] {
                let _ = disk.remove(&right.path(path));
            }
            let _ = std::fs::remove_dir(path);
        }
    }

    /// Marks the folder as unfinished; `what` runs in it. The mark is durable on return.
    pub(super) fn mark(&self, what: &str, again: &str) -> Result<(), LakeError> {
        let note = format!(
            "This folder is not a lake yet: a {what} into it is running or was interrupted. \
             Run the same again to {again}, or delete the folder.\n"
        );
        self.lake.disk.write_file(&self.lake.path.join(self.unfinished), note.as_bytes())
    }

    /// Makes the folder a lake.
    pub(super) fn complete(self) -> Result<Lake, LakeError> {
        let Lake { path, identity, disk, .. } = &self.lake;
        Lock::create_readers(path)?;
        identity.write(path, disk)?;
        // If this fails, the folder is a lake all the same: its `lake.json` decides.
        let _ = disk.remove(&path.join(self.unfinished));
        drop(self.lock);
        Ok(self.lake)
    }
}
