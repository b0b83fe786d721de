//! The writer: the one connection that appends hot rows and seals them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array as _, BooleanArray};
use rusqlite::{Connection, params};

use super::error::LakeError;
use super::handle::Lake;
use super::ids::SnapshotId;
use crate::kernel::files::lock::{Lock, Right};
use crate::kernel::files::reserve;
use crate::kernel::progress::{OnProgress, to_the_end};
use crate::kernel::schema::decode::{StepColumns, episode_ids, state_ids};
use crate::kernel::schema::rows::{KnownContents, Rows, RunRow};
use crate::kernel::schema::table::Table;
use crate::kernel::segments::compact::{CompactReport, Compactor, Extent, PreparedCompaction};
use crate::kernel::segments::frame::Frame;
use crate::kernel::segments::hot::{self, HotBatch};
use crate::kernel::segments::orphans;
use crate::kernel::segments::scan::ScanColumns;
use crate::kernel::segments::seal::{PreparedSeal, SealReport, Sealer};
use crate::kernel::versions::catalog::{self, random_uid};
use crate::kernel::versions::edit;
use crate::kernel::versions::manifest;
use crate::kernel::versions::recovery::recover;
use crate::kernel::versions::sqlite::{Catalog, signed};
use steplake_model::{ActionIndex, EpisodeId, RunId, StateId};

/// New bytes in the hot log that make a seal worth its files.
const SEAL_BYTES: u64 = 64 << 20;

/// The right to write to a lake, and the connection that writes. Dropping it releases the right.
///
/// Each call is one transaction. After an `Err` the lake is unchanged, and the writer can continue.
#[derive(Debug)]
pub struct Writer {
    pub(crate) lake: Lake,
    pub(crate) catalog: Catalog,
    lock: Arc<Lock>,
    hot_bytes: u64,
    /// Bytes that the last seal left in the hot log.
    left_bytes: u64,
}

impl Lake {
    /// Takes the right to write, brings the lake to this format, and recovers from a crash: it
    /// removes unfinished files of recorded tables and entries of the log of snapshots that were
    /// never committed, and shows the newest snapshot to other tools.
    ///
    /// # Errors
    ///
    /// [`LakeError::Busy`] when another writer has it, [`LakeError::ReadOnly`].
    pub fn writer(&self) -> Result<Writer, LakeError> {
        let lock = Arc::new(Lock::take(&self.disk, &self.path, Right::Write)?);
        let lake = self.current()?.upgraded()?;
        let catalog = Catalog::open_for_writing(&lake)?;
        // Opening for maintenance removes unfinished files of derived tables. A collection removes
        // complete files that no snapshot has.
        let recorded = Table::ALL.into_iter().filter(|table| !table.is_derived());
        orphans::remove_temporary(&lake, recorded)?;
        recover(&lake, &catalog)?;
        reserve::keep(&lake.path);
        let hot_bytes = catalog.reading(catalog::hot_bytes)?;
        Ok(Writer { lake, catalog, lock, hot_bytes, left_bytes: 0 })
    }
}

impl Writer {
    /// The writer of a folder that is not a lake yet, with its new database. The caller has the
    /// right to write.
    pub(crate) fn of_new(lake: Lake, catalog: Catalog, lock: Arc<Lock>) -> Self {
        Self { lake, catalog, lock, hot_bytes: 0, left_bytes: 0 }
    }

    /// The lake.
    pub fn lake(&self) -> &Lake {
        &self.lake
    }

    /// Begins a run. `arguments` identifies it, in a form that the caller chooses. The run also
    /// gets a random name, by which a merge of lakes distinguishes runs.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors.
    pub fn begin_run(&mut self, arguments: &str, started_at_ms: i64) -> Result<RunId, LakeError> {
        let uid = random_uid()?;
        let sql = "INSERT INTO runs (uid, arguments, started_at_ms) VALUES (?1, ?2, ?3)
                   RETURNING run_id";
        let row = params![uid, arguments, started_at_ms];
        self.catalog.writing(|log| log.query_row(sql, row, |row| row.get(0).map(RunId)))
    }

    /// Marks a run as complete.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors.
    pub fn finish_run(&mut self, run: RunId) -> Result<(), LakeError> {
        let sql = "UPDATE runs SET finished = 1, logged = 0 WHERE run_id = ?1";
        self.catalog.writing(|log| log.execute(sql, [run.0]).map(drop))
    }

    /// Adds to the number of repeated windows of a run.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors.
    pub fn add_repeated_windows(&mut self, run: RunId, more: u32) -> Result<(), LakeError> {
        if more == 0 {
            return Ok(());
        }
        let sql = "UPDATE runs SET repeated_windows = repeated_windows + ?2, logged = 0
                   WHERE run_id = ?1";
        self.catalog.writing(|log| log.execute(sql, [run.0.into(), i64::from(more)]).map(drop))
    }

