//! The folder of matrices, which processes share.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::matrix::Matrix;
use super::matrix_builder::{MatrixBuilder, MatrixWriter};
use super::number_kind::NumberKind;
use crate::error::LoadError;

/// What the matrices mean: raise it when the same name would stand for other numbers.
const MEANING: u32 = 2;

/// A folder of matrices, each named by a digest of everything that its content depends on: the
/// digests of the segments that it was made from, and what was made from them.
///
/// A matrix is written under another name, synced and renamed. So a reader sees all of it or
/// nothing, and what two processes make at the same time is the same. A truncated file, or one with
/// another header, is made again; that its numbers are those that were written is left to the disk,
/// since checking them would read all of a file that may be wanted in part. A file that is not used
/// any more can be deleted at any time: whoever has it mapped keeps it.
#[derive(Debug, Clone)]
pub struct MatrixCache {
    root: PathBuf,
}

impl MatrixCache {
    /// Uses the folder `root`, which need not exist yet. Only its user should be able to write to
    /// it: the files are mapped into memory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn path(&self, name: &MatrixName) -> PathBuf {
        self.root.join(format!("{}.matrix", name.0))
    }

    /// The matrix of this name, if it has been made and is not damaged.
    pub(crate) fn find(&self, name: &MatrixName) -> Result<Option<Arc<Matrix>>, LoadError> {
        let path = self.path(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LoadError::cache(&path)(error)),
        };
        let matrix = Matrix::open(&file).map_err(LoadError::cache(&path))?;
        if matrix.is_none() {
            tracing::warn!("the damaged cache entry {} is made again", path.display());
        }
        Ok(matrix.map(Arc::new))
    }

    /// Keeps a matrix, and maps it.
    pub(crate) fn put(
        &self,
        name: &MatrixName,
        matrix: &MatrixBuilder,
    ) -> Result<Arc<Matrix>, LoadError> {
        let path = self.path(name);
        let written = || -> io::Result<Option<Matrix>> {
            let mut out = BufWriter::new(self.new_file()?);
            matrix.write(&mut out)?;
            let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Matrix::open(&File::open(&path)?)
        };
        let damaged = || io::Error::other("the file that was just written is damaged");
        let matrix = written().and_then(|matrix| matrix.ok_or_else(damaged));
        matrix.map(Arc::new).map_err(LoadError::cache(&path))
    }

    /// A matrix to be written row by row, under another name until it is [kept](Self::keep).
    pub(crate) fn writer(&self, kind: NumberKind) -> Result<MatrixWriter, LoadError> {
        let made = self.new_file().and_then(|file| MatrixWriter::new(file, kind));
        made.map_err(LoadError::cache(&self.root))
    }

    /// Keeps a matrix that was written row by row.
    pub(crate) fn keep(&self, name: &MatrixName, matrix: MatrixWriter) -> Result<(), LoadError> {
        let path = self.path(name);
        let kept = || -> io::Result<()> {
            let file = matrix.finish()?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        kept().map_err(LoadError::cache(&path))
    }

    fn new_file(&self) -> io::Result<tempfile::NamedTempFile> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
        tempfile::NamedTempFile::new_in(&self.root)
    }

    /// The folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The matrix of this name; `make` makes it if it is missing or damaged.
    pub(crate) fn entry(
        &self,
        name: &MatrixName,
        make: impl FnOnce() -> Result<MatrixBuilder, LoadError>,
    ) -> Result<Arc<Matrix>, LoadError> {
        match self.find(name)? {
            Some(matrix) => Ok(matrix),
            None => self.put(name, &make()?),
        }
    }

    /// Opens the folder of this name. `make` makes it if it cannot be opened, since it is missing
    /// or not whole; other processes wait meanwhile. It appears complete or not at all.
    pub(crate) fn folder<T>(
        &self,
        name: &MatrixName,
        open: impl Fn(&Path) -> Result<T, LoadError>,
        make: impl FnOnce(&Path) -> Result<(), LoadError>,
    ) -> Result<T, LoadError> {
        let path = self.root.join(&name.0);
        if let Ok(opened) = open(&path) {
            return Ok(opened);
        }
        let failed = |error| LoadError::cache(&path)(error);
        let begin = || -> io::Result<(File, PathBuf)> {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
            let lock = File::create(path.with_extension("lock"))?;
            lock.lock()?;
            Ok((lock, path.with_extension("unfinished")))
        };
        // Held until the end.
        let (_lock, unfinished) = begin().map_err(failed)?;
        if let Ok(opened) = open(&path) {
            return Ok(opened);
        }
        let remove = |folder: &Path| match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        };
        // What a killed process left, and what somebody deleted some of.
        remove(&unfinished)?;
        remove(&path)?;
        make(&unfinished)?;
        fs::rename(&unfinished, &path).map_err(failed)?;
        open(&path)
    }
}

/// The name of a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatrixName(String);

impl MatrixName {
    /// The name of what depends on exactly these texts.
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&MEANING.to_le_bytes());
        for part in parts {
            // The lengths distinguish ["a", "bc"] from ["ab", "c"].
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        Self(hasher.finalize().to_hex().to_string())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}
