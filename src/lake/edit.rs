//! The one place where a snapshot begins: every change of what is sealed is a [`VersionEdit`].
//!
//! # What is durable when
//!
//! The segments that an edit adds are durable before it is applied. [`apply`] changes the manifest,
//! the hot log and the lists of runs, retractions and losses in one transaction, after the log of
//! snapshots has an entry for it. When `apply` has returned `Ok`, the change survives a power cut;
//! a reader sees all of it or nothing. Other tools see it once [`outside::update`] has run, which
//! `apply` does last.

use std::borrow::Cow;

use super::catalog::{self, insert_run};
use super::encode;
use super::error::LakeError;
use super::frame::Frame;
use super::handle::Lake;
use super::ids::SnapshotId;
use super::losses::{self, LossRow};
use super::manifest::{self, Derived, Fetched, SnapshotKind};
use super::outside;
use super::retractions::{self, RetractionRow};
use super::rows::RunRow;
use super::segment::{FileRow, Segment};
use super::segment_writer::SegmentWriter;
use super::snapshot_log::{self, LogEntry};
use super::sqlite::Catalog;
use super::table::Table;

/// A change of what is sealed: what differs between a snapshot and the one before it.
#[derive(Debug, Clone)]
pub(crate) struct VersionEdit {
    /// What makes the snapshot.
    pub(crate) kind: SnapshotKind,
    /// One line for the list of snapshots.
    pub(crate) detail: String,
    /// Durable segments that are new.
    pub(crate) add: Vec<Segment>,
    /// Segments of the snapshot before that go.
    pub(crate) retire: Vec<Segment>,
    /// Segments that are damaged, in whichever snapshots they are.
    pub(crate) lost: Vec<Segment>,
    /// What becomes of the derived tables.
    pub(crate) derived: Derived,
    /// Segments of `steps` that the derived tables count from now on.
    pub(crate) counted: Vec<Segment>,
    /// Frames of the hot log that go, by number.
    pub(crate) frames_gone: Vec<i64>,
    /// Frames that come: what stays hot of those that go.
    pub(crate) frames: Vec<Frame>,
    /// Runs that come, under the numbers that they have.
    pub(crate) runs: Vec<RunRow>,
    /// What is taken back. The snapshot is filled in.
    pub(crate) retractions: Vec<RetractionRow>,
    /// What could not be kept. The snapshot is filled in.
    pub(crate) losses: Vec<LossRow>,
    /// What was fetched, and the digest of its list of runs. The lists and the segments of the edit
    /// then replace all that there were.
    pub(crate) fetched: Option<(String, String)>,
}

impl VersionEdit {
    pub(crate) fn new(kind: SnapshotKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            add: Vec::new(),
            retire: Vec::new(),
            lost: Vec::new(),
            derived: Derived::Kept,
            counted: Vec::new(),
            frames_gone: Vec::new(),
            frames: Vec::new(),
            runs: Vec::new(),
            retractions: Vec::new(),
            losses: Vec::new(),
            fetched: None,
        }
    }

    /// The edit with a new file of the actions, if the one that the lake has lacks some. Only a
    /// holder of the right to write makes such a file: nobody else removes what a crash leaves.
    fn with_actions(&self, catalog: &Catalog, lake: &Lake) -> Result<Cow<'_, Self>, LakeError> {
        let writes =
            matches!(self.kind, SnapshotKind::Create | SnapshotKind::Seal | SnapshotKind::Repair);
        if !writes {
            return Ok(Cow::Borrowed(self));
        }
        let newest = catalog.reading(|log| manifest::segments(log, lake, SnapshotId(i64::MAX)))?;
        let goes = |segment: &Segment| {
            self.retire.iter().chain(&self.lost).any(|gone| gone.path == segment.path)
        };
        let known = newest.into_iter().filter(|segment| segment.table == Table::Actions);
        let known = known.filter(|segment| !goes(segment)).collect::<Vec<_>>();
        let actions = &lake.identity.action_space.actions;
        if known.iter().map(|segment| segment.rows).sum::<u64>() == actions.len() as u64 {
            return Ok(Cow::Borrowed(self));
        }
        let mut edit = self.clone();
        edit.add.push(write_actions(lake, actions.len())?);
        edit.retire.extend(known);
        Ok(Cow::Owned(edit))
    }

    fn log_entry(
        &self,
        lake: &Lake,
        snapshot: SnapshotId,
        created_at_ms: i64,
        runs: Vec<RunRow>,
    ) -> LogEntry {
        let paths = |segments: &[Segment]| {
            segments.iter().map(|segment| manifest::relative(&lake.path, &segment.path)).collect()
        };
        let fetched = self.fetched.clone();
        LogEntry {
            identity: lake.identity.digest(),
            snapshot,
            kind: self.kind,
            created_at_ms,
            detail: self.detail.clone(),
            whole: self.kind == SnapshotKind::Create || self.fetched.is_some(),
            add: self.add.iter().map(FileRow::of).collect(),
            retire: paths(&self.retire),
            lost: paths(&self.lost),
            counted: paths(&self.counted),
            derived: self.derived.clone(),
            fetched: fetched.map(|(what, runs)| Fetched { what, snapshot, runs }),
            runs,
            retractions: in_snapshot(&self.retractions, snapshot, |row| &mut row.snapshot),
            losses: in_snapshot(&self.losses, snapshot, |row| &mut row.snapshot),
        }
    }

    /// Whether there would be something new in the snapshot. Without that, only the hot log
    /// changes.
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
    writer.write(&encode::actions(schema, &actions[..count.min(actions.len())]))?;
    Ok(writer.finish()?.segment)
}