    /// Adds to the number of steps of a run that were played again and compared, and to the number
    /// of those that differed.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors.
    pub fn add_audited_steps(
        &mut self,
        run: RunId,
        audited: u64,
        differing: u64,
    ) -> Result<(), LakeError> {
        if audited == 0 && differing == 0 {
            return Ok(());
        }
        let sql = "UPDATE runs SET audited_steps = audited_steps + ?2,
                     differing_steps = differing_steps + ?3, logged = 0
                   WHERE run_id = ?1";
        let row = [run.0.into(), signed(audited), signed(differing)];
        self.catalog.writing(|log| log.execute(sql, row).map(drop))
    }

    /// Flags actions of the lake as not replayable: one rename replaces `lake.json`. The next seal
    /// replaces the file of `actions`.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors.
    pub fn flag_unreplayable(&mut self, actions: &[ActionIndex]) -> Result<(), LakeError> {
        let mut identity = self.lake.identity().clone();
        for action in actions {
            if let Some(action) = identity.action_space.actions.get_mut(action.place()) {
                action.flags.replayable = false;
            }
        }
        if identity != *self.lake.identity() {
            identity.write(&self.lake.path, &self.lake.disk)?;
            self.lake = self.lake.current()?;
        }
        Ok(())
    }

    /// The runs, oldest first.
    ///
    /// # Errors
    ///
    /// If the hot log cannot be read.
    pub fn runs(&self) -> Result<Vec<RunRow>, LakeError> {
        self.catalog.reading(catalog::runs)
    }

    /// Appends rows in one durable transaction. After `Ok` they survive a power cut; after `Err`
    /// the lake has none of them. [`Rows`] states the required order of rows.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The call can be repeated.
    ///
    /// # Panics
    ///
    /// If the values of a row do not fit the lake's columns in number or type.
    pub fn append(&mut self, rows: &Rows) -> Result<(), LakeError> {
        let batches = self.lake.schemas.encode(rows);
        let frames =
            batches.iter().map(|(table, batch)| Frame::encode(*table, batch)).collect::<Vec<_>>();
        if frames.is_empty() {
            return Ok(());
        }
        let wanted = frames.iter().map(|frame| frame.body.len() as u64).sum();
        let append = |log: &Connection| {
            frames.iter().try_for_each(|frame| catalog::insert_frame(log, frame))
        };
        self.catalog.writing(append).map_err(|error| error.wanting(wanted))?;
        self.hot_bytes += frames.iter().map(|frame| frame.bytes).sum::<u64>();
        Ok(())
    }

    /// Bytes that the rows of the hot log take in memory, for a snapshot or a seal. On disk they
    /// are compressed.
    pub fn hot_bytes(&self) -> u64 {
        self.hot_bytes
    }

    /// Whether enough was appended since the last seal to make another seal worth its files.
    pub fn seal_is_due(&self) -> bool {
        self.hot_bytes >= self.left_bytes + SEAL_BYTES
    }

    /// Moves all rows of closed episodes into segments: [`Sealer::prepare`] and
    /// [`publish`](Self::publish) in one call. Then it returns free space of the hot log to the
    /// file system. If it has sealed rows, it merges segments where that [is due](Extent::Due) and
    /// nobody maintains the lake. If they cannot be merged, the rows are sealed all the same, and a
    /// later seal tries again.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The rows are then still in the hot log.
    pub fn seal(&mut self) -> Result<SealReport, LakeError> {
        let prepared = self.sealer().prepare()?;
        let report = self.publish(prepared)?;
        self.catalog.shrink()?;
        if report.rows > 0 {
            self.compact_due();
        }
        Ok(report)
    }

    /// Returns a sealer, with which another thread can prepare a seal while this writer appends.
    /// The sealer shares the right to write until it is dropped.
    pub fn sealer(&self) -> Sealer {
        Sealer { lake: self.lake.clone(), lock: Arc::clone(&self.lock) }
    }

    /// Makes a prepared seal part of the lake, in one short transaction: the manifest lists its
    /// segments in a new snapshot, and its frames are replaced by their rows that stay hot.
    ///
    /// If frames were removed since the preparation (by [`discard_open`](Self::discard_open) or
    /// another `publish`), the seal is prepared again.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The rows are then still in the hot log.
    pub fn publish(&mut self, prepared: PreparedSeal) -> Result<SealReport, LakeError> {
        let mut prepared = prepared;
        let applied = loop {
            match edit::apply(&mut self.catalog, &self.lake, &prepared.edit) {
                Err(LakeError::FramesGone { .. }) => {
                    let listed = |log: &_| manifest::listed_paths(log, &self.lake.path);
                    prepared.discard(&self.catalog.reading(listed)?);
                }
                applied => break applied,
            }
            prepared = self.sealer().prepare()?;
        };
        applied?;
        self.hot_bytes = self.catalog.reading(catalog::hot_bytes)?;
        self.left_bytes = prepared.left_bytes();
        Ok(prepared.report(self.hot_bytes))
    }

