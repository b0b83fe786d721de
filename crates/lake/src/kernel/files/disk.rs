//! All changes that a lake makes on the disk, and all reads of its files except those of `SQLite`,
//! go through this module. A test can therefore cut the power after any change and make any read
//! fail.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::kernel::error::LakeError;

/// One thing that a lake is about to do with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskOperation<'a> {
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
    /// Writes so many bytes to a file without a name, for work on the lake at this path. The file
    /// does not outlive the process.
    Scratch(&'a Path, usize),
    /// Commits a transaction of the hot log. Durable on return.
    Commit(&'a Path),
    /// Opens a file to read it.
    Open(&'a Path),
    /// Reads so many bytes of a file.
    Read(&'a Path, usize),
}

/// What a fault does with a [`DiskOperation`].
#[derive(Debug)]
pub enum FaultEffect {
    /// The operation is performed.
    Proceed,
    /// A write writes only so many bytes, as a disk may do. For a read, the file ends after so many
    /// bytes. Any other operation is performed.
    Short(usize),
    /// The operation is not performed, and the caller gets this error.
    Fail(io::Error),
}

type Faults = dyn Fn(DiskOperation<'_>) -> FaultEffect + Send + Sync;

/// The disk as a lake uses it: the real disk, in a test with faults.
#[derive(Clone, Default)]
pub struct Disk {
    faults: Option<Arc<Faults>>,
    /// The type of the file system, if a test sets it.
    file_system: Option<i64>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.faults.is_some() { "Disk(with faults)" } else { "Disk" })
    }
}

impl Disk {
    /// A disk that asks `faults` before every operation.
    pub fn with_faults(
        faults: impl Fn(DiskOperation<'_>) -> FaultEffect + Send + Sync + 'static,
    ) -> Self {
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

    pub(crate) fn ask(&self, operation: DiskOperation<'_>) -> io::Result<Option<usize>> {
        match self.faults.as_ref().map_or(FaultEffect::Proceed, |faults| faults(operation)) {
            FaultEffect::Proceed => Ok(None),
            FaultEffect::Short(bytes) => Ok(Some(bytes)),
            FaultEffect::Fail(error) => Err(error),
        }
    }

    /// Opens a file to read it.
    pub(crate) fn open(&self, path: &Path) -> io::Result<DiskReader> {
        self.ask(DiskOperation::Open(path))?;
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
        self.ask(DiskOperation::Open(from))?;
        fs::copy(from, to).map(drop)
    }

    /// Makes a folder, if it does not exist, and makes its name durable.
    pub(crate) fn create_dir(&self, path: &Path) -> Result<(), LakeError> {
        if path.is_dir() {
            return Ok(());
        }
        self.perform(DiskOperation::CreateDir(path), "make the folder", path, || {
            fs::create_dir_all(path)
        })?;
        path.parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .map_or(Ok(()), |parent| self.sync_dir(parent))
    }

    /// Performs an operation, unless a fault prevents it. An error says what was tried with `path`.
    fn perform<T>(
        &self,
        operation: DiskOperation<'_>,
        doing: &'static str,
        path: &Path,
        perform: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, LakeError> {
        self.ask(operation).and_then(|_| perform()).map_err(LakeError::io(doing, path))
    }

    /// Makes a new file.
    pub(crate) fn create(&self, path: PathBuf) -> Result<DiskFile, LakeError> {
        let file =
            self.perform(DiskOperation::Create(&path), "make", &path, || File::create(&path))?;
        Ok(DiskFile { disk: self.clone(), file, path, failure: WriteFailure::default() })
    }

    /// Renames `from` to `to`, durably. A power cut leaves the file under one name or under both.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), LakeError> {
        self.perform(DiskOperation::Rename(from, to), "rename", from, || fs::rename(from, to))?;
        let (old, new) = (from.parent(), to.parent());
        let folders = [new, old.filter(|&old| Some(old) != new)];
        folders.into_iter().flatten().try_for_each(|folder| self.sync_dir(folder))
    }

    /// Makes a folder in an existing folder. Its name is durable once the outer folder is synced.
    pub(crate) fn create_dir_unsynced(&self, path: &Path) -> Result<(), LakeError> {
        let make = || fs::create_dir(path);
        self.perform(DiskOperation::CreateDir(path), "make the folder", path, make)
    }

    /// Makes a hard link. It is durable once its folder is synced.
    pub(crate) fn link(&self, file: &Path, name: &Path) -> Result<(), LakeError> {
        let link = || fs::hard_link(file, name);
        self.perform(DiskOperation::Link(file, name), "make a hard link of", file, link)
    }

    /// Makes a symbolic link. It is durable once its folder is synced.
    pub(crate) fn symlink(&self, target: &Path, link: &Path) -> Result<(), LakeError> {
        let make = || std::os::unix::fs::symlink(target, link);
        self.perform(DiskOperation::Symlink(target, link), "make the link", link, make)
    }

    /// Makes the names in a folder durable.
    pub(crate) fn sync_dir(&self, path: &Path) -> Result<(), LakeError> {
        let sync = || File::open(path)?.sync_all();
        self.perform(DiskOperation::SyncDir(path), "sync the folder", path, sync)
    }

    /// Removes a file. It is no error if there is none.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), LakeError> {
        self.remove_by(|path| fs::remove_file(path), path)
    }

    /// Removes a folder with its content. It is no error if there is none.
    pub(crate) fn remove_tree(&self, path: &Path) -> Result<(), LakeError> {
        self.remove_by(|path| fs::remove_dir_all(path), path)
    }

    fn remove_by(&self, remove: fn(&Path) -> io::Result<()>, path: &Path) -> Result<(), LakeError> {
        match self.ask(DiskOperation::Remove(path)).and_then(|_| remove(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LakeError::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Writes a whole file. After `Ok` it is durable under its name. After `Err` or a crash, the
    /// file of this name is as before.
    pub(crate) fn write_file(&self, path: &Path, content: &[u8]) -> Result<(), LakeError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let mut file = self.create(temporary.into())?;
        file.write_all(content).map_err(LakeError::io("write", path))?;
        file.sync()?;
        self.rename(&file.path, path)
    }
}

/// Two disks are equal if they have the same faults.
impl PartialEq for Disk {
    fn eq(&self, other: &Self) -> bool {
        let faults =
            |disk: &Self| disk.faults.as_ref().map(|faults| Arc::as_ptr(faults).cast::<()>());
        faults(self) == faults(other)
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
    /// The length of the file.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        self.file.metadata().map(|metadata| metadata.len())
    }

    /// Fills the buffer from an offset in the file. Returns the number of bytes read, which is
    /// smaller than the buffer only at the end of the file.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let short = self.disk.ask(DiskOperation::Read(&self.path, buffer.len()))?;
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
    /// Receives errors of writing.
    pub(crate) failure: WriteFailure,
}

/// The first error of a file. A library that writes to the file reports errors as text only.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteFailure(Arc<OnceLock<io::Error>>);

impl WriteFailure {
    fn keep(&self, error: &io::Error) {
        // Later errors follow from the first.
        let _ = self.0.set(copied(error));
    }

    /// The error of the disk, if there was one.
    pub(crate) fn error(&self) -> Option<io::Error> {
        self.0.get().map(copied)
    }
}

fn copied(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

impl DiskFile {
    /// Makes the content durable.
    pub(crate) fn sync(&mut self) -> Result<(), LakeError> {
        let path = &self.path;
        self.disk.perform(DiskOperation::SyncFile(path), "sync", path, || self.file.sync_all())
    }
}

impl Write for DiskFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let write = || {
            let short = self.disk.ask(DiskOperation::Write(&self.path, buffer.len()))?;
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

/// The entries of a folder; none if the folder does not exist.
pub(crate) fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, LakeError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.and_then(Iterator::collect),
    };
    entries.map_err(LakeError::io("list", folder))
}
