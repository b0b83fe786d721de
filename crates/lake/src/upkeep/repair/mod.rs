//! Repair: drops what is damaged, so that the rest can be read, verified and resumed.
//!
//! A repair drops files and frames whose content is not what was written, episodes that lost steps
//! with them, and sealed steps whose episode is lost. It makes rows of benchmarks again, as far as
//! steps tell, and the manifest's digests of the blocks of sound files. Everything else stays.
//! States may then lack their observations or IR; a state that is visited again is observed again.
//!
//! Rows that contradict each other under correct digests are a defect, not damage, and stay.

mod chains;
mod damage;
mod digests;
mod restore;
mod salvage;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use parquet::file::metadata::PageIndexPolicy;

use self::chains::Chains;
use self::damage::{damage, demand_disk};
pub use self::restore::Restored;
use super::maintenance::Maintenance;
use crate::kernel::other_tools;
use crate::kernel::schema::decode::{
    EpisodeEnd, StepColumns, benchmark_uris, episode_ids, state_ids,
};
use crate::kernel::schema::episode_steps::in_order;
use crate::kernel::segments::frame::Frame;
use crate::kernel::segments::hot::{HotBatch, decode};
use crate::kernel::segments::segment_series::SegmentSeries;
use crate::kernel::versions::catalog;
use crate::kernel::versions::edit::{self, VersionEdit};
use crate::kernel::versions::manifest;
use crate::kernel::versions::manifest::Derived;
use crate::kernel::versions::sqlite;
use crate::kernel::{
    BenchmarkRow, Lake, LakeError, LossRow, Rows, ScanColumns, Segment, SnapshotId, SnapshotKind,
    Table,
};
use steplake_model::StateId;

/// The result of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The first snapshot without what was dropped; `None` if nothing was dropped.
    pub snapshot: Option<SnapshotId>,
    /// What was dropped.
    pub losses: Vec<LossRow>,
    /// Damaged files that only older snapshots have. These snapshots can no longer be read.
    pub older: Vec<PathBuf>,
    /// Damaged files of the derived tables; a dedup makes these tables again.
    pub derived: Vec<PathBuf>,
    /// Sound files whose digests in the manifest were damaged and were computed again.
    pub mended: Vec<PathBuf>,
    /// Entries of the log of snapshots that were damaged or missing, and were written again from
    /// the database.
    pub entries: Vec<PathBuf>,
    /// Programs whose rows were made again with name, dataset and initial state only.
    pub benchmarks: Vec<String>,
    /// Number of states of steps that have no observations now.
    pub unobserved: u64,
    /// How the database was restored, if it was.
    pub restored: Option<Restored>,
}

impl Repaired {
    /// Returns whether nothing was damaged.
    pub fn is_nothing(&self) -> bool {
        let is_cut = self.snapshot.is_some() || !self.older.is_empty();
        let is_mended = !self.mended.is_empty() || !self.entries.is_empty();
        !is_cut && !is_mended && self.restored.is_none()
    }
}

impl Lake {
    /// Drops what is damaged, in one transaction and a snapshot of its own. The derived tables go
    /// too; a dedup makes them again. Dropped files stay where they are, but reading a snapshot
    /// that has one is an error.
    ///
    /// Before that, a repair restores a lost or malformed database from the log of snapshots. It
    /// takes over rows that were not sealed, as far as they can be read, and keeps the old database
    /// as `hot.sqlite.damaged`. Then it computes damaged digests of blocks of sound files again,
    /// and writes damaged or missing entries of the log of snapshots again. Each of these steps is
    /// durable on its own.
    ///
    /// # Errors
    ///
    /// [`LakeError::Busy`] or [`LakeError::BeingMaintained`] while somebody else is at work; disk
    /// errors. The lake then is as before or has a new database, and can be repaired again.
    pub fn repair(&self) -> Result<Repaired, LakeError> {
        let restored = restore::restore(self)?;
        // The right to write, before `lake.json` is read for the last time: it may grow until then.
        let _writer = self.writer()?;
        let mut maintenance = self.maintenance()?;
        let mended = maintenance.mend_digests()?;
        let entries = maintenance.mend_log()?;
        let mut done = maintenance.drop_damage()?;
        (done.restored, done.entries) = (restored, entries);
        done.mended.splice(0..0, mended);
        Ok(done)
    }
}