    /// Returns a compactor, with which another thread can prepare a compaction while this writer
    /// appends and seals. The compactor shares the right to write until it and what it prepared are
    /// dropped.
    pub fn compactor(&self) -> Compactor {
        Compactor::new(self.lake.clone(), Arc::clone(&self.lock))
    }

    /// Makes a prepared compaction part of the lake, in one short transaction and a snapshot of its
    /// own. The report is empty if somebody has changed one of its segments meanwhile.
    ///
    /// # Errors
    ///
    /// [`LakeError::BeingMaintained`] if another process maintains the lake;
    /// [`LakeError::DiskFull`] and other disk errors. The lake is then unchanged.
    pub fn publish_compaction(
        &mut self,
        prepared: PreparedCompaction,
    ) -> Result<CompactReport, LakeError> {
        prepared.publish(&mut self.catalog, None)
    }

    /// Seals the rows of closed episodes, and merges the segments of each recorded table into one,
    /// or one series, whatever their size. Nobody else maintains the lake meanwhile. Calls
    /// `progress` with the rows read and those to read of each merge.
    ///
    /// # Errors
    ///
    /// [`LakeError::BeingMaintained`] if another process maintains the lake;
    /// [`LakeError::Corrupt`] with the damaged file; [`LakeError::DiskFull`] and other disk errors;
    /// [`LakeError::Interrupted`]. What was merged before that stays merged.
    pub fn compact(&mut self, progress: &mut OnProgress<'_>) -> Result<CompactReport, LakeError> {
        let held = Lock::take(&self.lake.disk, &self.lake.path, Right::Maintain)?;
        let sealed = self.sealer().prepare()?;
        self.publish(sealed)?;
        let before = self.recorded_files()?;
        let mut bytes = 0;
        for table in Table::ALL.into_iter().filter(|table| table.is_recorded()) {
            while let Some(prepared) = self.compactor().prepare(table, Extent::All, progress)? {
                let done = prepared.publish(&mut self.catalog, Some(&held))?;
                bytes += done.bytes;
                if !done.goes_on() {
                    break;
                }
            }
        }
        let after = self.recorded_files()?;
        let only = |some: &HashSet<PathBuf>, others| some.difference(others).count() as u64;
        Ok(CompactReport { merged: only(&before, &after), made: only(&after, &before), bytes })
    }

    /// The files of the recorded tables in the newest snapshot.
    fn recorded_files(&self) -> Result<HashSet<PathBuf>, LakeError> {
        let all =
            self.catalog.reading(|log| manifest::segments(log, &self.lake, SnapshotId::NEWEST))?;
        let recorded = all.into_iter().filter(|segment| segment.table.is_recorded());
        Ok(recorded.map(|segment| segment.path).collect())
    }

    /// Merges segments where that [is due](Extent::Due), as a seal does. What cannot be merged now,
    /// as while somebody maintains the lake, stays for a later seal.
    pub fn compact_due(&mut self) {
        for table in Table::ALL.into_iter().filter(|table| table.is_recorded()) {
            loop {
                let prepared = self.compactor().prepare(table, Extent::Due, &mut to_the_end);
                let merged = prepared.and_then(|prepared| {
                    prepared.map(|prepared| self.publish_compaction(prepared)).transpose()
                });
                match merged {
                    Ok(Some(report)) if report.goes_on() => {}
                    Ok(_) | Err(LakeError::BeingMaintained { .. }) => break,
                    Err(error) => {
                        tracing::warn!(%error, %table, "small files are not merged for now");
                        break;
                    }
                }
            }
        }
    }

    /// The closed episodes of a run, in order.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if a file of the lake is damaged.
    pub fn closed_episodes(&self, run: RunId) -> Result<BTreeSet<EpisodeId>, LakeError> {
        let mut closed = BTreeSet::new();
        let columns = ScanColumns::Named(&["episode_id"]);
        for batch in self.lake.snapshot()?.scan(Table::Episodes, columns) {
            let ids = episode_ids(&batch?).to_vec().into_iter().map(EpisodeId);
            closed.extend(ids.filter(|id| id.run() == run));
        }
        Ok(closed)
    }

