//! A folder in which a compiler runs behind walls: in memory, where the system has such a place
//! with room.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

use super::compiler::Compiler;
use super::state::PreprocessedSource;
use steplake_sandbox::{Enclosure, OpenPaths};

/// Begins the names of the folders.
const PREFIX: &str = "steplake-gcc-";

/// Room that a folder in memory has to have; containers often have little.
const ROOM_BYTES_MIN: u64 = 256 << 20;

/// How often a new folder may be lost to a process that takes it for one that was left behind.
const LOST_MAX: usize = 10;

/// A folder behind walls.
#[derive(Debug)]
pub(super) struct ConfinedFolder {
    pub(super) enclosure: Enclosure,
    place: TempDir,
    /// Says that the folder is in use. The system drops the lock at the end of this process,
    /// however that comes.
    _lock: File,
    /// The source that is in it.
    pub(super) source: Option<Arc<PreprocessedSource>>,
}

impl ConfinedFolder {
    /// Makes a folder in the first place that takes one, be it in memory.
    pub(super) fn new(compiler: &Compiler) -> io::Result<Self> {
        let places = in_memory().into_iter().chain([std::env::temp_dir()]);
        Self::made(compiler, &places.collect::<Vec<_>>())
    }

    /// Makes a folder in the system's own place for temporary files.
    pub(super) fn on_disk(compiler: &Compiler) -> io::Result<Self> {
        Self::made(compiler, &[std::env::temp_dir()])
    }

    fn made(compiler: &Compiler, places: &[PathBuf]) -> io::Result<Self> {
        let (place, lock) = made_in(places)?;
        let tools = [&compiler.cc1, &compiler.assembler, &compiler.whole];
        let read = tools.into_iter().flat_map(|tool| {
            tool.read.iter().cloned().chain(steplake_sandbox::installation(&tool.program))
        });
        let open = OpenPaths { read: read.collect(), write: vec![place.path().to_owned()] };
        Ok(Self { enclosure: Enclosure::new(open)?, place, _lock: lock, source: None })
    }

    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Returns the path of one of its files.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

/// The places in memory that have room now, the best one first.
fn in_memory() -> Vec<PathBuf> {
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let places = of_user.map(PathBuf::from).into_iter().chain([PathBuf::from("/dev/shm")]);
    let has_room = |folder: &PathBuf| {
        statvfs(folder)
            .is_ok_and(|disk| disk.blocks_available() * disk.fragment_size() >= ROOM_BYTES_MIN)
    };
    places.filter(has_room).collect()
}

/// Makes a folder in the first of these places in which it can be made.
fn made_in(places: &[PathBuf]) -> io::Result<(TempDir, File)> {
    let mut made = Err(io::Error::other("there is no place for a folder"));
    for place in places {
        made = locked(place);
        if made.is_ok() {
            break;
        }
    }
    made
}

/// Makes a folder that is in use, and removes those that no living process uses: one that is killed
/// leaves its own behind, and memory is scarce.
fn locked(place: &Path) -> io::Result<(TempDir, File)> {
    remove_left_behind(place);
    for _ in 0..LOST_MAX {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        // Between these two lines, another process may take it for one that was left behind.
        let lock = File::open(folder.path()).and_then(|lock| Ok(lock.try_lock().map(|()| lock)?));
        if let Ok(lock) = lock
            && folder.path().is_dir()
        {
            return Ok((folder, lock));
        }
    }
    Err(io::Error::other(format!("folders in {} are lost at once", place.display())))
}

/// Removes the folders in a place that no living process uses. Those of others stay.
fn remove_left_behind(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours
            && let Ok(folder) = File::open(entry.path())
            && folder.try_lock().is_ok()
        {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_nobody_uses_are_removed_and_others_stay() {
        let place = tempfile::tempdir().unwrap();
        let [left, other] = ["steplake-gcc-left", "other"].map(|name| place.path().join(name));
        for folder in [&left, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("program.s"), "nop").unwrap();
        }
        let (first, first_lock) = locked(place.path()).unwrap();
        assert!(!left.exists() && other.exists());
        let (second, _lock) = locked(place.path()).unwrap();
        assert!(first.path().is_dir() && second.path().is_dir());
        // A process that is killed drops its locks alone.
        let first = first.keep();
        drop(first_lock);
        locked(place.path()).unwrap();
        assert!(!first.exists() && second.path().is_dir());
    }

    #[test]
    fn a_place_that_takes_no_folder_is_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let nowhere = place.path().join("nowhere");
        let (folder, _lock) = made_in(&[nowhere.clone(), place.path().to_owned()]).unwrap();
        assert_eq!(folder.path().parent(), Some(place.path()));
        made_in(&[nowhere]).unwrap_err();
    }
}
