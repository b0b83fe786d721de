//! Version edits. Every change of what is sealed is a [`VersionEdit`] and makes a snapshot.
//!
//! # What is durable when
//!
//! The segments that an edit adds are durable before the edit is applied. [`apply`] first writes
//! the entry of the log of snapshots. One transaction then changes the manifest, the hot log and
//! the lists of runs, retractions and losses. After `Ok` the change survives a power cut; a reader
//! sees all of it or nothing. Other tools see it after [`other_tools::update`], which `apply` calls
//! last.

use std::borrow::Cow;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use rusqlite::Connection;

use super::catalog::{self, insert_run};
use super::losses::{self, LossRow};
use super::manifest::{self, Derived, FetchRecord, SnapshotKind};
use super::retractions::{self, RetractionRow};
use super::snapshot_log::{self, LogEntry};
use super::sqlite::Catalog;
use crate::kernel::error::LakeError;
use crate::kernel::handle::Lake;
use crate::kernel::ids::SnapshotId;
use crate::kernel::other_tools;
use crate::kernel::schema::encode;
use crate::kernel::schema::rows::RunRow;
use crate::kernel::schema::table::Table;
use crate::kernel::segments::frame::Frame;
use crate::kernel::segments::scan::ScanColumns;
use crate::kernel::segments::segment::Segment;
use crate::kernel::segments::segment_writer::SegmentWriter;

/// A change of what is sealed: what differs between a snapshot and the one before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct VersionEdit {
    /// What makes the snapshot.
    pub(crate) kind: SnapshotKind,
    /// A one-line description for the list of snapshots.
    pub(crate) detail: String,
    /// New segments, which are durable.
    pub(crate) add: Vec<Segment>,
    /// Segments that the newest snapshot has and this one has not.
    pub(crate) retire: Vec<Segment>,
    /// Segments that are damaged, in all snapshots that have them.
    pub(crate) lost: Vec<Segment>,
    /// What becomes of the derived tables.
    pub(crate) derived: Derived,
    /// Segments of `steps` that the derived tables count from now on.
    pub(crate) counted: Vec<Segment>,
    /// Numbers of the frames that leave the hot log.
    pub(crate) frames_gone: Vec<i64>,
    /// New frames: the rows of the removed frames that stay hot.
    pub(crate) frames: Vec<Frame>,
    /// New runs, which have numbers.
    pub(crate) runs: Vec<RunRow>,
    /// New retractions. [`apply`] sets their snapshot.
    pub(crate) retractions: Vec<RetractionRow>,
    /// Rows that a repair drops. [`apply`] sets their snapshot.
    pub(crate) losses: Vec<LossRow>,
    /// What was fetched; [`apply`] sets its snapshot. With it, the lists and the segments of the
    /// edit replace all others.
    pub(crate) fetched: Option<FetchRecord>,
}

impl VersionEdit {
    pub(crate) fn new(kind: SnapshotKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), ..Self::default() }
    }

    /// Adds a new file of the actions, if the lake's file lacks some or has other flags. Only a
    /// holder of the right to write makes such a file, since only the next holder removes what a
    /// crash leaves of it.
    fn with_actions(&self, catalog: &Catalog, lake: &Lake) -> Result<Cow<'_, Self>, LakeError> {
        if !matches!(self.kind, SnapshotKind::Create | SnapshotKind::Seal | SnapshotKind::Repair) {
            return Ok(Cow::Borrowed(self));
        }
        let newest = catalog.reading(|log| manifest::segments(log, lake, SnapshotId::NEWEST))?;
        let goes = |segment: &Segment| {
            self.retire.iter().chain(&self.lost).any(|gone| gone.path == segment.path)
        };
        let known = newest.into_iter().filter(|segment| segment.table == Table::Actions);
        let known = known.filter(|segment| !goes(segment)).collect::<Vec<_>>();
        let actions = &lake.identity.action_space.actions;
        let rows = known.iter().flat_map(|segment| segment.scan(&lake.schemas, ScanColumns::All));
        let of_lake = encode::batch(lake.schemas.get(Table::Actions), actions);
        // What cannot be read is for a repair to find.
        let is_same = |rows: Vec<RecordBatch>| {
            concat_batches(&of_lake.schema(), &rows)
                .is_ok_and(|rows| rows.columns() == of_lake.columns())
        };
        if rows.collect::<Result<_, LakeError>>().map_or(true, is_same) {
            return Ok(Cow::Borrowed(self));
        }
        let mut edit = self.clone();
        edit.add.push(write_actions(lake, actions.len())?);
        edit.retire.extend(known);
        Ok(Cow::Owned(edit))
    }

    /// The entry of the edit in the log of snapshots, without the runs that changed.
    fn log_entry(&self, lake: &Lake, snapshot: SnapshotId, created_at_ms: i64) -> LogEntry {
        let paths = |segments: &[Segment]| {
            segments.iter().map(|segment| manifest::relative(&lake.path, &segment.path)).collect()
        };
        let mut entry = LogEntry {
            identity: lake.identity.digest(),
            snapshot,
            kind: self.kind,
            created_at_ms,
            detail: self.detail.clone(),
            whole: self.kind == SnapshotKind::Create || self.fetched.is_some(),
            add: self.add.iter().map(|segment| segment.row.clone()).collect(),
            retire: paths(&self.retire),
            lost: paths(&self.lost),
            counted: paths(&self.counted),
            derived: self.derived.clone(),
            fetched: self.fetched.clone(),
            runs: Vec::new(),
            retractions: self.retractions.clone(),
            losses: self.losses.clone(),
        };
        entry.fetched.iter_mut().for_each(|fetched| fetched.snapshot = snapshot);
        entry.retractions.iter_mut().for_each(|row| row.snapshot = snapshot);
        entry.losses.iter_mut().for_each(|row| row.snapshot = snapshot);
        entry
    }

    /// Whether the edit changes what is sealed. A seal without rows changes only the hot log.
    fn makes_snapshot(&self) -> bool {
        self.kind != SnapshotKind::Seal || !self.add.is_empty()
    }
}

