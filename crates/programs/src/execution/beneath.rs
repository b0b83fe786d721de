//! Files in a folder in which a program can do what it wants: no link leads out of it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open as open_path, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// How folders are opened on the way to a file.
const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Opens a file for reading. A FIFO does not make it wait.
pub(super) fn open(root: &Path, name: &str) -> io::Result<File> {
    let (folder, last) = parent(root, name, false)?;
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    Ok(openat(&folder, last, flags, Mode::empty())?.into())
}

/// Deletes a file or a link.
pub(super) fn remove(root: &Path, name: &str) -> io::Result<()> {
    let (folder, last) = parent(root, name, false)?;
    Ok(unlinkat(&folder, last, UnlinkatFlags::NoRemoveDir)?)
}

/// Makes a new file for writing, which is only to be read later, in place of any other. Makes the
/// folders that it lies in.
pub(super) fn create(root: &Path, name: &str) -> io::Result<File> {
    let (folder, last) = parent(root, name, true)?;
    match unlinkat(&folder, last, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    Ok(openat(&folder, last, flags, Mode::from_bits_truncate(0o444))?.into())
}

/// The folder of a file, and the file's name in it. `make` makes folders that are missing.
fn parent<'a>(root: &Path, name: &'a str, make: bool) -> io::Result<(OwnedFd, &'a OsStr)> {
    let outside = || io::Error::new(io::ErrorKind::InvalidInput, "it leads out of its folder");
    let mut parts = Vec::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            _ => return Err(outside()),
        }
    }
    let last = parts.pop().ok_or_else(outside)?;
    let mut folder = open_path(root, FOLDER, Mode::empty())?;
    for part in parts {
        if make {
            match mkdirat(&folder, part, Mode::S_IRWXU) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        folder = openat(&folder, part, FOLDER, Mode::empty())?;
    }
    Ok((folder, last))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_is_followed() {
        let all = tempfile::tempdir().unwrap();
        let (root, outside) = (all.path().join("root"), all.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "theirs").unwrap();
        symlink(&outside, root.join("folder")).unwrap();
        symlink(outside.join("file"), root.join("file")).unwrap();
        for name in ["folder/file", "file", "../outside/file"] {
            assert!(open(&root, name).is_err(), "{name}");
        }
        assert!(open(&root, outside.join("file").to_str().unwrap()).is_err());
        for name in ["folder/file", "../outside/file"] {
            assert!(remove(&root, name).is_err(), "{name}");
            assert!(create(&root, name).is_err(), "{name}");
        }
        create(&root, "file").unwrap().write_all(b"ours").unwrap();
        assert_eq!(fs::read(root.join("file")).unwrap(), b"ours");
        create(&root, "./new/deep/file").unwrap().write_all(b"ours").unwrap();
        assert!(open(&root, "new/deep/file").unwrap().metadata().unwrap().is_file());
        remove(&root, "new/deep/file").unwrap();
        assert!(!root.join("new/deep/file").exists());
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"theirs");
    }
}
