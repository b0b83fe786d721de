//! The manifest's digests of the blocks of a file, made anew where they are damaged and the file is
//! not.
//!
//! `content` does not hold these lists, since they grow as the lake; it holds a digest of each. So
//! damage to a list says nothing about the file that it is of: whatever the file's own digest and
//! that of the list agree on was written.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::damage;
use crate::store::disk::{BLOCK_BYTES, DiskReader};
use crate::store::{BlockDigests, Maintenance, Segment, StoreError, manifest, retired};

/// What a file holds, as the manifest says it of a sound one.
pub(super) struct Content {
    pub(super) bytes: u64,
    /// BLAKE3 of all of it, hex.
    pub(super) digest: String,
    pub(super) blocks: BlockDigests,
}

impl Content {
    /// Reads a whole file. None where it got shorter while it was read.
    pub(super) fn read(file: &DiskReader) -> io::Result<Option<Self>> {
        let bytes = file.bytes()?;
        let mut whole = blake3::Hasher::new();
        let mut blocks = Vec::new();
        let mut block = vec![0; BLOCK_BYTES];
        for start in (0..bytes).step_by(BLOCK_BYTES) {
            let read = file.read_at(&mut block, start)?;
            if read == 0 {
                return Ok(None);
            }
            whole.update(&block[..read]);
            blocks.extend_from_slice(blake3::hash(&block[..read]).as_bytes());
        }
        let digest = whole.finalize().to_hex().to_string();
        Ok(Some(Self { bytes, digest, blocks: BlockDigests::new(blocks) }))
    }

    fn is_of(&self, segment: &Segment) -> bool {
        let own = (self.bytes, self.digest.as_str(), &self.blocks.digest);
        own == (segment.bytes, segment.digest.as_str(), &segment.blocks.digest)
    }
}

impl Maintenance {
    /// Mends the lists that are damaged of files that are not, whichever snapshots have them. Says
    /// which files these are. The caller has the right to write too.
    ///
    /// One transaction, durable on return, and no new snapshot: no row of any comes or goes. Until
    /// it is committed readers are refused the files, as before.
    pub(super) fn mend_digests(&mut self) -> Result<Vec<PathBuf>, StoreError> {
        let all = self.catalog.reading(|log| manifest::readable(log, &self.lake))?;
        let mut mended = BTreeMap::new();
        for segment in all.into_iter().filter(|segment| !segment.blocks.is_intact()) {
            // A disk may fail for a moment.
            let found = match sound(&segment)? {
                None => sound(&segment)?,
                found => found,
            };
            if let Some(blocks) = found {
                mended.insert(segment.path, blocks);
            }
        }
        if mended.is_empty() {
            return Ok(Vec::new());
        }
        let (path, lake) = (self.catalog.path().to_owned(), self.lake.path.clone());
        let transaction = self.catalog.write()?;
        let mut write = mended
            .iter()
            .map(|(path, blocks)| manifest::mend_blocks(&transaction, &lake, path, blocks));
        write.try_for_each(|written| written).map_err(StoreError::sqlite(&path))?;
        self.lake.disk.commit(transaction, &path)?;
        // The transaction is durable either way.
        let _ = self.catalog.settle();
        Ok(mended.into_keys().collect())
    }
}

/// The digests of the blocks of a segment's file, where the file is what was written.
fn sound(segment: &Segment) -> Result<Option<BlockDigests>, StoreError> {
    let read = || Content::read(&retired::open(&segment.path, &segment.disk)?);
    match read() {
        Ok(content) => {
            let content = content.filter(|content| content.is_of(segment));
            Ok(content.map(|content| content.blocks))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => unreadable(&segment.path, error).map(|()| None),
    }
}

/// Passes over a file that the disk cannot read: it is dropped with what else is damaged.
fn unreadable(path: &Path, error: io::Error) -> Result<(), StoreError> {
    damage(StoreError::io("read", path)(error)).map(drop)
}