    /// The states and benchmarks that the lake has already.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if a file of the lake is damaged.
    pub fn known_states(&self) -> Result<KnownContents, LakeError> {
        let snapshot = self.lake.snapshot()?;
        let states = |table| {
            let mut known =
                HashSet::with_capacity(usize::try_from(snapshot.rows(table)).unwrap_or(0));
            for batch in snapshot.scan(table, ScanColumns::Named(&["state_id"])) {
                known.extend(state_ids(&batch?, "state_id").flatten());
            }
            Ok(known)
        };
        let mut benchmarks = HashMap::new();
        for benchmark in snapshot.benchmarks() {
            let benchmark = benchmark?;
            benchmarks.insert(benchmark.uri, benchmark.known);
        }
        Ok(KnownContents {
            observed: states(Table::Observations)?,
            ir: states(Table::Ir)?,
            benchmarks,
        })
    }

    /// The states with null in one of these columns of `observations`.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if a file of the lake is damaged.
    pub fn states_with_null(&self, columns: &[&str]) -> Result<HashSet<StateId>, LakeError> {
        let mut states = HashSet::new();
        let names = [&["state_id"], columns].concat();
        for batch in self.lake.snapshot()?.scan(Table::Observations, ScanColumns::Named(&names)) {
            let batch = batch?;
            let values: Vec<_> =
                columns.iter().filter_map(|name| batch.column_by_name(name)).collect();
            for (row, state) in state_ids(&batch, "state_id").enumerate() {
                if values.iter().any(|values| values.is_null(row)) {
                    states.extend(state);
                }
            }
        }
        Ok(states)
    }

    /// Removes the hot steps of the open episodes of `run`, and the hot rows of states, IR and
    /// benchmarks that no hot row refers to any more. Returns what was removed. The result of
    /// [`known_states`](Self::known_states) changes and has to be read again.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if the hot log is damaged, and disk errors.
    pub fn discard_open(&mut self, run: RunId) -> Result<Discarded, LakeError> {
        let hot = hot::decode(&self.lake, self.catalog.reading(catalog::frames)?)?;
        let closed = hot::closed_episodes(&hot);
        let stays = |episode| EpisodeId(episode).run() != run || closed.contains(&episode);
        let masks = hot::masks_of(&hot, stays);
        let mut discarded = Discarded::default();
        for (hot, keep) in hot.iter().zip(&masks) {
            discarded.add(hot, keep);
        }
        let hot_bytes = self.catalog.writing(|log| {
            for (hot, keep) in hot.iter().zip(&masks) {
                let kept = keep.true_count();
                if kept < keep.len() {
                    catalog::delete_frame(log, hot.seq)?;
                    if kept > 0 {
                        catalog::insert_frame(log, &hot.filtered(keep))?;
                    }
                }
            }
            catalog::hot_bytes(log)
        })?;
        self.hot_bytes = hot_bytes;
        self.left_bytes = self.left_bytes.min(hot_bytes);
        Ok(discarded)
    }
}

/// What [`Writer::discard_open`] removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Discarded {
    /// Steps with an action.
    pub steps: u64,
    /// Rows of `observations`.
    pub states: u64,
}

impl Discarded {
    /// Counts the rows of a batch that are not kept.
    fn add(&mut self, hot: &HotBatch, keep: &BooleanArray) {
        let gone = (0..keep.len()).filter(|&row| !keep.value(row));
        match hot.table {
            Table::Observations => self.states += gone.count() as u64,
            Table::Steps => {
                let actions = StepColumns::of(&hot.batch).actions();
                self.steps += gone.filter(|&row| actions.is_there(row)).count() as u64;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::StepRow;
    use crate::kernel::identity::tests::identity;
    use steplake_model::BenchmarkUri;
    use steplake_model::StateId;

    #[test]
    fn a_database_that_finds_no_room_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
        let mut writer = lake.writer().unwrap();
        let benchmark: BenchmarkUri = "generator://toy-v0/0".parse().unwrap();
        let mut random = 1_u64;
        let mut state = || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            StateId(blake3::hash(&random.to_le_bytes()).as_bytes()[..20].try_into().unwrap())
        };
        let step = |index| StepRow {
            state: Some(state()),
            ..StepRow::new(EpisodeId(0), index, benchmark.clone())
        };
        let rows = Rows { steps: (0..10_000).map(step).collect(), ..Rows::default() };
        let limit = |writer: &Writer, pages: u32| {
            let set =
                |connection: &Connection| connection.pragma_update(None, "max_page_count", pages);
            writer.catalog.reading(set).unwrap();
        };
        limit(&writer, 1);
        let error = writer.append(&rows).unwrap_err();
        let wanted = |bytes: &u64| *bytes > 100_000;
        assert!(
            matches!(&error, LakeError::DiskFull { wanted: Some(bytes), .. } if wanted(bytes)),
            "{error}"
        );
        assert_eq!((lake.snapshot().unwrap().rows(Table::Steps), writer.hot_bytes()), (0, 0));
        limit(&writer, 1 << 20);
        writer.append(&rows).unwrap();
        assert_eq!(lake.snapshot().unwrap().rows(Table::Steps), 10_000);
    }
}
