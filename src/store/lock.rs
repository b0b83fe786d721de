//! `writer.lock`: one writer to a lake.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::path::Path;

use super::StoreError;

/// The name of the file in the lake.
pub(super) const FILE_NAME: &str = "writer.lock";

/// The right to write to a lake. The operating system takes it back when the process ends, however
/// it ends, so a lock is never left behind. The file holds the writer's process id, for messages
/// only.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    pub(super) fn take(lake: &Path) -> Result<Self, StoreError> {
        let path = lake.join(FILE_NAME);
        let open =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly { path: lake.to_owned() }
            }
            _ => StoreError::io("open", &path)(error),
        })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let pid =
                    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(StoreError::Busy { path: lake.to_owned(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", &path)(error)),
        }
        // Only messages read the number: a disk with no room for it stops nobody.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that another thread is starting just now has a copy of
        // it until it executes its program, and would hold the lock that long.
        let _ = self.0.unlock();
    }
}
