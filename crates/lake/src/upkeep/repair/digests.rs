//! The manifest's digests of the blocks of files, computed again where they are damaged.
//!
//! `content` has only a digest of each of these lists, since they grow with the lake. Damage to a
//! list therefore says nothing about its file: if the file matches its own digest and its blocks
//! match the digest of the list, both are what was written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::damage::intact;
use crate::kernel::LakeError;
use crate::kernel::versions::manifest;
use crate::upkeep::maintenance::Maintenance;

impl Maintenance {
    /// Computes damaged lists of sound files again, in whichever snapshots the files are. Returns
    /// these files. The caller also has the right to write.
    ///
    /// This is one transaction, durable on return, and no new snapshot, since no row changes. Until
    /// the commit, readers are refused the files as before.
    pub(super) fn mend_digests(&mut self) -> Result<Vec<PathBuf>, LakeError> {
        let all = self.catalog.reading(|log| manifest::readable(log, &self.lake))?;
        let mut mended = BTreeMap::new();
        for segment in all.into_iter().filter(|segment| !segment.blocks.is_intact()) {
            if let Some(content) = intact(&self.lake, &segment.path, &segment.digest)?
                && content.bytes == segment.bytes
                && content.blocks.digest == segment.blocks.digest
            {
                mended.insert(segment.path, content.blocks);
            }
        }
        if mended.is_empty() {
            return Ok(Vec::new());
        }
        let lake = &self.lake.path;
        self.catalog.writing(|log| {
            let mut mended = mended.iter();
            mended.try_for_each(|(path, blocks)| manifest::mend_blocks(log, lake, path, blocks))
        })?;
        // The transaction is durable even if this fails.
        let _ = self.catalog.checkpoint();
        Ok(mended.into_keys().collect())
    }
}
