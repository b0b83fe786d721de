//! The file of `--output`.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::Error;

/// A file that appears complete or not at all. It is written beside its target under another name,
/// and replaces the target in [`finish`](Self::finish). If it is dropped earlier, the old file
/// stays; if the process is killed, a hidden file stays beside it too. A target that is not a
/// regular file, such as a pipe, cannot be replaced and is written directly.
#[derive(Debug)]
pub(crate) struct WholeFile {
    path: PathBuf,
    out: BufWriter<Out>,
}

#[derive(Debug)]
enum Out {
    Temporary { file: NamedTempFile, target: PathBuf },
    Direct(File),
}

impl WholeFile {
    /// # Errors
    ///
    /// If the target cannot be written.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let out = Out::create(path).map_err(|error| unwritable(path, &error))?;
        Ok(Self { path: path.to_owned(), out: BufWriter::new(out) })
    }

    /// Replaces the target and syncs it: every reader sees the old content or all of the
    /// new, even after a power cut.
    ///
    /// # Errors
    ///
    /// Disk errors. The old content is then still there.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let Self { path, out } = self;
        let out = out.into_inner().map_err(io::IntoInnerError::into_error);
        out.and_then(Out::finish).map_err(|error| unwritable(&path, &error))
    }
}

impl Out {
    fn create(path: &Path) -> io::Result<Self> {
        // Links are followed, so that they stay links.
        let target = path.canonicalize().unwrap_or_else(|_not_there| path.to_owned());
        let there = fs::metadata(&target).ok();
        let permissions = match there {
            Some(other) if !other.is_file() => return File::create(target).map(Self::Direct),
            Some(file) => {
                // Only a user who may write to the file may replace it.
                OpenOptions::new().write(true).open(&target)?;
                Some(file.permissions())
            }
            None => None,
        };
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut named = tempfile::Builder::new();
        // Like any new file, subject to the umask.
        let file =
            named.prefix(".").suffix(".unfinished").permissions(Permissions::from_mode(0o666));
        let file = file.tempfile_in(folder.unwrap_or(Path::new(".")))?;
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions)?;
        }
        Ok(Self::Temporary { file, target })
    }

    fn finish(self) -> io::Result<()> {
        let Self::Temporary { file, target } = self else { return Ok(()) };
        file.as_file().sync_all()?;
        file.persist(target)?;
        Ok(())
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Temporary { file, .. } => file.as_file_mut().write(bytes),
            Self::Direct(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns the failure for a file that cannot be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Error {
    let text = error.to_string();
    // Cut the temporary name from the system's message.
    let cause = text.split_once(" at path ").map_or(text.as_str(), |(cause, _)| cause);
    Error::usage(format!("{} cannot be written: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_at_the_end_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("rows"), folder.path().join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut dropped = WholeFile::create(&link).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let mut file = WholeFile::create(&link).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn what_cannot_be_written_is_named_as_it_was_given() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().join("nowhere/rows"), folder.path().to_owned()] {
            let said = WholeFile::create(&path).unwrap_err().to_string();
            let wanted = format!("{} cannot be written: ", path.display());
            let cause = said.strip_prefix(&wanted).unwrap_or_default();
            assert!(cause.contains("os error") && !cause.contains('/'), "{said}");
        }
        let mut nowhere = WholeFile::create(Path::new("/dev/null")).unwrap();
        nowhere.write_all(b"lost").unwrap();
        nowhere.finish().unwrap();
    }
}
