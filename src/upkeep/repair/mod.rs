//! Cutting damage out of a lake, so that the rest can be read, verified and gone on with.
//!
//! What goes: files and frames whose content is not what was written; episodes whose steps went
//! with them, and sealed steps whose episode did. What is made up for: the rows of benchmarks, as
//! far as steps tell them, and the manifest's digests of the blocks of files that are sound. What
//! stays as it is: everything else. States may then lack their observations or IR: a state that is
//! visited again is observed again.
//!
//! Rows that contradict each other though every digest is right are a defect and no damage: they
//! stay.

mod chains;
mod damage;
mod digests;
mod places;
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
use crate::lake::catalog;
use crate::lake::decode::{StepColumns, benchmark_uris, episode_ids, state_ids};
use crate::lake::edit::{self, VersionEdit};
use crate::lake::episode_steps::in_order;
use crate::lake::frame::Frame;
use crate::lake::hot::{HotBatch, decode};
use crate::lake::manifest::Derived;
use crate::lake::outside;
use crate::lake::series::SegmentSeries;
use crate::lake::{
    BenchmarkRow, Lake, LakeError, LossRow, Rows, Scan, ScanColumns, Segment, SnapshotId,
    SnapshotKind, Table, manifest, sqlite,
};
use crate::model::{Baselines, BenchmarkUri, Provenance, StateId};

/// What a repair did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The first snapshot without what was dropped; none where nothing was.
    pub snapshot: Option<SnapshotId>,
    /// What was dropped.
    pub losses: Vec<LossRow>,
    /// Damaged files that only older snapshots have. These snapshots can be read no more.
    pub older: Vec<PathBuf>,
    /// Damaged files of the derived tables, which dedup makes anew.
    pub derived: Vec<PathBuf>,
    /// Files that are sound, and of which the manifest's digests were damaged: these were made
    /// anew.
    pub mended: Vec<PathBuf>,
    /// Entries of the log of snapshots that were damaged or missing: they were written again from
    /// the database.
    pub entries: Vec<PathBuf>,
    /// Programs whose rows were made up: name, dataset and initial state are all that is known of
    /// them.
    pub benchmarks: Vec<String>,
    /// States of steps that have no observations now.
    pub unobserved: u64,
    /// How the database was made again, if it was.
    pub restored: Option<Restored>,
}

impl Repaired {
    /// True when nothing was damaged.
    pub fn is_nothing(&self) -> bool {
        let is_cut = self.snapshot.is_some() || !self.older.is_empty();
        let is_mended = !self.mended.is_empty() || !self.entries.is_empty();
        !is_cut && !is_mended && self.restored.is_none()
    }
}

impl Lake {
    /// Drops what is damaged, in one transaction and a snapshot of its own, and says what. The
    /// derived tables go too: a dedup makes them again. Snapshots that have a dropped file cannot
    /// be read any more, and say so; the file stays where it is.
    ///
    /// First, a database that is lost or malformed is made again from the log of snapshots. Rows
    /// that were not sealed are taken over as far as they can be read, and `hot.sqlite.damaged`
    /// keeps the old database. Then the manifest's digests of blocks are computed again if they are
    /// damaged and their file is sound, and entries of the log of snapshots are written again if
    /// they are damaged or missing. Each of these steps is durable on its own.
    ///
    /// # Errors
    ///
    /// [`LakeError::Busy`] or [`LakeError::BeingMaintained`] while somebody else is at work; what
    /// a disk does. The lake is then as before, or with a new database, and can be repaired again.
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
    /// The caller has the right to write too.
    fn drop_damage(&mut self) -> Result<Repaired, LakeError> {
        let mut repair = Repair::new(self);
        repair.drop_frames(self)?;
        repair.drop_segments(self)?;
        repair.drop_broken_episodes()?;
        repair.make_up_benchmarks()?;
        if repair.lost(&[Table::Observations]) {
            repair.count_unobserved()?;
        }
        let Repair { mut edit, mut done, .. } = repair;
        if !edit.lost.is_empty() || !edit.losses.is_empty() || !edit.add.is_empty() {
            let rows = edit.losses.iter().map(|loss| loss.rows).sum::<u64>();
            edit.detail = format!("{rows} rows could not be kept");
            done.losses.clone_from(&edit.losses);
            let snapshot = self.apply(&edit)?;
            done.losses.iter_mut().for_each(|loss| loss.snapshot = snapshot);
            done.snapshot = Some(snapshot);
        }
        Ok(done)
    }
}