/// Applies an edit in one transaction, as a snapshot of its own. Returns the snapshot: none if the
/// edit is a seal without rows. The caller holds the right to change what the edit changes.
///
/// # Errors
///
/// [`LakeError::FramesGone`] if the hot log does not have a frame of the edit any more;
/// [`LakeError::DiskFull`] and other disk errors. The lake is then unchanged.
///
/// # Panics
///
/// When the newest snapshot does not have a segment that is to go or to be counted: the caller's
/// right keeps others from retiring it.
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
        let id = manifest::begin_snapshot(&transaction, now_ms, edit.kind, &edit.detail)?;
        write_segments(&transaction, lake, edit, id)?;
        write_lists(&transaction, edit, id)?;
        let runs = catalog::take_unlogged_runs(&transaction)?;
        Ok(Some(edit.log_entry(lake, id, now_ms, runs)))
    };
    let entry = write().map_err(LakeError::sqlite(&path))?;
    if let Some(entry) = &entry {
        snapshot_log::write(lake, entry)?;
    }
    Catalog::commit(transaction, &path, &lake.disk)?;
    // The transaction is durable either way. Once it is in the database itself, damage to SQLite's
    // log cannot take it back.
    let _ = catalog.checkpoint();
    if entry.is_some()
        && let Err(error) = outside::update(lake, catalog)
    {
        tracing::warn!(%error, "other tools see an older snapshot for now");
    }
    Ok(entry.map(|entry| entry.snapshot))
}

fn write_segments(
    connection: &rusqlite::Connection,
    lake: &Lake,
    edit: &VersionEdit,
    id: SnapshotId,
) -> rusqlite::Result<()> {
    let relative = |segment: &Segment| manifest::relative(&lake.path, &segment.path);
    if edit.fetched.is_some() {
        manifest::retire_all(connection, id)?;
    }
    if edit.derived == Derived::Dropped {
        manifest::retire_layers(connection, id)?;
    }
    let dropped = |segment: &&Segment| edit.derived == Derived::Dropped && segment.layer.is_some();
    for segment in edit.retire.iter().filter(|segment| !dropped(segment)) {
        let known = manifest::retire_path(connection, &relative(segment), id)?;
        assert!(known, "{} was retired before", segment.path.display());
    }
    for segment in &edit.lost {
        manifest::mark_lost_path(connection, &relative(segment))?;
    }
    for segment in &edit.add {
        manifest::insert(connection, &lake.path, segment, id)?;
    }
    for segment in &edit.counted {
        let known = manifest::mark_counted_path(connection, &relative(segment), id)?;
        assert!(known, "{} is no segment of steps", segment.path.display());
    }
    Ok(())
}

fn write_lists(
    connection: &rusqlite::Connection,
    edit: &VersionEdit,
    snapshot: SnapshotId,
) -> rusqlite::Result<()> {
    if edit.fetched.is_some() {
        for table in ["runs", "retracted_runs", "retractions", "losses", "derivations"] {
            connection.execute(&format!("DELETE FROM {table}"), [])?;
        }
    }
    match &edit.derived {
        Derived::Kept => {}
        Derived::Dropped => manifest::forget_derivation(connection, manifest::DEDUP)?,
        Derived::Made(inputs) => manifest::set_derivation(connection, manifest::DEDUP, inputs)?,
    }
    for run in &edit.runs {
        insert_run(connection, run)?;
    }
    for row in in_snapshot(&edit.retractions, snapshot, |row| &mut row.snapshot) {
        retractions::insert(connection, &row)?;
    }
    for row in in_snapshot(&edit.losses, snapshot, |row| &mut row.snapshot) {
        losses::insert(connection, &row)?;
    }
    if let Some((what, runs)) = &edit.fetched {
        let fetched = Fetched { what: what.clone(), snapshot, runs: runs.clone() };
        manifest::set_fetched(connection, &fetched)?;
    }
    Ok(())
}

/// Fills in the snapshot of rows.
fn in_snapshot<T: Clone>(
    rows: &[T],
    snapshot: SnapshotId,
    of: fn(&mut T) -> &mut SnapshotId,
) -> Vec<T> {
    let filled = rows.iter().cloned().map(|mut row| {
        *of(&mut row) = snapshot;
        row
    });
    filled.collect()
}
