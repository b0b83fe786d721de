//! Recovery from crashes, which every process that changes a lake does first.

use super::manifest;
use super::snapshot_log;
use super::sqlite::Catalog;
use crate::kernel::error::LakeError;
use crate::kernel::handle::Lake;
use crate::kernel::other_tools;

/// Removes the entry of a snapshot that was never committed, and shows other tools the newest
/// snapshot. The caller has the right to write or to maintain the lake.
///
/// # Errors
///
/// [`LakeError::Corrupt`] if the database is older than the log of snapshots; disk errors.
pub(crate) fn recover(lake: &Lake, catalog: &Catalog) -> Result<(), LakeError> {
    // The transaction keeps other processes from committing the snapshot of an entry meanwhile.
    let newest = {
        let transaction = catalog.read_alone()?;
        let history = manifest::snapshots(&transaction).map_err(catalog.error())?;
        let Some(newest) = history.last() else { return Ok(()) };
        snapshot_log::remove_uncommitted(lake, newest.id)?;
        newest.id
    };
    if let Err(error) = other_tools::update(lake, catalog) {
        tracing::warn!(%error, %newest, "other tools see an older snapshot for now");
    }
    Ok(())
}
