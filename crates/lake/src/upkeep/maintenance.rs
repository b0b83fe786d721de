//! The right to change the sealed part of a lake, while a writer may append and seal.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use crate::kernel::files::lock::{Lock, Right};
use crate::kernel::files::reserve;
use crate::kernel::segments::orphans;
use crate::kernel::versions::edit::{self, VersionEdit};
use crate::kernel::versions::manifest;
use crate::kernel::versions::recovery::recover;
use crate::kernel::versions::sqlite::Catalog;
use crate::kernel::{Lake, LakeError, Removed, SnapshotId, Table, other_tools};

/// How long a maintainer waits for another one.
const MOMENT: Duration = Duration::from_secs(1);

/// The right to maintain a lake, with its own connection: to dedup, to expire snapshots, to delete
/// files that no snapshot has. Dropping it returns the right. One process at a time has it. A
/// [`Writer`] may work beside it, so a change of *recorded* tables also takes the right to write.
///
/// Every call that changes the lake is one transaction: after an `Err` the lake is as before. Only
/// [`collect`](Self::collect) deletes files of segments, after the last snapshot that has them is
/// gone.
///
/// [`Writer`]: crate::kernel::Writer
#[derive(Debug)]
pub struct Maintenance {
    pub(crate) lake: Lake,
    pub(crate) catalog: Catalog,
    _lock: Lock,
}

/// The snapshots that an expiry keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// This many of the newest.
    Newest(NonZeroU64),
    /// Those from this number on, and always the newest.
    From(SnapshotId),
}

/// The result of an expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// Number of snapshots that were forgotten.
    pub snapshots: u64,
    /// The oldest remaining snapshot.
    pub oldest: SnapshotId,
    /// The newest snapshot.
    pub newest: SnapshotId,
    /// The files that no snapshot has any more; [`Maintenance::collect`] will remove them.
    pub freed: Removed,
}

/// The result of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcReport {
    /// The deleted files.
    pub removed: Removed,
    /// True if a writer was at work. Unlisted files of recorded tables then stay, since the writer
    /// may be about to list them.
    pub writer_at_work: bool,
    /// Earlier folders of `current` that stay for now, since other tools may be reading them. They
    /// hold on to the disk space of removed files.
    pub views_left: u64,
}

impl Lake {
    /// Takes the right to maintain the lake, with or without a writer at work. Completes what a
    /// crash interrupted, and removes temporary files of derived tables.
    ///
    /// # Errors
    ///
    /// [`LakeError::BeingMaintained`] if another process has the right for longer than a moment, as
    /// a recorder has it that has merged small files; [`LakeError::ReadOnly`].
    pub fn maintenance(&self) -> Result<Maintenance, LakeError> {
        let began = Instant::now();
        let lock = loop {
            match Lock::take(&self.disk, &self.path, Right::Maintain) {
                Err(LakeError::BeingMaintained { .. }) if began.elapsed() < MOMENT => {
                    std::thread::sleep(MOMENT / 50);
                }
                taken => break taken?,
            }
        };
        let lake = self.current()?;
        let catalog = Catalog::open_for_writing(&lake)?;
        let maintenance = Maintenance { lake, catalog, _lock: lock };
        let lake = &maintenance.lake;
        let derived = Table::ALL.into_iter().filter(|table| table.is_derived());
        orphans::remove_temporary(lake, derived)?;
        recover(lake, &maintenance.catalog)?;
        maintenance.forget_in_log()?;
        reserve::keep(&lake.path);
        Ok(maintenance)
    }

    /// Does the same for an expiry and a collection, which make room: where the disk is full, they
    /// may use what the lake has in reserve. A collection that has found room makes a reserve
    /// again.
    ///
    /// # Errors
    ///
    /// Those of [`maintenance`](Self::maintenance).
    pub fn making_room(&self) -> Result<Maintenance, LakeError> {
        reserve::use_for(&self.path, || self.maintenance())
    }
}

impl Maintenance {
    /// The lake.
    pub fn lake(&self) -> &Lake {
        &self.lake
    }

    /// Applies a change of the sealed part, in one transaction and a snapshot of its own. A reader
    /// sees all of it or nothing. If `edit` changes recorded tables, the caller also has the right
    /// to write.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The lake is then unchanged; new files are
    /// removed by the next process to maintain the lake.
    pub(crate) fn apply(&mut self, edit: &VersionEdit) -> Result<SnapshotId, LakeError> {
        let id = edit::apply(&mut self.catalog, &self.lake, edit)?;
        Ok(id.expect("every edit but a seal makes a snapshot"))
    }

    /// Forgets old snapshots in one transaction, but never the newest. Only
    /// [`collect`](Self::collect) deletes files, so a reader of a forgotten snapshot can continue.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. Nothing is then forgotten.
    pub fn expire(&mut self, keep: Keep) -> Result<Expired, LakeError> {
        let lake = self.lake.path.clone();
        reserve::use_for(&lake, || self.forget(keep))
    }

    fn forget(&mut self, keep: Keep) -> Result<Expired, LakeError> {
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
            let gone = before.iter().filter(|segment| !after.contains(&segment.path));
            // A file may have been part of the lake more than once.
            let gone = gone.map(|it| (&it.path, it.bytes)).collect::<HashMap<_, _>>();
            let freed = Removed { files: gone.len() as u64, bytes: gone.values().sum() };
            let forgotten = all.iter().filter(|row| row.id < oldest).count() as u64;
            Ok(Expired { snapshots: forgotten, oldest, newest, freed })
        };
        let expired = forget().map_err(LakeError::sqlite(&path))?;
        if expired.snapshots > 0 {
            Catalog::commit(transaction, &path, &self.lake.disk)?;
            // If this fails without the reserve too, the next process to maintain the lake mends
            // the log of snapshots, and the next collection the Delta tables.
            let forget = || other_tools::forget(&self.lake, &self.catalog);
            let forget = || self.forget_in_log().and_then(|()| forget());
            if let Err(error) = reserve::use_for(&lake, forget) {
                tracing::warn!(%error, "other tools still list expired snapshots");
            }
        }
        Ok(expired)
    }

    /// Deletes the files that no snapshot has, including those that a crash left. If it is killed,
    /// the next call deletes the rest.
    ///
    /// # Errors
    ///
    /// [`LakeError::BeingRead`] while somebody reads the lake. Nothing is then deleted, since the
    /// reader may have an expired snapshot open.
    pub fn collect(&mut self) -> Result<GcReport, LakeError> {
        let collected = reserve::use_for(&self.lake.path, || self.delete_unlisted());
        reserve::keep(&self.lake.path);
        collected
    }

    fn delete_unlisted(&self) -> Result<GcReport, LakeError> {
        let lake = &self.lake;
        let _alone = Lock::without_readers(&lake.path)?;
        let writer = match Lock::take(&lake.disk, &lake.path, Right::Write) {
            Ok(lock) => Some(lock),
            Err(LakeError::Busy { .. }) => None,
            Err(error) => return Err(error),
        };
        let keep = self.catalog.reading(|log| manifest::listed_paths(log, &lake.path))?;
        // A writer may be about to list a file with the content of an expired one.
        let tables = Table::ALL.into_iter().filter(|table| writer.is_some() || table.is_derived());
        let removed = orphans::remove_unlisted(lake, tables, &keep)?;
        let views_left = other_tools::collect(lake, &self.catalog)?;
        Ok(GcReport { removed, writer_at_work: writer.is_none(), views_left })
    }
}
