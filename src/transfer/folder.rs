//! A folder in which a lake is made from other lakes.

use std::path::Path;

use crate::lake::create::demand_empty;
use crate::lake::lock::{Lock, Right};
use crate::lake::{Disk, Identity, Lake, LakeError, identity_file};

/// A folder that becomes a lake with [`complete`](Self::complete).
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) lake: Lake,
    /// The file that marks the folder until then.
    unfinished: &'static str,
    lock: Lock,
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
        disk.create_dir(path)?;
        let lock = Lock::take(&disk, path, Right::Write)?;
        demand()?;
        Ok(Self { lake: Lake::new(path, identity.clone(), disk), unfinished, lock })
    }

    /// Marks the folder as unfinished; `command` runs in it. The mark is durable on return.
    pub(super) fn mark(&self, command: &str, again: &str) -> Result<(), LakeError> {
        let note = format!(
            "This folder is not a lake yet: a `steplake {command}` into it is running or was \
             interrupted. Run the same command again to {again}, or delete the folder.\n"
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
