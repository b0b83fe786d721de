//! Room on the disk for work that does not fit into memory.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::disk::Operation;
use super::{Disk, Lake, StoreError};

/// Bytes that are moved between words and the file at once.
const MOVE_BYTES: usize = 1 << 18;
const WORD: usize = size_of::<u64>();

/// A file without a name, in the lake's folder: it is gone when this is dropped, and after a crash. It
/// holds words, which are appended and read again.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: File,
    disk: Disk,
    lake: PathBuf,
    words: u64,
    bytes: Vec<u8>,
}

/// Where a stretch of words lies in a [`Scratch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The first of them.
    pub(crate) start: u64,
    /// How many there are.
    pub(crate) words: usize,
}

impl Scratch {
    /// Makes one for work on `lake`.
    pub(crate) fn create(lake: &Lake) -> Result<Self, StoreError> {
        let path = lake.path();
        let file = tempfile::tempfile_in(path)
            .map_err(StoreError::io("make a temporary file in", path))?;
        let bytes = Vec::with_capacity(MOVE_BYTES);
        Ok(Self { file, disk: lake.disk.clone(), lake: path.to_owned(), words: 0, bytes })
    }

    /// Writes words at the end.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does. What was written before is still there.
    pub(crate) fn append(&mut self, words: &[u64]) -> Result<Stretch, StoreError> {
        for piece in words.chunks(MOVE_BYTES / WORD) {
            self.bytes.clear();
            self.bytes.extend(piece.iter().flat_map(|word| word.to_le_bytes()));
            self.disk
                .ask(Operation::Scratch(&self.lake, self.bytes.len()))
                .and_then(|_| self.file.write_all(&self.bytes))
                .map_err(StoreError::io("write a temporary file in", &self.lake))?;
        }
        let stretch = Stretch { start: self.words, words: words.len() };
        self.words += words.len() as u64;
        Ok(stretch)
    }

    /// Reads a stretch and puts it behind `words`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] when the disk does not give it back.
    pub(crate) fn read(&self, stretch: Stretch, words: &mut Vec<u64>) -> Result<(), StoreError> {
        let mut bytes = vec![0; MOVE_BYTES.min(stretch.words * WORD)];
        let (mut at, mut left) = (stretch.start * WORD as u64, stretch.words * WORD);
        while left > 0 {
            let piece = left.min(bytes.len());
            self.file
                .read_exact_at(&mut bytes[..piece], at)
                .map_err(StoreError::io("read a temporary file in", &self.lake))?;
            let (read, _) = bytes[..piece].as_chunks::<WORD>();
            words.extend(read.iter().map(|word| u64::from_le_bytes(*word)));
            at += piece as u64;
            left -= piece;
        }
        Ok(())
    }
}
