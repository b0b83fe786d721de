//! The right to change what is sealed, beside a writer that goes on appending and sealing.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::path::PathBuf;

use super::catalog::Catalog;
use super::derived::{LayerChange, LayerWriter};
use super::lock::{Lock, ReadersLock, Right};
use super::retired::{self, Removed};
use super::{Lake, LayerId, Segment, SnapshotId, SnapshotKind, StoreError, Table, manifest};

/// The right to maintain a lake, with a connection of its own: to dedup, to expire snapshots, to
/// delete what none has. Dropping it gives the right back. One process at a time has it; a
/// [`Writer`] may work beside it, so whoever changes *recorded* tables takes that right as well.
///
/// Every call that changes the lake is one transaction: after an `Err` the lake is as before. A
/// file that a snapshot has, [`collect`](Self::collect) alone deletes, when no snapshot has it any
/// more.
///
/// [`Writer`]: super::Writer
#[derive(Debug)]
pub struct Maintenance {
    pub(super) lake: Lake,
    pub(super) catalog: Catalog,
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

impl Maintenance {
    pub(super) fn open(lake: &Lake) -> Result<Self, StoreError> {
        let lock = Lock::take(&lake.path, Right::Maintain)?;
        let catalog = Catalog::open_for_writing(&lake.path, &lake.identity, &lake.disk)?;
        let maintenance = Self { lake: lake.clone(), catalog, _lock: lock };
        maintenance.recover()?;
        Ok(maintenance)
    }

    /// Brings files to their places, and removes what a crash left of derived tables.
    fn recover(&self) -> Result<Removed, StoreError> {
        let lake = &self.lake.path;
        retired::bring_back(&self.lake.disk, &self.live()?)?;
        self.settle_where_allowed()?;
        let keep = self.catalog.reading(|log| manifest::listed_paths(log, lake))?;
        let derived = Table::ALL.into_iter().filter(|table| table.is_derived());
        retired::remove_orphans(lake, &self.lake.disk, derived, &keep)
    }

    /// Moves retired files: those of recorded tables only while nobody writes.
    fn settle_where_allowed(&self) -> Result<(), StoreError> {
        let Lake { path, disk, .. } = &self.lake;
        let writer = match Lock::take(path, Right::Write) {
            Ok(lock) => Some(lock),
            Err(StoreError::Busy { .. }) => None,
            Err(error) => return Err(error),
        };
        retired::settle(path, disk, &self.retired()?, writer.is_some())
    }

    /// The files of the newest snapshot.
    fn live(&self) -> Result<HashSet<PathBuf>, StoreError> {
        self.catalog.reading(|log| manifest::live_paths(log, &self.lake.path))
    }

    fn retired(&self) -> Result<Vec<Segment>, StoreError> {
        self.catalog.reading(|log| manifest::retired(log, &self.lake))
    }

    /// The lake.
    pub fn lake(&self) -> &Lake {
        &self.lake
    }

    /// Begins to write the segments of a layer. A table that gets no rows has none. It has to be
    /// published or dropped before the next [`collect`](Self::collect).
    pub fn layer_writer(&self, layer: LayerId) -> LayerWriter {
        LayerWriter::new(self.lake.clone(), layer)
    }

