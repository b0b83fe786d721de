//! The right to change what is sealed, beside a writer that goes on appending and sealing.

use std::collections::HashSet;
use std::num::NonZeroU64;

use crate::lake::edit::{self, VersionEdit};
use crate::lake::lock::{Lock, Right};
use crate::lake::recovery::recover;
use crate::lake::sqlite::Catalog;
use crate::lake::{Lake, LakeError, Removed, SnapshotId, Table, manifest, orphans, outside};

/// The right to maintain a lake, with a connection of its own: to dedup, to expire snapshots, to
/// delete what none has. Dropping it gives the right back. One process at a time has it; a
/// [`Writer`] may work beside it, so whoever changes *recorded* tables takes that right as well.
///
/// Every call that changes the lake is one transaction: after an `Err` the lake is as before. A
/// file that a snapshot has, [`collect`](Self::collect) alone deletes, when no snapshot has it any
/// more.
///
/// [`Writer`]: crate::lake::Writer
#[derive(Debug)]
pub struct Maintenance {
    pub(crate) lake: Lake,
    pub(crate) catalog: Catalog,
    _lock: Lock,
}

/// Which snapshots an expiry leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// So many of the newest.
    Newest(NonZeroU64),
    /// Those from this number on, and the newest in any case.
    From(SnapshotId),
}

/// What an expiry did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// How many snapshots were forgotten.
    pub snapshots: u64,
    /// The oldest one that is left.
    pub oldest: SnapshotId,
    /// The newest one.
    pub newest: SnapshotId,
    /// The files that no snapshot has any more, and that [`Maintenance::collect`] will remove.
    pub freed: Removed,
}

/// What a collection did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collected {
    /// The files that are gone.
    pub removed: Removed,
    /// True when a writer was at work. What a crash left of recorded tables then stays: it could be
    /// what the writer is about to add.
    pub writer_at_work: bool,
}

impl Lake {
    /// Takes the right to maintain the lake, beside a writer or without one, brings files to their
    /// places, and removes what a crash left of derived tables.
    ///
    /// # Errors
    ///
    /// [`LakeError::BeingMaintained`] when another process has it, [`LakeError::ReadOnly`].
    pub fn maintenance(&self) -> Result<Maintenance, LakeError> {
        Maintenance::open(self)
    }
}

impl Maintenance {
    pub(super) fn open(lake: &Lake) -> Result<Self, LakeError> {
        let lock = Lock::take(&lake.disk, &lake.path, Right::Maintain)?;
        let lake = &lake.current()?;
        let catalog = Catalog::open_for_writing(lake)?;
        let maintenance = Self { lake: lake.clone(), catalog, _lock: lock };
        let derived = Table::ALL.into_iter().filter(|table| table.is_derived());
        orphans::remove_temporary(lake, derived)?;
        recover(lake, &maintenance.catalog)?;
        maintenance.forget_in_log()?;
        Ok(maintenance)
    }

    /// The lake.
    pub fn lake(&self) -> &Lake {
        &self.lake
    }

    /// Applies a change of what is sealed, in one transaction and a snapshot of its own. A reader
    /// sees all of it or nothing. The caller also has the right to write if `edit` changes recorded
    /// tables.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The lake is then unchanged; new files are
    /// removed by the next process to maintain the lake.
    pub(crate) fn apply(&mut self, edit: &VersionEdit) -> Result<SnapshotId, LakeError> {
        let id = edit::apply(&mut self.catalog, &self.lake, edit)?;
        Ok(id.expect("every edit but a seal makes a snapshot"))
    }

    /// Forgets old snapshots, in one transaction, and never the newest. Deletes no file: that is
    /// left to [`collect`](Self::collect), so whoever reads a forgotten snapshot reads on.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and what else a disk does. Nothing is forgotten then.
    pub fn expire(&mut self, keep: Keep) -> Result<Expired, LakeError> {
        let (path, lake) = (self.catalog.path().to_owned(), self.lake.path.clone());
        let transaction = self.catalog.write()?;
        let forget = || {
            let all = manifest::snapshots(&transaction)?;
            let before = manifest::retired(&transaction, &self.lake)?;
            let first = match keep {
                Keep::Newest(count) => {
                    let left = usize::try_from(count.get()).unwrap_or(usize::MAX);
                    all.len().saturating_sub(left)
                }
                Keep::From(id) => all.partition_point(|row| row.id < id),
            };
            let newest = all.last().expect("a lake has a snapshot").id;
            let oldest = all.get(first).map_or(newest, |row| row.id);
            manifest::forget(&transaction, oldest)?;
            let after = manifest::listed_paths(&transaction, &lake)?;
            let mut freed = Removed::default();
            let mut seen = HashSet::new();
            for segment in before.iter().filter(|segment| !after.contains(&segment.path)) {
                if seen.insert(&segment.path) {
                    freed.files += 1;
                    freed.bytes += segment.bytes;
                }
            }
            let forgotten = all.iter().filter(|row| row.id < oldest).count() as u64;
            Ok(Expired { snapshots: forgotten, oldest, newest, freed })
        };
        let expired = forget().map_err(LakeError::sqlite(&path))?;
        if expired.snapshots > 0 {
            Catalog::commit(transaction, &path, &self.lake.disk)?;
            // What cannot be forgotten here now is forgotten by the next process to maintain the
            // lake.
            let forgotten = self.forget_in_log();
            let forgotten =
                forgotten.and_then(|()| outside::forget(&self.lake, &self.catalog, expired.oldest));
            if let Err(error) = forgotten {
                tracing::warn!(%error, "other tools still list expired snapshots");
            }
        }
        Ok(expired)
    }

    /// Deletes the files that no snapshot has any more, and what a crash left. Killed in between,
    /// it has deleted some of them; the rest goes the next time.
    ///
    /// # Errors
    ///
    /// [`LakeError::BeingRead`] while somebody reads the lake: then nothing is deleted, since what
    /// is read may be a snapshot that has expired.
    pub fn collect(&mut self) -> Result<Collected, LakeError> {
        let lake = &self.lake;
        let _alone = Lock::without_readers(&lake.path)?;
        let writer = match Lock::take(&lake.disk, &lake.path, Right::Write) {
            Ok(lock) => Some(lock),
            Err(LakeError::Busy { .. }) => None,
            Err(error) => return Err(error),
        };
        let keep = self.catalog.reading(|log| manifest::listed_paths(log, &lake.path))?;
        // A writer may be about to list a file of the same content as one that has expired.
        let tables = Table::ALL.into_iter().filter(|table| writer.is_some() || table.is_derived());
        let removed = orphans::remove_unlisted(lake, tables, &keep)?;
        Ok(Collected { removed, writer_at_work: writer.is_none() })
    }
}