/// A repair under way.
struct Repair {
    lake: Lake,
    /// Segments of recorded tables that are as they were written.
    sound: Vec<Segment>,
    hot: Vec<HotBatch>,
    edit: VersionEdit,
    done: Repaired,
}

impl Repair {
    fn new(maintenance: &Maintenance) -> Self {
        let lake = maintenance.lake().clone();
        let edit = VersionEdit::new(SnapshotKind::Repair, String::new());
        let edit = VersionEdit { derived: Derived::Dropped, ..edit };
        let (sound, hot, done) = (Vec::new(), Vec::new(), Repaired::default());
        Self { lake, sound, hot, edit, done }
    }

    /// Whether rows of one of these tables were dropped.
    fn lost(&self, tables: &[Table]) -> bool {
        self.edit.losses.iter().any(|loss| tables.contains(&loss.table))
    }

    fn lose(&mut self, table: Table, path: String, rows: u64, what: String) {
        let snapshot = SnapshotId(0);
        self.edit.losses.push(LossRow { table, path, rows, what, snapshot });
    }

    fn drop_frames(&mut self, maintenance: &Maintenance) -> Result<(), LakeError> {
        for placed in maintenance.catalog.reading(catalog::frames)? {
            let (seq, table, rows) = (placed.seq, placed.frame.table, placed.frame.rows);
            match decode(&self.lake, vec![placed]) {
                Ok(hot) => self.hot.extend(hot),
                Err(error) => {
                    self.edit.frames_gone.push(seq);
                    let what = damage(error)?;
                    self.lose(table, sqlite::FILE_NAME.to_owned(), rows, what);
                }
            }
        }
        Ok(())
    }

