//! What the catalog keeps of a fetch and of a publication, to detect later changes by others.

use rusqlite::Connection;

use super::inventory::Inventory;
use crate::kernel::versions::catalog;
use crate::kernel::versions::manifest::{self, FetchRecord};
use crate::kernel::versions::sqlite::Catalog;
use crate::kernel::{Lake, LakeError, RunRow};

/// Returns what a lake holds that no fetch brought, in the words of a message; `None` if nothing.
pub(super) fn own_work(log: &Connection) -> rusqlite::Result<Option<&'static str>> {
    work_since(log, manifest::fetched(log)?.as_ref())
}

/// Returns the note of the last publication, if it covers all that the lake holds.
pub(super) fn publication(log: &Connection) -> rusqlite::Result<Option<String>> {
    let Some(published) = manifest::published(log)? else { return Ok(None) };
    let is_all = work_since(log, Some(&published))?.is_none();
    Ok(is_all.then_some(published.what))
}

/// Returns what a lake holds that it did not hold at this fetch or publication.
fn work_since(
    log: &Connection,
    record: Option<&FetchRecord>,
) -> rusqlite::Result<Option<&'static str>> {
    let has = |rows: &str| -> rusqlite::Result<bool> {
        log.query_row(&format!("SELECT EXISTS (SELECT 1 FROM {rows})"), [], |row| row.get(0))
    };
    let Some(record) = record else {
        let is_own =
            has("segments WHERE table_name <> 'actions'")? || has("runs")? || has("frames")?;
        return Ok(is_own.then_some("it was not made by a fetch"));
    };
    let after = record.snapshot.0;
    if has("frames")? {
        return Ok(Some("rows were recorded in it that are not sealed"));
    }
    if runs_digest(&catalog::runs(log)?) != record.runs {
        return Ok(Some("a run was begun in it"));
    }
    if has(&format!("retractions WHERE snapshot_id > {after}"))? {
        return Ok(Some("something was retracted in it"));
    }
    if has(&format!("snapshots WHERE kind = 'backfill' AND snapshot_id > {after}"))? {
        return Ok(Some("observations were backfilled in it"));
    }
    if has(&format!("snapshots WHERE kind = 'compact' AND snapshot_id > {after}"))? {
        return Ok(Some("its files were merged"));
    }
    // A repair writes the intact rows of fetched files, so its segments do not count. Retired ones
    // do: a repair may have written their intact rows. Losses outlive the snapshots of repairs.
    let repairs = "SELECT snapshot_id FROM snapshots WHERE kind = 'repair'
                   UNION SELECT snapshot_id FROM losses";
    let added = "segments WHERE layer IS NULL AND table_name <> 'actions'";
    let added = has(&format!("{added} AND added_in > {after} AND added_in NOT IN ({repairs})"))?;
    Ok(added.then_some("rows were sealed in it"))
}

/// Returns the digest of a list of runs.
pub(super) fn runs_digest(runs: &[RunRow]) -> String {
    let mut hasher = blake3::Hasher::new();
    for run in runs {
        let row = format!("{} {} {} {}\n", run.id.0, run.uid, run.finished, run.arguments);
        hasher.update(row.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

impl Lake {
    /// Returns what the lake was fetched from, as
    /// [`ReplicaWriter::complete`](super::ReplicaWriter::complete) was told; `None` if it was not
    /// fetched.
    ///
    /// # Errors
    ///
    /// Returns an error if the catalog cannot be read.
    pub fn fetched(&self) -> Result<Option<String>, LakeError> {
        let catalog = Catalog::open_for_reading(self)?;
        Ok(catalog.reading(manifest::fetched)?.map(|fetched| fetched.what))
    }

    /// Notes that a published version has everything in the inventory of a sealed part of this
    /// lake; `note` tells the caller which version. Writes nothing if a fetch brought all that the
    /// lake holds. The note is durable on return, and gone after the next fetch.
    ///
    /// # Errors
    ///
    /// [`LakeError::BeingMaintained`], [`LakeError::ReadOnly`], and errors of the disk.
    pub fn note_publication(&self, inventory: &Inventory, note: &str) -> Result<(), LakeError> {
        if Catalog::open_for_reading(self)?.reading(own_work)?.is_none() {
            return Ok(());
        }
        let (what, snapshot) = (note.to_owned(), inventory.snapshot);
        let published = FetchRecord { what, snapshot, runs: runs_digest(&inventory.runs) };
        let mut maintenance = self.maintenance()?;
        maintenance.catalog.writing(|log| manifest::set_published(log, &published))
    }

    /// Returns the note of the last publication, if the lake holds something that no fetch brought
    /// and nothing that came after that publication: then the version in the note has everything in
    /// this lake.
    ///
    /// # Errors
    ///
    /// Returns an error if the catalog cannot be read.
    pub fn publication(&self) -> Result<Option<String>, LakeError> {
        Catalog::open_for_reading(self)?.reading(|log| match own_work(log)? {
            Some(_) => publication(log),
            None => Ok(None),
        })
    }
}