/// Writes the file of the first `count` actions. The same actions give the same file under the same
/// name.
pub(crate) fn write_actions(lake: &Lake, count: usize) -> Result<Segment, LakeError> {
    let schema = lake.schemas.get(Table::Actions);
    let mut writer = SegmentWriter::create(lake, Table::Actions, schema)?;
    let actions = &lake.identity.action_space.actions;
    writer.write(&encode::batch(schema, &actions[..count.min(actions.len())]))?;
    writer.finish()
}

/// Applies an edit in one transaction, as a snapshot of its own. Returns the snapshot, or none if
/// the edit is a seal without rows. The caller holds the right to change what the edit changes.
///
/// # Errors
///
/// [`LakeError::FramesGone`] if the hot log no longer has a frame of the edit;
/// [`LakeError::DiskFull`] and other disk errors. The lake is then unchanged.
///
/// # Panics
///
/// If the newest snapshot lacks a segment that is to be retired or counted. The caller's right
/// keeps others from retiring it.
pub(crate) fn apply(
    catalog: &mut Catalog,
    lake: &Lake,
    edit: &VersionEdit,
) -> Result<Option<SnapshotId>, LakeError> {
    let path = catalog.path().to_owned();
    let edit = &*edit.with_actions(catalog, lake)?;
    let transaction = catalog.write()?;
    for &seq in &edit.frames_gone {
        if !catalog::delete_frame(&transaction, seq).map_err(LakeError::sqlite(&path))? {
            return Err(LakeError::FramesGone { path });
        }
    }
    let write = || {
        for frame in &edit.frames {
            catalog::insert_frame(&transaction, frame)?;
        }
        if !edit.makes_snapshot() {
            return Ok(None);
        }
        let now_ms = lake.clock.now_ms();
        let id = manifest::insert_snapshot(&transaction, None, now_ms, edit.kind, &edit.detail)?;
        let mut entry = edit.log_entry(lake, id, now_ms);
        let lacking = write_entry(&transaction, lake, &entry, &edit.add)?;
        assert!(lacking.is_empty(), "the newest snapshot lacks {lacking:?}");
        edit.runs.iter().try_for_each(|run| insert_run(&transaction, run))?;
        entry.runs = catalog::take_unlogged_runs(&transaction)?;
        Ok(Some(entry))
    };
    let entry = write().map_err(LakeError::sqlite(&path))?;
    if let Some(entry) = &entry {
        snapshot_log::write(lake, entry)?;
    }
    Catalog::commit(transaction, &path, &lake.disk)?;
    // The transaction is durable in any case. Once it is in the database file, damage to SQLite's
    // log cannot undo it.
    let _ = catalog.checkpoint();
    if entry.is_some()
        && let Err(error) = other_tools::update(lake, catalog)
    {
        tracing::warn!(%error, "other tools see an older snapshot for now");
    }
    Ok(entry.map(|entry| entry.snapshot))
}

/// Writes to the manifest and the lists what an entry of the log of snapshots says, except for its
/// runs. `add` are its new segments. Returns the files that it retires or counts and that the
/// newest snapshot lacks.
pub(crate) fn write_entry<'a>(
    log: &Connection,
    lake: &Lake,
    entry: &'a LogEntry,
    add: &[Segment],
) -> rusqlite::Result<Vec<&'a str>> {
    let (id, mut lacking) = (entry.snapshot, Vec::new());
    if entry.fetched.is_some() {
        manifest::retire_all(log, id)?;
        for table in ["runs", "retracted_runs", "retractions", "losses", "derivations"] {
            log.execute(&format!("DELETE FROM {table}"), [])?;
        }
    }
    for path in &entry.retire {
        if !manifest::retire_path(log, path, id)? {
            lacking.push(path.as_str());
        }
    }
    match &entry.derived {
        Derived::Kept => {}
        Derived::Dropped => {
            manifest::retire_layers(log, id)?;
            manifest::forget_derivation(log, manifest::DEDUP)?;
        }
        Derived::Made(inputs) => manifest::set_derivation(log, manifest::DEDUP, inputs)?,
    }
    entry.lost.iter().try_for_each(|path| manifest::mark_lost_path(log, path))?;
    add.iter().try_for_each(|segment| manifest::insert(log, &lake.path, segment, id))?;
    for path in &entry.counted {
        if !manifest::mark_counted_path(log, path, id)? {
            lacking.push(path.as_str());
        }
    }
    entry.retractions.iter().try_for_each(|row| retractions::insert(log, row))?;
    entry.losses.iter().try_for_each(|row| losses::insert(log, row))?;
    entry.fetched.iter().try_for_each(|fetched| manifest::set_fetched(log, fetched))?;
    Ok(lacking)
}