impl Maintenance {
    /// Drops all damage in one edit. The caller also has the right to write.
    fn drop_damage(&mut self) -> Result<Repaired, LakeError> {
        let mut repair = Repair {
            lake: self.lake().clone(),
            sound: Vec::new(),
            hot: Vec::new(),
            edit: VersionEdit {
                derived: Derived::Dropped,
                ..VersionEdit::new(SnapshotKind::Repair, String::new())
            },
            done: Repaired::default(),
        };
        repair.drop_frames(self)?;
        repair.drop_segments(self)?;
        repair.drop_broken_episodes()?;
        repair.make_up_benchmarks()?;
        if repair.edit.losses.iter().any(|loss| loss.table == Table::Observations) {
            repair.count_unobserved()?;
        }
        let Repair { mut edit, mut done, .. } = repair;
        if !edit.lost.is_empty() || !edit.losses.is_empty() || !edit.add.is_empty() {
            let rows = edit.losses.iter().map(|loss| loss.rows).sum::<u64>();
            edit.detail = format!("{rows} rows could not be kept");
            let snapshot = self.apply(&edit)?;
            edit.losses.iter_mut().for_each(|loss| loss.snapshot = snapshot);
            (done.losses, done.snapshot) = (edit.losses, Some(snapshot));
        }
        Ok(done)
    }
}

/// A repair under way.
struct Repair {
    lake: Lake,
    /// Undamaged segments of recorded tables.
    sound: Vec<Segment>,
    hot: Vec<HotBatch>,
    edit: VersionEdit,
    done: Repaired,
}

impl Repair {
    fn lose(&mut self, table: Table, path: String, rows: u64, what: impl Into<String>) {
        let (what, snapshot) = (what.into(), SnapshotId(0));
        self.edit.losses.push(LossRow { table, path, rows, what, snapshot });
    }

    fn drop_frames(&mut self, maintenance: &Maintenance) -> Result<(), LakeError> {
        for placed in maintenance.catalog.reading(catalog::frames)? {
            let (seq, table, rows) = (placed.seq, placed.frame.table, placed.frame.rows);
            match decode(&self.lake, vec![placed]) {
                Ok(hot) => self.hot.extend(hot),
                Err(error) => {
                    self.edit.frames_gone.push(seq);
                    self.lose(table, sqlite::FILE_NAME.to_owned(), rows, damage(error)?);
                }
            }
        }
        Ok(())
    }

    fn drop_segments(&mut self, maintenance: &Maintenance) -> Result<(), LakeError> {
        let lake = self.lake.clone();
        let read = |log: &rusqlite::Connection| {
            let segments = manifest::segments(log, &lake, SnapshotId::NEWEST)?;
            let known = manifest::lost_paths(log, &lake.path)?;
            Ok((segments, manifest::retired(log, &lake)?, known))
        };
        let (segments, retired, known) = maintenance.catalog.reading(read)?;
        for segment in segments {
            let is_derived = segment.table.is_derived();
            match is_damaged(&segment)? {
                None if !is_derived => self.sound.push(segment),
                None => {}
                Some(_) if is_derived => {
                    self.done.derived.push(segment.path.clone());
                    self.edit.lost.push(segment);
                }
                Some(_) if self.is_made_again(&segment)? => {
                    self.done.mended.push(segment.path.clone());
                    self.sound.push(segment);
                }
                Some(what) => {
                    let path = manifest::relative(&lake.path, &segment.path);
                    self.lose(segment.table, path, segment.rows, what);
                    self.edit.retire.push(segment.clone());
                    self.edit.lost.push(segment);
                }
            }
        }
        for segment in retired {
            if !known.contains(&segment.path) && is_damaged(&segment)?.is_some() {
                self.done.older.push(segment.path.clone());
                self.edit.lost.push(segment);
            }
        }
        if self.edit.lost.is_empty() { Ok(()) } else { demand_disk(&lake) }
    }

    /// Whether the segment is the file of the actions, and could be made again from `lake.json`.
    fn is_made_again(&self, segment: &Segment) -> Result<bool, LakeError> {
        if segment.table != Table::Actions {
            return Ok(false);
        }
        let rows = usize::try_from(segment.rows).unwrap_or(usize::MAX);
        // Actions that were appended later are not in the file.
        let is_made = edit::write_actions(&self.lake, rows)?.path == segment.path
            && is_damaged(segment)?.is_none();
        if is_made {
            other_tools::relink(&self.lake, segment)?;
        }
        Ok(is_made)
    }

    fn sound(&self, table: Table) -> impl Iterator<Item = &Segment> {
        self.sound.iter().filter(move |segment| segment.table == table)
    }

    fn hot(&self, table: Table) -> impl Iterator<Item = &RecordBatch> {
        self.hot.iter().filter(move |hot| hot.table == table).map(|hot| &hot.batch)
    }

    /// Visits the batches of a table that are left: the sealed ones, then the hot ones.
    fn left(
        &self,
        table: Table,
        columns: &[&str],
        visit: &mut dyn FnMut(&RecordBatch),
    ) -> Result<(), LakeError> {
        for segment in self.sound(table) {
            for batch in segment.scan(&self.lake.schemas, ScanColumns::Named(columns)) {
                visit(&batch?);
            }
        }
        self.hot(table).for_each(visit);
        Ok(())
    }

