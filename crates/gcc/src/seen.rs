//! Tells a file from one that took its place.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A file that was looked at.
#[derive(Debug)]
pub(super) struct SeenFile {
    path: PathBuf,
    stamp: FileStamp,
}

/// What another file in its place would not share: device, inode, size, and when it was written, in
/// seconds and nanoseconds.
type FileStamp = (u64, u64, u64, i64, i64);

impl SeenFile {
    /// Looks at a file. The error names it.
    pub(super) fn at(path: PathBuf) -> Result<Self, String> {
        match stamp(&path) {
            Ok(stamp) => Ok(Self { path, stamp }),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the same file is still there, as it was.
    pub(super) fn is_unchanged(&self) -> bool {
        stamp(&self.path).is_ok_and(|now| now == self.stamp)
    }
}

fn stamp(path: &Path) -> io::Result<FileStamp> {
    let file = fs::metadata(path)?;
    Ok((file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}
