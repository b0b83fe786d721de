//! Power cuts, and what they leave on a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use steplake::lake::{Disk, Operation, Verdict};

/// A disk whose power is cut before its `n`-th operation.
#[derive(Debug, Default)]
pub(crate) struct Power {
    operations_left: usize,
    /// Whether it may be cut before a write or a creation too.
    amid_writes: bool,
    /// Whether it may be cut while other tools are shown a snapshot, and only then.
    amid_showing: bool,
    pub(crate) off: bool,
    /// Files with content that was never synced.
    unsynced: BTreeSet<PathBuf>,
    /// Names that were given and never synced: the new one, and the old one.
    unsynced_names: BTreeMap<PathBuf, PathBuf>,
    /// Hard links that were never synced.
    unsynced_links: BTreeSet<PathBuf>,
}

impl Power {
    pub(crate) fn disk(operations: usize, amid_writes: bool) -> (Disk, Arc<Mutex<Self>>) {
        let power = Self { operations_left: operations, amid_writes, ..Self::default() };
        let power = Arc::new(Mutex::new(power));
        let shared = Arc::clone(&power);
        (Disk::with_faults(move |operation| shared.lock().unwrap().ask(operation)), power)
    }

    /// A disk whose power is cut before its `n`-th operation on what other tools see.
    pub(crate) fn while_showing(operations: usize) -> (Disk, Arc<Mutex<Self>>) {
        let (disk, power) = Self::disk(operations, true);
        power.lock().unwrap().amid_showing = true;
        (disk, power)
    }

    fn ask(&mut self, operation: Operation<'_>) -> Verdict {
        // A cut before a write differs from one before the sync that follows in lost content alone.
        let counts = match operation {
            Operation::Open(_) | Operation::Read(..) | Operation::Scratch(..) => false,
            Operation::Write(..) | Operation::Create(_) => self.amid_writes,
            _ => true,
        } && is_showing(&operation) == self.amid_showing;
        if self.off || counts && self.operations_left == 0 {
            self.off = true;
            return Verdict::Fail(Error::other("the power is off"));
        }
        self.operations_left -= usize::from(counts);
        match operation {
            Operation::Create(path) => {
                self.unsynced.insert(path.to_owned());
            }
            Operation::SyncFile(path) | Operation::Remove(path) => {
                self.unsynced.remove(path);
            }
            Operation::Rename(from, to) => {
                assert!(!self.unsynced.contains(from), "{} gets its name unsynced", from.display());
                // A name that stood for equal content before will do so after the cut.
                if !to.exists() {
                    self.unsynced_names.insert(to.to_owned(), from.to_owned());
                }
            }
            Operation::SyncDir(path) => {
                self.unsynced_names.retain(|to, _| to.parent() != Some(path));
                self.unsynced_links.retain(|link| link.parent() != Some(path));
            }
            Operation::Link(_, link) => {
                self.unsynced_links.insert(link.to_owned());
            }
            Operation::Commit(_) => {
                assert!(self.unsynced.is_empty(), "unsynced at a commit: {:?}", self.unsynced);
                assert!(
                    self.unsynced_names.is_empty(),
                    "unsynced at a commit: {:?}",
                    self.unsynced_names
                );
            }
            Operation::Write(path, bytes) => {
                assert!(self.unsynced.contains(path));
                // A disk may take less than it was given.
                return if bytes > 4096 { Verdict::Short(bytes / 2) } else { Verdict::Proceed };
            }
            Operation::CreateDir(_)
            | Operation::Symlink(..)
            | Operation::Scratch(..)
            | Operation::Open(_)
            | Operation::Read(..) => {}
        }
        Verdict::Proceed
    }

    /// What was not synced is lost: names, and half of each file.
    pub(crate) fn cut(&self) {
        for (to, from) in &self.unsynced_names {
            std::fs::rename(to, from).unwrap();
        }
        for link in &self.unsynced_links {
            std::fs::remove_file(link).unwrap();
        }
        for path in &self.unsynced {
            if let Ok(file) = std::fs::OpenOptions::new().write(true).open(path) {
                file.set_len(file.metadata().unwrap().len() / 2).unwrap();
            }
        }
    }
}

/// Whether an operation is about what other tools see of a lake.
pub(crate) fn is_showing(operation: &Operation<'_>) -> bool {
    let path = match *operation {
        Operation::CreateDir(path)
        | Operation::Create(path)
        | Operation::Write(path, _)
        | Operation::SyncFile(path)
        | Operation::Rename(_, path)
        | Operation::Link(_, path)
        | Operation::Symlink(_, path)
        | Operation::SyncDir(path)
        | Operation::Remove(path) => path,
        Operation::Scratch(..)
        | Operation::Commit(_)
        | Operation::Open(_)
        | Operation::Read(..) => {
            return false;
        }
    };
    let is_part = |name: &std::ffi::OsStr| {
        ["_delta_log", "views", "current", "current.tmp"].iter().any(|part| name == *part)
    };
    path.components().any(|part| is_part(part.as_os_str()))
}