    fn drop_segments(&mut self, maintenance: &Maintenance) -> Result<(), LakeError> {
        let lake = self.lake.path.clone();
        let read = |log: &rusqlite::Connection| {
            let newest = manifest::snapshots(log)?.last().map_or(SnapshotId(0), |row| row.id);
            let known = manifest::lost_paths(log, &lake)?;
            let segments = manifest::segments(log, &self.lake, newest)?;
            Ok((segments, manifest::retired(log, &self.lake)?, known))
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
                    let path = manifest::relative(&lake, &segment.path);
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
        if self.edit.lost.is_empty() { Ok(()) } else { demand_disk(&self.lake) }
    }

    /// Whether it is the file of the actions, and could be made again from `lake.json`.
    fn is_made_again(&self, segment: &Segment) -> Result<bool, LakeError> {
        if segment.table != Table::Actions {
            return Ok(false);
        }
        let rows = usize::try_from(segment.rows).unwrap_or(usize::MAX);
        // Actions that were appended later are not in the file.
        let is_made = edit::write_actions(&self.lake, rows)?.path == segment.path
            && is_damaged(segment)?.is_none();
        if is_made {
            outside::relink(&self.lake, segment)?;
        }
        Ok(is_made)
    }

    fn scan<'a>(&'a self, segment: &'a Segment, columns: ScanColumns<'_>) -> Scan<'a> {
        let schema = self.lake.schemas.get(segment.table);
        Scan::new(schema, std::slice::from_ref(segment), &[], columns)
    }

    fn sound(&self, table: Table) -> impl Iterator<Item = &Segment> {
        self.sound.iter().filter(move |segment| segment.table == table)
    }

    fn hot(&self, table: Table) -> impl Iterator<Item = &RecordBatch> {
        self.hot.iter().filter(move |hot| hot.table == table).map(|hot| &hot.batch)
    }

    /// Drops episodes that are not whole any more, rows and steps.
    fn drop_broken_episodes(&mut self) -> Result<(), LakeError> {
        let mut chains = Chains::default();
        for segment in self.sound(Table::Episodes) {
            for batch in self.scan(segment, ScanColumns::All) {
                chains.rows(&batch?);
            }
        }
        self.hot(Table::Episodes).for_each(|batch| chains.rows(batch));
        let columns = ScanColumns::Named(&["episode_id", "step_index"]);
        for segment in self.sound(Table::Steps) {
            for batch in self.scan(segment, columns) {
                chains.steps(&batch?, true);
            }
        }
        let hot = self.hot(Table::Steps).collect::<Vec<_>>();
        in_order(&hot, columns).for_each(|batch| chains.steps(&batch, false));
        let broken = chains.broken();
        if broken.is_empty() {
            return Ok(());
        }
        let whole = |batch: &RecordBatch| -> BooleanArray {
            episode_ids(batch).iter().map(|id| Some(!broken.contains(id))).collect()
        };
        let of_episodes = |table| matches!(table, Table::Episodes | Table::Steps);
        let sound = std::mem::take(&mut self.sound);
        for segment in &sound {
            if !of_episodes(segment.table) {
                continue;
            }
            let keep = &mut |batch: &RecordBatch| whole(batch);
            let gone = self.edit.rewrite(&self.lake, segment, &["episode_id"], keep)?;
            if gone > 0 {
                let path = manifest::relative(&self.lake.path, &segment.path);
                self.lose(segment.table, path, gone, other_half(segment.table));
            }
        }
        // What was written anew stands for what it was made of.
        let retired = self.edit.retire.iter().map(|segment| &segment.path);
        let retired = retired.collect::<HashSet<_>>();
        self.sound = sound.into_iter().filter(|segment| !retired.contains(&segment.path)).collect();
        self.sound.extend(self.edit.add.iter().cloned());
        for place in 0..self.hot.len() {
            let hot = &self.hot[place];
            let table = hot.table;
            if !of_episodes(table) {
                continue;
            }
            let keep = whole(&hot.batch);
            let gone = keep.false_count() as u64;
            if gone > 0 {
                let kept = filter_record_batch(&hot.batch, &keep).expect("a mask of its length");
                self.edit.frames_gone.push(hot.seq);
                if kept.num_rows() > 0 {
                    self.edit.frames.push(Frame::encode(table, &kept));
                }
                self.hot[place].batch = kept;
                self.lose(table, sqlite::FILE_NAME.to_owned(), gone, other_half(table));
            }
        }
        Ok(())
    }

    /// The batches of a table that are left, sealed and hot.
    fn left(
        &self,
        table: Table,
        columns: &[&str],
        visit: &mut dyn FnMut(&RecordBatch),
    ) -> Result<(), LakeError> {
        for segment in self.sound(table) {
            for batch in self.scan(segment, ScanColumns::Named(columns)) {
                visit(&batch?);
            }
        }
        self.hot(table).for_each(visit);
        Ok(())
    }

    /// Writes rows for programs that steps are about and that have none any more.
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
        let row = |(uri, initial_state): (&String, &StateId)| {
            let uri = uri.parse::<BenchmarkUri>().ok()?;
            Some(BenchmarkRow {
                uri,
                program_digest: String::new(),
                provenance: Provenance::default(),
                initial_state: *initial_state,
                baselines: Baselines::default(),
            })
        };
        let benchmarks = unknown.iter().filter_map(row).collect();
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

/// Why rows go whose other half is damaged.
fn other_half(table: Table) -> String {
    match table {
        Table::Episodes => "the steps of these episodes are damaged".into(),
        _ => "the other rows of these episodes are damaged".into(),
    }
}

/// What is wrong with a file, where it is not what was written. That it cannot be read for another
/// reason is no damage, but for a disk that gives an error. A disk may fail for a moment, so it is
/// looked at twice.
fn is_damaged(segment: &Segment) -> Result<Option<String>, LakeError> {
    let look =
        || segment.check().and_then(|()| segment.footer(&segment.open()?, PageIndexPolicy::Skip));
    look().or_else(|_damage| look()).err().map(damage).transpose()
}
