//! Every change that the store makes to the disk passes here, and every reading of its files but
//! those of `SQLite`: so a test can make any change the last one, and see what a power cut would
//! leave, and make any reading fail.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::error::LakeError;

/// One thing that the store is about to do with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Makes a folder.
    CreateDir(&'a Path),
    /// Makes an empty file.
    Create(&'a Path),
    /// Writes so many bytes at the end of a file.
    Write(&'a Path, usize),
    /// Makes a file's content durable.
    SyncFile(&'a Path),
    /// Gives a file another name.
    Rename(&'a Path, &'a Path),
    /// Gives a file a second name, the hard link.
    Link(&'a Path, &'a Path),
    /// Makes a symbolic link that leads to the first path.
    Symlink(&'a Path, &'a Path),
    /// Makes the names in a folder durable.
    SyncDir(&'a Path),
    /// Removes a file.
    Remove(&'a Path),
    /// Writes so many bytes to a file without a name, for work on the lake of this path. Nothing of
    /// it outlives the process.
    Scratch(&'a Path, usize),
    /// Commits a transaction of the hot log. Durable on return.
    Commit(&'a Path),
    /// Opens a file to read it.
    Open(&'a Path),
    /// Reads so many bytes of a file.
    Read(&'a Path, usize),
}

/// What a fault makes of an [`Operation`].
#[derive(Debug)]
pub enum Verdict {
    /// It is done.
    Proceed,
    /// Of a write, only so many bytes are done, as a disk may choose to. Of a read, the file ends
    /// after so many. Of anything else: it is done.
    Short(usize),
    /// It is not done, and the caller is told so.
    Fail(io::Error),
}

type Faults = dyn Fn(Operation<'_>) -> Verdict + Send + Sync;

/// The disk as a lake uses it: the real one, with faults on top in a test.
#[derive(Clone, Default)]
pub struct Disk {
    faults: Option<Arc<Faults>>,
    /// The type of its file system, if a test says so.
    file_system: Option<i64>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.faults.is_some() { "Disk(with faults)" } else { "Disk" })
    }
}

impl Disk {
    /// A disk that asks `faults` before every operation.
    pub fn with_faults(faults: impl Fn(Operation<'_>) -> Verdict + Send + Sync + 'static) -> Self {
        Self { faults: Some(Arc::new(faults)), file_system: None }
    }

    /// The same disk with a file system of this type: a number of `statfs(2)`.
    #[must_use]
    pub fn with_file_system(self, number: i64) -> Self {
        Self { file_system: Some(number), ..self }
    }

    /// The type of the file system that a folder lies on: a number of `statfs(2)`.
    pub(crate) fn file_system(&self, folder: &Path) -> io::Result<i64> {
        match self.file_system {
            Some(number) => Ok(number),
            None => Ok(nix::sys::statfs::statfs(folder)?.filesystem_type().0),
        }
    }

    pub(crate) fn ask(&self, operation: Operation<'_>) -> io::Result<Option<usize>> {
        match self.faults.as_ref().map_or(Verdict::Proceed, |faults| faults(operation)) {
            Verdict::Proceed => Ok(None),
            Verdict::Short(bytes) => Ok(Some(bytes)),
            Verdict::Fail(error) => Err(error),
        }
    }

    /// Opens a file to read it.
    pub(crate) fn open(&self, path: &Path) -> io::Result<DiskReader> {
        self.ask(Operation::Open(path))?;
        Ok(DiskReader { disk: self.clone(), file: File::open(path)?, path: path.to_owned() })
    }

    /// Reads a whole file.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path)?;
        let mut content = vec![0; usize::try_from(file.bytes()?).map_err(io::Error::other)?];
        let read = file.read_at(&mut content, 0)?;
        content.truncate(read);
        Ok(content)
    }

    /// Copies a file of the lake to another place.
    pub(crate) fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(Operation::Open(from))?;
        fs::copy(from, to).map(drop)
    }

    /// Makes a folder, where there is none yet, and its name durable.
    pub(crate) fn create_dir(&self, path: &Path) -> Result<(), LakeError> {
        if path.is_dir() {
            return Ok(());
        }
        self.ask(Operation::CreateDir(path))
            .and_then(|_| fs::create_dir_all(path))
            .map_err(LakeError::io("make the folder", path))?;
        path.parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .map_or(Ok(()), |parent| self.sync_dir(parent))
    }

    /// Makes a new file.
    pub(crate) fn create(&self, path: PathBuf) -> Result<DiskFile, LakeError> {
        let file = self
            .ask(Operation::Create(&path))
            .and_then(|_| File::create(&path))
            .map_err(LakeError::io("make", &path))?;
        let failure = WriteFailure::default();
        Ok(DiskFile { disk: self.clone(), file, path, failure })
    }

    /// Gives `from` the name `to`, durably: a power cut leaves it under one of them, or under both.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), LakeError> {
        self.ask(Operation::Rename(from, to))
            .and_then(|_| fs::rename(from, to))
            .map_err(LakeError::io("rename", from))?;
        let (old, new) = (from.parent(), to.parent());
        for folder in [new, old.filter(|&old| Some(old) != new)].into_iter().flatten() {
            self.sync_dir(folder)?;
        }
        Ok(())
    }

    /// Makes a folder in a folder that is there. Its name is durable once that one is synced.
    pub(crate) fn create_dir_unsynced(&self, path: &Path) -> Result<(), LakeError> {
        self.ask(Operation::CreateDir(path))
            .and_then(|_| fs::create_dir(path))
            .map_err(LakeError::io("make the folder", path))
    }

    /// Gives a file a second name. It is durable once its folder is synced.
    pub(crate) fn link(&self, file: &Path, name: &Path) -> Result<(), LakeError> {
        self.ask(Operation::Link(file, name))
            .and_then(|_| fs::hard_link(file, name))
            .map_err(LakeError::io("make a hard link of", file))
    }

    /// Makes a symbolic link. It is durable once its folder is synced.
    pub(crate) fn symlink(&self, target: &Path, link: &Path) -> Result<(), LakeError> {
        self.ask(Operation::Symlink(target, link))
            .and_then(|_| std::os::unix::fs::symlink(target, link))
            .map_err(LakeError::io("make the link", link))
    }

    /// Removes a folder with all that is in it. That it is gone already is no error.
    pub(crate) fn remove_tree(&self, path: &Path) -> Result<(), LakeError> {
        match self.ask(Operation::Remove(path)).and_then(|_| fs::remove_dir_all(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LakeError::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Makes the names in a folder durable.
    pub(crate) fn sync_dir(&self, path: &Path) -> Result<(), LakeError> {
        self.ask(Operation::SyncDir(path))
            .and_then(|_| File::open(path)?.sync_all())
            .map_err(LakeError::io("sync the folder", path))
    }

    /// Removes a file. That it is gone already is no error.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), LakeError> {
        match self.ask(Operation::Remove(path)).and_then(|_| fs::remove_file(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LakeError::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Writes a whole file: after `Ok` it is durable under its name, after `Err` or a crash the
    /// name stands for what it stood for before.
    pub(crate) fn write_file(&self, path: &Path, content: &[u8]) -> Result<(), LakeError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let mut file = self.create(temporary.into())?;
        file.write_all(content).map_err(LakeError::io("write", path))?;
        file.sync()?;
        self.rename(&file.path, path)
    }
}

/// Two disks are the same when one thing breaks both.
impl PartialEq for Disk {
    fn eq(&self, other: &Self) -> bool {
        match (&self.faults, &other.faults) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for Disk {}

/// A file that is open for reading.
#[derive(Debug)]
pub(crate) struct DiskReader {
    disk: Disk,
    file: File,
    path: PathBuf,
}

impl DiskReader {
    /// How long the file is.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        self.file.metadata().map(|metadata| metadata.len())
    }

    /// Fills the buffer from a place in the file, as far as the file goes; says how far that is.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let short = self.disk.ask(Operation::Read(&self.path, buffer.len()))?;
        let wanted = short.unwrap_or(buffer.len()).min(buffer.len());
        let mut done = 0;
        while done < wanted {
            match self.file.read_at(&mut buffer[done..wanted], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

/// A file that is being written, front to back.
#[derive(Debug)]
pub(crate) struct DiskFile {
    disk: Disk,
    file: File,
    path: PathBuf,
    failure: WriteFailure,
}

/// What went wrong in a file that somebody else writes to and that reports it in words alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteFailure(Arc<OnceLock<io::Error>>);

impl WriteFailure {
    fn keep(&self, error: &io::Error) {
        // Only the first one: those after it follow from it.
        let _ = self.0.set(copied(error));
    }

    /// What the disk said, if it was the disk.
    pub(crate) fn error(&self) -> Option<io::Error> {
        self.0.get().map(copied)
    }
}

fn copied(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

impl DiskFile {
    /// Where errors of writing will be found.
    pub(crate) fn failure(&self) -> WriteFailure {
        self.failure.clone()
    }
    /// Makes the content durable.
    pub(crate) fn sync(&mut self) -> Result<(), LakeError> {
        self.disk
            .ask(Operation::SyncFile(&self.path))
            .and_then(|_| self.file.sync_all())
            .map_err(LakeError::io("sync", &self.path))
    }
}

impl Write for DiskFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let write = || {
            let short = self.disk.ask(Operation::Write(&self.path, buffer.len()))?;
            let wanted = short.unwrap_or(buffer.len()).clamp(1.min(buffer.len()), buffer.len());
            (&self.file).write(&buffer[..wanted])
        };
        write().inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                self.failure.keep(error);
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
