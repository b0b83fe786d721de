//! The manifest's digests of the blocks of a file, made anew where they are damaged and the file is
//! not.
//!
//! `content` does not hold these lists, since they grow as the lake; it holds a digest of each. So
//! damage to a list says nothing about the file that it is of: whatever the file's own digest and
//! that of the list agree on was written.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::damage::damage;
use crate::lake::digest::{BlockDigests, Content};
use crate::lake::sqlite::Catalog;
use crate::lake::{LakeError, Segment, manifest};
use crate::upkeep::maintenance::Maintenance;

impl Maintenance {
    /// Mends the lists that are damaged of files that are not, whichever snapshots have them. Says
    /// which files these are. The caller has the right to write too.
    ///
    /// One transaction, durable on return, and no new snapshot: no row of any comes or goes. Until
    /// it is committed readers are refused the files, as before.
    pub(super) fn mend_digests(&mut self) -> Result<Vec<PathBuf>, LakeError> {
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
        write.try_for_each(|written| written).map_err(LakeError::sqlite(&path))?;
        Catalog::commit(transaction, &path, &self.lake.disk)?;
        // The transaction is durable either way.
        let _ = self.catalog.checkpoint();
        Ok(mended.into_keys().collect())
    }
}

/// The digests of the blocks of a segment's file, where the file is what was written.
fn sound(segment: &Segment) -> Result<Option<BlockDigests>, LakeError> {
    let read = || Content::read(&segment.disk.open(&segment.path)?);
    match read() {
        Ok(content) => {
            let content = content.filter(|content| is_of(content, segment));
            Ok(content.map(|content| content.blocks))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => unreadable(&segment.path, error).map(|()| None),
    }
}

/// Passes over a file that the disk cannot read: it is dropped with what else is damaged.
fn unreadable(path: &Path, error: io::Error) -> Result<(), LakeError> {
    damage(LakeError::io("read", path)(error)).map(drop)
}

fn is_of(content: &Content, segment: &Segment) -> bool {
    let found = (content.bytes, content.digest.as_str(), &content.blocks.digest);
    found == (segment.bytes, segment.digest.as_str(), &segment.blocks.digest)
}
