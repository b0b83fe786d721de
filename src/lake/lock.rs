//! The locks of a lake. The operating system takes each back when its holder ends, however it ends,
//! so none is ever left behind.
//!
//! - `writer.lock`: one process appends and seals.
//! - `maintenance.lock`: one process dedups, expires, collects, and changes what is sealed.
//! - `outside.lock`: one process brings `current` and the Delta tables up to the newest snapshot.
//! - `readers.lock`: every reader shares it; a process that deletes files of snapshots has it
//!   alone.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::error::LakeError;
use super::file_system::demand_own;

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
    /// To show the newest snapshot to other tools. Held for moments only.
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

/// A right that this process has. The file holds its process id, for messages only.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes a right, or says at once who has it. On a file system that several machines share,
    /// nobody can have one.
    pub(crate) fn take(disk: &Disk, lake: &Path, right: Right) -> Result<Self, LakeError> {
        demand_own(disk, lake)?;
        let path = right.path(lake);
        let mut file = open_for_writing(lake, &path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let pid =
                    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(right.taken(lake, pid));
            }
            Err(TryLockError::Error(error)) => return Err(LakeError::io("lock", &path)(error)),
        }
        // Only messages read the number: a disk with no room for it stops nobody.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self(file))
    }
}

impl Lock {
    /// Takes a right as soon as nobody else has it.
    pub(crate) fn wait(lake: &Path, right: Right) -> Result<Self, LakeError> {
        let path = right.path(lake);
        let file = open_for_writing(lake, &path)?;
        file.lock().map_err(LakeError::io("lock", &path))?;
        Ok(Self(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that another thread is starting just now has a
        // copy of it until it executes its program, and would hold the lock that long.
        let _ = self.0.unlock();
    }
}

/// Says that somebody reads, or that nobody does.
#[derive(Debug)]
pub(crate) struct ReadersLock(File);

impl ReadersLock {
    /// Makes the file, in a new lake.
    pub(crate) fn create(lake: &Path) -> Result<(), LakeError> {
        open_for_writing(lake, &lake.join(READERS)).map(drop)
    }

    /// Keeps the files of all snapshots where they are while it lives; waits for a deletion under
    /// way. None where the lock cannot be had: on a medium that cannot be written to nobody
    /// deletes.
    pub(crate) fn share(lake: &Path) -> Option<Self> {
        let path = lake.join(READERS);
        let open = File::open(&path).or_else(|_| open_for_writing(lake, &path));
        let file = open.ok()?;
        file.lock_shared().ok()?;
        Some(Self(file))
    }

    /// Keeps everybody from reading while it lives, where nobody reads.
    pub(crate) fn alone(lake: &Path) -> Result<Self, LakeError> {
        let path = lake.join(READERS);
        let file = open_for_writing(lake, &path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(LakeError::BeingRead { path: lake.to_owned() }),
            Err(TryLockError::Error(error)) => Err(LakeError::io("lock", &path)(error)),
        }
    }
}

impl Drop for ReadersLock {
    fn drop(&mut self) {
        // As above.
        let _ = self.0.unlock();
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