    /// Makes a change of the layers part of the lake, in one transaction and a snapshot of its own.
    /// A reader sees all of it or nothing. The files of retired segments are moved afterwards;
    /// those that cannot be moved now are moved by whoever maintains the lake next.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does. The lake is then as before; new files
    /// that were written are removed by whoever maintains the lake next.
    ///
    /// # Panics
    ///
    /// When the newest snapshot does not have a segment that is to be retired or marked as counted:
    /// nobody else can have retired it.
    pub fn publish(&mut self, change: LayerChange) -> Result<SnapshotId, StoreError> {
        let LayerChange { retire, add, counted, inputs, detail } = change;
        let mut segments = Vec::new();
        for layer in add {
            segments.extend(layer.finish()?);
        }
        let (path, lake) = (self.catalog.path().to_owned(), self.lake.path.clone());
        let now_ms = self.lake.disk.now_ms();
        let transaction = self.catalog.write()?;
        let publish = || {
            let kind = SnapshotKind::Dedup;
            let id = manifest::begin_snapshot(&transaction, now_ms, kind, &detail)?;
            for segment in &retire {
                assert!(segment.table.is_derived(), "{} is no derived table", segment.table);
                let known = manifest::retire(&transaction, &lake, segment, id)?;
                assert!(known, "{} was retired before", segment.path.display());
            }
            for segment in &segments {
                manifest::insert(&transaction, &lake, segment, id)?;
            }
            for segment in &counted {
                let known = manifest::mark_counted(&transaction, &lake, segment, id)?;
                assert!(known, "{} is no segment of steps", segment.path.display());
            }
            let keep = "INSERT OR REPLACE INTO derivations VALUES ('dedup', ?1)";
            transaction.execute(keep, [&inputs])?;
            Ok(id)
        };
        let id = publish().map_err(StoreError::sqlite(&path))?;
        self.lake.disk.commit(transaction, &path)?;
        // The transaction is durable either way.
        let _ = self.catalog.settle();
        self.settle(false);
        Ok(id)
    }

    /// Moves retired files after a commit: it is published, whatever becomes of them. `recorded`
    /// says that the caller has the right to write too.
    pub(super) fn settle(&self, recorded: bool) {
        let Lake { path, disk, .. } = &self.lake;
        let settled = self.retired().and_then(|all| retired::settle(path, disk, &all, recorded));
        if let Err(error) = settled {
            tracing::debug!(%error, "retired files stay where they are for now");
        }
    }

    /// Forgets old snapshots, in one transaction, and never the newest. Deletes no file: that is
    /// left to [`collect`](Self::collect), so whoever reads a forgotten snapshot reads on.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does. Nothing is forgotten then.
    pub fn expire(&mut self, keep: Keep) -> Result<Expired, StoreError> {
        // A file that leaves the catalog while it lies among those of the newest snapshot would be
        // taken for what a crash left, and a reader would lose it.
        self.settle_where_allowed()?;
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
        let expired = forget().map_err(StoreError::sqlite(&path))?;
        if expired.snapshots > 0 {
            self.lake.disk.commit(transaction, &path)?;
        }
        Ok(expired)
    }

    /// Deletes the files that no snapshot has any more, and what a crash left. Killed in between,
    /// it has deleted some of them; the rest goes the next time.
    ///
    /// # Errors
    ///
    /// [`StoreError::BeingRead`] while somebody reads the lake: then nothing is deleted, since what
    /// is read may be a snapshot that has expired.
    pub fn collect(&mut self) -> Result<Collected, StoreError> {
        let lake = &self.lake.path;
        let _alone = ReadersLock::alone(lake)?;
        let mut removed = self.recover()?;
        let mut add = |more: Removed| {
            removed.files += more.files;
            removed.bytes += more.bytes;
        };
        let listed = self.catalog.reading(|log| manifest::listed_paths(log, lake))?;
        add(retired::remove_expired(lake, &self.lake.disk, &self.retired()?, &listed)?);
        let writer = match Lock::take(lake, Right::Write) {
            Ok(lock) => Some(lock),
            Err(StoreError::Busy { .. }) => None,
            Err(error) => return Err(error),
        };
        if writer.is_some() {
            let keep = self.catalog.reading(|log| manifest::listed_paths(log, lake))?;
            let recorded = Table::ALL.into_iter().filter(|table| !table.is_derived());
            add(retired::remove_orphans(lake, &self.lake.disk, recorded, &keep)?);
        }
        Ok(Collected { removed, writer_at_work: writer.is_none() })
    }
}