    fn broken_episodes(&self) -> Result<HashSet<i64>, LakeError> {
        let mut chains = Chains::default();
        let visit = &mut |batch: &RecordBatch| chains.rows(batch);
        self.left(Table::Episodes, &EpisodeEnd::NAMES, visit)?;
        let columns = ScanColumns::Named(&["episode_id", "step_index"]);
        for segment in self.sound(Table::Steps) {
            for batch in segment.scan(&self.lake.schemas, columns) {
                chains.steps(&batch?, true);
            }
        }
        let hot = self.hot(Table::Steps).collect::<Vec<_>>();
        in_order(&hot, columns).for_each(|batch| chains.steps(&batch, false));
        Ok(chains.broken())
    }

    /// Drops the rows and steps of episodes that are no longer whole.
    fn drop_broken_episodes(&mut self) -> Result<(), LakeError> {
        let broken = self.broken_episodes()?;
        if broken.is_empty() {
            return Ok(());
        }
        let whole = |batch: &RecordBatch| -> BooleanArray {
            episode_ids(batch).iter().map(|id| Some(!broken.contains(id))).collect()
        };
        for segment in std::mem::take(&mut self.sound) {
            if let Some(what) = other_half(segment.table) {
                let gone = self.edit.rewrite(&self.lake, &segment, &["episode_id"], &whole)?;
                if gone > 0 {
                    let path = manifest::relative(&self.lake.path, &segment.path);
                    self.lose(segment.table, path, gone, what);
                    continue;
                }
            }
            self.sound.push(segment);
        }
        self.sound.extend(self.edit.add.iter().cloned());
        for mut hot in std::mem::take(&mut self.hot) {
            if let Some(what) = other_half(hot.table) {
                let keep = whole(&hot.batch);
                let gone = keep.false_count() as u64;
                if gone > 0 {
                    hot.batch = filter_record_batch(&hot.batch, &keep).expect("a fitting mask");
                    self.edit.frames_gone.push(hot.seq);
                    if hot.batch.num_rows() > 0 {
                        self.edit.frames.push(Frame::encode(hot.table, &hot.batch));
                    }
                    self.lose(hot.table, sqlite::FILE_NAME.to_owned(), gone, what);
                }
            }
            self.hot.push(hot);
        }
        Ok(())
    }

    /// Writes rows for programs that occur in steps and have lost their own row.
    fn make_up_benchmarks(&mut self) -> Result<(), LakeError> {
        let mut known = HashSet::new();
        self.left(Table::Benchmarks, &["benchmark_uri"], &mut |batch| {
            known.extend(benchmark_uris(batch).map(str::to_owned));
        })?;
        let mut unknown: BTreeMap<String, StateId> = BTreeMap::new();
        let columns = ["episode_id", "benchmark_uri", "step_index", "state_id"];
        self.left(Table::Steps, &columns, &mut |batch| {
            let steps = StepColumns::of(batch);
            let states = steps.states();
            for (row, uri) in benchmark_uris(batch).enumerate() {
                if let (0, Some(state)) = (steps.indexes[row], states.get(row))
                    && !known.contains(uri)
                    && !unknown.contains_key(uri)
                {
                    unknown.insert(uri.to_owned(), state);
                }
            }
        })?;
        let row = |(uri, initial_state): (String, StateId)| {
            Some(BenchmarkRow::new(uri.parse().ok()?, initial_state))
        };
        let benchmarks = unknown.into_iter().filter_map(row).collect();
        let rows = Rows { benchmarks, ..Rows::default() };
        let mut series = SegmentSeries::new(&self.lake, Table::Benchmarks);
        for (_, batch) in self.lake.schemas.encode(&rows) {
            series.write(&batch)?;
        }
        self.edit.add.extend(series.finish()?);
        self.done.benchmarks = rows.benchmarks.iter().map(|row| row.uri.as_str().into()).collect();
        Ok(())
    }

    fn count_unobserved(&mut self) -> Result<(), LakeError> {
        let (mut observed, mut without) = (HashSet::new(), HashSet::new());
        self.left(Table::Observations, &["state_id"], &mut |batch| {
            observed.extend(state_ids(batch, "state_id").flatten());
        })?;
        self.left(Table::Steps, &["state_id"], &mut |batch| {
            let states = state_ids(batch, "state_id").flatten();
            without.extend(states.filter(|state| !observed.contains(state)));
        })?;
        self.done.unobserved = without.len() as u64;
        Ok(())
    }
}

/// Why rows of a table go with the other half of their episode; `None` for other tables.
fn other_half(table: Table) -> Option<&'static str> {
    match table {
        Table::Episodes => Some("the steps of these episodes are damaged"),
        Table::Steps => Some("the other rows of these episodes are damaged"),
        _ => None,
    }
}

/// Returns what is wrong with a file, if it is not what was written. A file that the disk cannot
/// read counts as damaged; other errors do not. A disk may fail for a moment, so the file is read
/// twice.
fn is_damaged(segment: &Segment) -> Result<Option<String>, LakeError> {
    let look =
        || segment.check().and_then(|()| segment.footer(&segment.open()?, PageIndexPolicy::Skip));
    look().or_else(|_damage| look()).err().map(damage).transpose()
}
