//! The locks of a lake. The operating system releases a lock when its holder ends, even by a crash.
//!
//! - `writer.lock`: one process appends and seals.
//! - `maintenance.lock`: one process dedups, expires, collects, and changes what is sealed.
//! - `outside.lock`: one process brings `current` and the Delta tables up to the newest snapshot.
//! - `readers.lock`: readers share it; a process that deletes files of snapshots holds it alone.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::file_system::demand_own;
use crate::kernel::error::LakeError;

/// The names of the files in the lake.
pub(crate) const FILE_NAMES: [&str; 4] =
    ["writer.lock", "maintenance.lock", "outside.lock", READERS];
const READERS: &str = "readers.lock";

/// What one process at a time may do to a lake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// To append and to seal.
    Write,
    /// To change what is sealed.
    Maintain,
    /// To show the newest snapshot to other tools. It is held only briefly.
    Show,
}

impl Right {
    pub(crate) fn path(self, lake: &Path) -> PathBuf {
        let [writer, maintenance, outside, _] = FILE_NAMES;
        lake.join(match self {
            Self::Write => writer,
            Self::Maintain => maintenance,
            Self::Show => outside,
        })
    }

    fn taken(self, lake: &Path, pid: Option<u32>) -> LakeError {
        let path = lake.to_owned();
        match self {
            Self::Write => LakeError::Busy { path, pid },
            Self::Maintain | Self::Show => LakeError::BeingMaintained { path, pid },
        }
    }
}

/// A lock of a lake, held until this is dropped. The lock file of a right contains the id of the
/// process, for messages only.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes a right, or fails at once with the process that has it. Fails on a file system that
    /// several machines share.
    pub(crate) fn take(disk: &Disk, lake: &Path, right: Right) -> Result<Self, LakeError> {
        demand_own(disk, lake)?;
        let path = right.path(lake);
        let mut file = open_for_writing(lake, &path)?;
        if !try_lock(&file, &path)? {
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(right.taken(lake, pid));
        }
        // Only messages use the id, so a full disk is no error here.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self(file))
    }

    /// Takes a right. Waits while another process has it.
    pub(crate) fn wait(lake: &Path, right: Right) -> Result<Self, LakeError> {
        let path = right.path(lake);
        let file = open_for_writing(lake, &path)?;
        file.lock().map_err(LakeError::io("lock", &path))?;
        Ok(Self(file))
    }

    /// Makes the file that readers lock. Part of the creation of a lake.
    pub(crate) fn create_readers(lake: &Path) -> Result<(), LakeError> {
        open_for_writing(lake, &lake.join(READERS)).map(drop)
    }

    /// Prevents the deletion of files of snapshots. Waits for a deletion that is under way. None if
    /// the medium is read-only: nothing can be deleted there.
    pub(crate) fn share(lake: &Path) -> Option<Self> {
        let path = lake.join(READERS);
        let open = File::open(&path).or_else(|_| open_for_writing(lake, &path));
        let file = open.ok()?;
        file.lock_shared().ok()?;
        Some(Self(file))
    }

    /// Prevents reading. Fails at once if a process reads.
    pub(crate) fn without_readers(lake: &Path) -> Result<Self, LakeError> {
        let path = lake.join(READERS);
        let file = open_for_writing(lake, &path)?;
        if !try_lock(&file, &path)? {
            return Err(LakeError::BeingRead { path: lake.to_owned() });
        }
        Ok(Self(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough. A child process that another thread is starting has a
        // copy of the file until it executes its program, and would hold the lock until then.
        let _ = self.0.unlock();
    }
}

/// Locks a file. Returns false if it is locked already.
fn try_lock(file: &File, path: &Path) -> Result<bool, LakeError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(LakeError::io("lock", path)(error)),
    }
}

fn open_for_writing(lake: &Path, path: &Path) -> Result<File, LakeError> {
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    open.map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            LakeError::ReadOnly { path: lake.to_owned() }
        }
        _ => LakeError::io("open", path)(error),
    })
}
