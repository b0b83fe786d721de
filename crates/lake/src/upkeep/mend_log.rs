//! Entries of the log of snapshots, made from the catalog: after an expiry, when the log has to
//! begin later, and in place of damaged entries.

use std::path::PathBuf;

use rusqlite::Connection;

use super::maintenance::Maintenance;
use crate::kernel::versions::catalog;
use crate::kernel::versions::losses;
use crate::kernel::versions::manifest;
use crate::kernel::versions::manifest::Derived;
use crate::kernel::versions::retractions;
use crate::kernel::versions::snapshot_log::{self, LogEntry};
use crate::kernel::{Lake, LakeError, Segment, SnapshotKind, SnapshotRow};

impl Maintenance {
    /// Removes the entries before the oldest snapshot from the log of snapshots.
    pub(super) fn forget_in_log(&self) -> Result<(), LakeError> {
        let history = self.catalog.reading(manifest::snapshots)?;
        let first = snapshot_log::numbers(&self.lake)?.first().copied();
        let (Some(oldest), Some(first)) = (history.first(), first) else { return Ok(()) };
        if first >= oldest.id {
            return Ok(());
        }
        let entry = self.catalog.reading(|log| entry(log, &self.lake, oldest, true))?;
        snapshot_log::write(&self.lake, &entry)?;
        snapshot_log::forget(&self.lake, oldest.id)
    }

    /// Writes damaged and missing entries of the log of snapshots again, and returns their files.
    /// Each is durable on its own.
    pub(super) fn mend_log(&self) -> Result<Vec<PathBuf>, LakeError> {
        let history = self.catalog.reading(manifest::snapshots)?;
        let Some(oldest) = history.first().map(|row| row.id) else { return Ok(Vec::new()) };
        let mut mended = Vec::new();
        for (id, path, _) in snapshot_log::damage(&self.lake, &history)? {
            let row = history.iter().find(|row| row.id == id).expect("it is one of these");
            let entry = self.catalog.reading(|log| entry(log, &self.lake, row, id == oldest))?;
            snapshot_log::write(&self.lake, &entry)?;
            mended.push(path);
        }
        Ok(mended)
    }
}

/// Makes the entry of a snapshot. The oldest one, and one that a fetch made, list all that the
/// snapshot holds.
fn entry(
    log: &Connection,
    lake: &Lake,
    row: &SnapshotRow,
    is_oldest: bool,
) -> rusqlite::Result<LogEntry> {
    let id = row.id;
    let fetched = manifest::fetched(log)?.filter(|fetched| fetched.snapshot <= id);
    let is_fetched = fetched.as_ref().is_some_and(|fetched| fetched.snapshot == id);
    let whole = is_oldest || is_fetched;
    let path = |segment: &Segment| manifest::relative(&lake.path, &segment.path);
    let paths = |segments: Vec<Segment>| segments.iter().map(path).collect::<Vec<_>>();
    let inputs = manifest::derivation(log, manifest::DEDUP)?;
    let (mut retractions, mut losses) = (retractions::list(log, id)?, losses::list(log, id)?);
    let (add, retire, lost, counted, derived);
    if whole {
        add = manifest::segments(log, lake, id)?;
        (lost, retire) = (paths(manifest::lost(log, lake, id)?), Vec::new());
        counted = add.iter().filter(|segment| segment.is_counted).map(path).collect();
        let has_layers = add.iter().any(|segment| segment.layer.is_some());
        derived = inputs.filter(|_| has_layers).map_or(Derived::Dropped, Derived::Made);
    } else {
        add = manifest::changed_in(log, lake, "added", id)?;
        retire = paths(manifest::changed_in(log, lake, "retired", id)?);
        lost = paths(manifest::lost_before(log, lake, id)?);
        counted = paths(manifest::changed_in(log, lake, "counted", id)?);
        derived = match row.kind {
            // If a later snapshot dropped the tables, nobody asks any more how they were made.
            SnapshotKind::Dedup => Derived::Made(inputs.unwrap_or_default()),
            SnapshotKind::Merge if add.iter().any(|segment| segment.layer.is_some()) => {
                Derived::Made(inputs.unwrap_or_default())
            }
            SnapshotKind::Retract | SnapshotKind::Repair => Derived::Dropped,
            _ => Derived::Kept,
        };
        retractions.retain(|row| row.snapshot == id);
        losses.retain(|row| row.snapshot == id);
    }
    Ok(LogEntry {
        identity: lake.identity.digest(),
        snapshot: id,
        kind: row.kind,
        created_at_ms: row.created_at_ms,
        detail: row.detail.clone(),
        whole,
        add: add.into_iter().map(|segment| segment.row).collect(),
        retire,
        lost,
        counted,
        derived,
        fetched: fetched.filter(|_| whole),
        runs: catalog::runs(log)?,
        retractions,
        losses,
    })
}
