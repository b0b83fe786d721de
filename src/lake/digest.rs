//! Digests of files: one of the whole content, and one of each block of it.
//!
//! A Parquet reader takes a flipped bit for data. With digests of blocks in the manifest, a reader
//! of a few bytes reads and checks only the blocks that hold them.

use std::io;
use std::sync::Arc;

use super::disk::DiskReader;

/// Bytes of a block: what is read to read one byte.
pub(crate) const BLOCK_BYTES: usize = 1 << 16;

/// BLAKE3 of each block of a file, one after another, and of all these together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockDigests {
    pub(crate) list: Arc<[u8]>,
    pub(crate) digest: [u8; blake3::OUT_LEN],
}

impl BlockDigests {
    pub(crate) fn new(list: Vec<u8>) -> Self {
        Self { digest: *blake3::hash(&list).as_bytes(), list: list.into() }
    }

    /// Whether the list is the one that was written.
    pub(crate) fn is_intact(&self) -> bool {
        *blake3::hash(&self.list).as_bytes() == self.digest
    }
}

/// What a file holds, as the manifest says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: u64,
    /// BLAKE3 of all of it, in hexadecimal digits.
    pub(crate) digest: String,
    pub(crate) blocks: BlockDigests,
}

impl Content {
    /// Reads a whole file. Returns nothing if the file became shorter meanwhile.
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
    blocks: Vec<u8>,
    open: blake3::Hasher,
    open_bytes: usize,
    bytes: u64,
}

impl ContentHasher {
    pub(crate) fn update(&mut self, mut content: &[u8]) {
        self.whole.update(content);
        self.bytes += content.len() as u64;
        while !content.is_empty() {
            let (block, rest) =
                content.split_at((BLOCK_BYTES - self.open_bytes).min(content.len()));
            self.open.update(block);
            self.open_bytes += block.len();
            if self.open_bytes == BLOCK_BYTES {
                self.close_block();
            }
            content = rest;
        }
    }

    fn close_block(&mut self) {
        self.blocks.extend_from_slice(self.open.finalize().as_bytes());
        self.open.reset();
        self.open_bytes = 0;
    }

    /// Whether the content so far has this length and this digest.
    pub(crate) fn is_of(&self, bytes: u64, digest: &str) -> bool {
        self.bytes == bytes && *self.whole.finalize().to_hex() == *digest
    }

    pub(crate) fn finish(mut self) -> Content {
        if self.open_bytes > 0 {
            self.close_block();
        }
        let digest = self.whole.finalize().to_hex().to_string();
        Content { bytes: self.bytes, digest, blocks: BlockDigests::new(self.blocks) }
    }
}
