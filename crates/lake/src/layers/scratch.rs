//! Temporary files for work that does not fit into memory.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::kernel::files::digest::BlockHasher;
use crate::kernel::{Disk, DiskOperation, Lake, LakeError};

/// Bytes that are written or read at once: several blocks.
const MOVE_BYTES: usize = 1 << 18;
/// Bytes of a block, which has one digest.
const BLOCK_BYTES: usize = 1 << 14;
const WORD: usize = size_of::<u64>();

/// A file without a name in the lake's folder. It disappears when this is dropped and after a
/// crash. Words are appended to it and read back. Reads are checked against digests in memory.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: File,
    disk: Disk,
    lake: PathBuf,
    words: u64,
    bytes: Vec<u8>,
    blocks: BlockHasher<BLOCK_BYTES>,
}

/// The place of a stretch of words in a [`Scratch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordRange {
    /// The number of the first word.
    pub(crate) start: u64,
    /// The number of words.
    pub(crate) words: usize,
}

impl Scratch {
    /// Makes a file for work on `lake`.
    pub(crate) fn create(lake: &Lake) -> Result<Self, LakeError> {
        let path = lake.path();
        let file =
            tempfile::tempfile_in(path).map_err(LakeError::io("make a temporary file in", path))?;
        Ok(Self {
            file,
            disk: lake.disk.clone(),
            lake: path.to_owned(),
            words: 0,
            bytes: Vec::with_capacity(MOVE_BYTES),
            blocks: BlockHasher::default(),
        })
    }

    /// Writes words at the end.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The file can then no longer be used.
    pub(crate) fn append(&mut self, words: &[u64]) -> Result<WordRange, LakeError> {
        for piece in words.chunks(MOVE_BYTES / WORD) {
            self.bytes.clear();
            self.bytes.extend(piece.iter().flat_map(|word| word.to_le_bytes()));
            self.disk
                .ask(DiskOperation::Scratch(&self.lake, self.bytes.len()))
                .and_then(|_| self.file.write_all(&self.bytes))
                .map_err(LakeError::io("write a temporary file in", &self.lake))?;
            self.blocks.update(&self.bytes);
        }
        let stretch = WordRange { start: self.words, words: words.len() };
        self.words += words.len() as u64;
        Ok(stretch)
    }

    /// Reads a stretch and appends it to `words`.
    ///
    /// # Errors
    ///
    /// [`LakeError::Io`] if it cannot be read, [`LakeError::Corrupt`] if it is not what was
    /// written.
    pub(crate) fn read(&self, stretch: WordRange, words: &mut Vec<u64>) -> Result<(), LakeError> {
        let block = BLOCK_BYTES as u64;
        let start = stretch.start * WORD as u64;
        let end = start + (stretch.words * WORD) as u64;
        let last = end.next_multiple_of(block).min(self.words * WORD as u64);
        let mut bytes = Vec::new();
        let mut at = start / block * block;
        while at < last {
            let piece = last.min(at + MOVE_BYTES as u64) - at;
            bytes.resize(usize::try_from(piece).expect("a piece is small"), 0);
            self.disk
                .ask(DiskOperation::Read(&self.lake, bytes.len()))
                .and_then(|_| self.file.read_exact_at(&mut bytes, at))
                .map_err(LakeError::io("read a temporary file in", &self.lake))?;
            let number = usize::try_from(at / block).expect("blocks are counted in memory");
            if !self.blocks.are_intact(number, &bytes) {
                let what = "a temporary file in it reads otherwise than it was written: \
                            is the disk sound?";
                return Err(LakeError::corrupt(&self.lake, what));
            }
            let within =
                |place: u64| usize::try_from(place.clamp(at, at + piece) - at).unwrap_or(0);
            let (read, _) = bytes[within(start)..within(end)].as_chunks::<WORD>();
            words.extend(read.iter().map(|word| u64::from_le_bytes(*word)));
            at += piece;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_stretch_comes_back_and_a_changed_byte_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let mut scratch = Scratch {
            file: tempfile::tempfile_in(folder.path()).unwrap(),
            disk: Disk::default(),
            lake: folder.path().to_owned(),
            words: 0,
            bytes: Vec::new(),
            blocks: BlockHasher::default(),
        };
        let all = (0..100_000_u64).map(|number| number * number).collect::<Vec<_>>();
        for piece in all.chunks(777) {
            scratch.append(piece).unwrap();
        }
        for (start, words) in [(0, 1), (0, 100_000), (99_999, 1), (2047, 2), (5000, 40_000), (7, 0)]
        {
            let mut read = vec![1];
            scratch.read(WordRange { start: start as u64, words }, &mut read).unwrap();
            assert_eq!(read[1..], all[start..start + words]);
        }
        for place in [0, 300_000, 799_999] {
            let mut byte = [0];
            scratch.file.read_exact_at(&mut byte, place).unwrap();
            scratch.file.write_all_at(&[byte[0] ^ 1], place).unwrap();
            let stretch = WordRange { start: place / 8, words: 1 };
            let error = scratch.read(stretch, &mut Vec::new()).unwrap_err();
            assert!(matches!(error, LakeError::Corrupt { .. }), "{error}");
            scratch.file.write_all_at(&byte, place).unwrap();
            scratch.read(stretch, &mut Vec::new()).unwrap();
        }
    }
}
