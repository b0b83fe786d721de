//! Digests of files: one of the whole content, and one of each block.
//!
//! A Parquet reader does not notice a flipped bit. The manifest therefore has the digests of all
//! blocks, and a reader of a few bytes reads and checks only the blocks that hold these bytes.

use std::io;
use std::sync::Arc;

use super::disk::DiskReader;

/// Bytes of a block, which is the least that is read at once.
pub(crate) const BLOCK_BYTES: usize = 1 << 16;

/// The BLAKE3 digests of the blocks of a file, concatenated, and the digest of this list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockDigests {
    pub(crate) list: Arc<[u8]>,
    pub(crate) digest: [u8; blake3::OUT_LEN],
}

impl BlockDigests {
    pub(crate) fn new(list: Vec<u8>) -> Self {
        Self { digest: *blake3::hash(&list).as_bytes(), list: list.into() }
    }

    /// Whether the list is what was written.
    pub(crate) fn is_intact(&self) -> bool {
        *blake3::hash(&self.list).as_bytes() == self.digest
    }
}

/// What the manifest says of the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: u64,
    /// BLAKE3 of the whole content, in hexadecimal digits.
    pub(crate) digest: String,
    pub(crate) blocks: BlockDigests,
}

impl Content {
    /// Reads a whole file. Returns none if the file becomes shorter meanwhile.
    pub(crate) fn read(file: &DiskReader) -> io::Result<Option<Self>> {
        let bytes = file.bytes()?;
        let mut hasher = ContentHasher::default();
        let mut block = vec![0; BLOCK_BYTES];
        for start in (0..bytes).step_by(BLOCK_BYTES) {
            let read = file.read_at(&mut block, start)?;
            if read == 0 {
                return Ok(None);
            }
            hasher.update(&block[..read]);
        }
        Ok((hasher.bytes == bytes).then(|| hasher.finish()))
    }
}

/// Computes the digests of a content that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct ContentHasher {
    whole: blake3::Hasher,
    blocks: BlockHasher<BLOCK_BYTES>,
    bytes: u64,
}

impl ContentHasher {
    pub(crate) fn update(&mut self, content: &[u8]) {
        self.whole.update(content);
        self.blocks.update(content);
        self.bytes += content.len() as u64;
    }

    /// Whether the content so far has this length and this digest.
    pub(crate) fn is_of(&self, bytes: u64, digest: &str) -> bool {
        self.bytes == bytes && *self.whole.finalize().to_hex() == *digest
    }

    pub(crate) fn finish(mut self) -> Content {
        let digest = self.whole.finalize().to_hex().to_string();
        self.blocks.end();
        let blocks = BlockDigests::new(self.blocks.digests.into_flattened());
        Content { bytes: self.bytes, digest, blocks }
    }
}

/// Computes a digest of each block of so many bytes of a content that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct BlockHasher<const BYTES: usize> {
    digests: Vec<[u8; blake3::OUT_LEN]>,
    open: blake3::Hasher,
    open_bytes: usize,
}

impl<const BYTES: usize> BlockHasher<BYTES> {
    pub(crate) fn update(&mut self, mut content: &[u8]) {
        while !content.is_empty() {
            let (block, rest) = content.split_at((BYTES - self.open_bytes).min(content.len()));
            self.open.update(block);
            self.open_bytes += block.len();
            if self.open_bytes == BYTES {
                self.end();
            }
            content = rest;
        }
    }

    /// Ends the last block, if it has begun.
    fn end(&mut self) {
        if self.open_bytes > 0 {
            self.digests.push(self.open.finalize().into());
            self.open.reset();
            self.open_bytes = 0;
        }
    }

    /// Whether the blocks from this one on are what was hashed. The last block may be open.
    pub(crate) fn are_intact(&self, first: usize, content: &[u8]) -> bool {
        content.chunks(BYTES).zip(first..).all(|(block, number)| {
            let known = self.digests.get(number).copied();
            blake3::hash(block) == known.unwrap_or_else(|| self.open.finalize().into())
        })
    }
}
