use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    Array, AsArray as _, BooleanArray, FixedSizeBinaryArray, RecordBatch, StringArray,
};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int32Type, Int64Type};
use rusqlite::params;

use super::catalog::{self, Catalog, PlacedFrame};
use super::frame::Frame;
use super::lock::{Lock, Right};
use super::seal::{self, Prepared, SealReport, Sealer};
use super::{
    Identity, Known, KnownBenchmark, Lake, Rows, RunRow, ScanColumns, SnapshotKind, StoreError,
    Table, manifest, retired,
};
use crate::model::{Baselines, EpisodeId, RunId, StateId};

/// New bytes in the hot log after which a seal is worth its file.
const SEAL_BYTES: u64 = 64 << 20;

/// The right to write to a lake, and the one connection that does. Dropping it gives the right
/// back.
///
/// Every call is one transaction: after an `Err` the lake is as before, and the writer can go on.
#[derive(Debug)]
pub struct Writer {
    pub(super) lake: Lake,
    pub(super) catalog: Catalog,
    lock: Arc<Lock>,
    hot_bytes: u64,
    /// What the last seal had to leave.
    left_bytes: u64,
}

impl Writer {
    pub(super) fn open(lake: &Lake) -> Result<Self, StoreError> {
        let lock = Arc::new(Lock::take(&lake.path, Right::Write)?);
        let catalog = Catalog::open_for_writing(&lake.path, &lake.identity, &lake.disk)?;
        let mut writer = Self { lake: lake.clone(), catalog, lock, hot_bytes: 0, left_bytes: 0 };
        writer.recover()?;
        writer.hot_bytes = writer.catalog.reading(catalog::hot_bytes)?;
        Ok(writer)
    }

    /// The lake.
    pub fn lake(&self) -> &Lake {
        &self.lake
    }

    /// Removes the files that a crash left. Those of the derived tables are left to whoever
    /// maintains the lake, who may be writing some at this moment.
    fn recover(&mut self) -> Result<(), StoreError> {
        let lake = &self.lake.path;
        let keep = self.catalog.reading(|log| manifest::listed_paths(log, lake))?;
        let recorded = Table::ALL.into_iter().filter(|table| !table.is_derived());
        retired::remove_orphans(lake, &self.lake.disk, recorded, &keep).map(drop)
    }

    /// What the lake is a lake of.
    pub fn identity(&self) -> &Identity {
        &self.lake.identity
    }

    /// Begins a run. `arguments` is what identifies it, in the caller's own form. It gets a random
    /// name besides, by which lakes that are merged tell runs apart.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does.
    pub fn begin_run(&mut self, arguments: &str, started_at_ms: i64) -> Result<RunId, StoreError> {
        let path = self.log();
        let uid = random_uid()?;
        let transaction = self.catalog.write()?;
        let sql = "INSERT INTO runs (uid, arguments, started_at_ms) VALUES (?1, ?2, ?3)
                   RETURNING run_id";
        let id = transaction
            .query_row(sql, params![uid, arguments, started_at_ms], |row| row.get(0))
            .map_err(StoreError::sqlite(&path))?;
        self.lake.disk.commit(transaction, &path)?;
        Ok(RunId(id))
    }

    /// Says that a run did all that it was asked for.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does.
    pub fn finish_run(&mut self, run: RunId) -> Result<(), StoreError> {
        let path = self.log();
        let transaction = self.catalog.write()?;
        let sql = "UPDATE runs SET finished = 1 WHERE run_id = ?1";
        transaction.execute(sql, [run.0]).map_err(StoreError::sqlite(&path))?;
        self.lake.disk.commit(transaction, &path)
    }

    /// Says that so many more windows of a run's steps failed in one worker process, and not in a
    /// fresh one.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does.
    pub fn add_repeated_windows(&mut self, run: RunId, more: u32) -> Result<(), StoreError> {
        if more == 0 {
            return Ok(());
        }
        let path = self.log();
        let transaction = self.catalog.write()?;
        let sql = "UPDATE runs SET repeated_windows = repeated_windows + ?2 WHERE run_id = ?1";
        transaction
            .execute(sql, [run.0.into(), i64::from(more)])
            .map_err(StoreError::sqlite(&path))?;
        self.lake.disk.commit(transaction, &path)
    }

    /// The runs, in the order in which they were begun.
    ///
    /// # Errors
    ///
    /// When the hot log cannot be read.
    pub fn runs(&self) -> Result<Vec<RunRow>, StoreError> {
        self.catalog.reading(catalog::runs)
    }

    /// Appends rows in one durable transaction: after `Ok` they survive a power cut, after `Err`
    /// none of them is there. See [`Rows`] for what has to come with what.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`]: once there is room, the same call works.
    ///
    /// # Panics
    ///
    /// When a row has another number or kind of values than the lake has columns for.
    pub fn append(&mut self, rows: &Rows) -> Result<(), StoreError> {
        let batches = self.lake.schemas.encode(rows);
        let frames =
            batches.iter().map(|(table, batch)| Frame::encode(*table, batch)).collect::<Vec<_>>();
        if frames.is_empty() {
            return Ok(());
        }
        let wanted = frames.iter().map(|frame| frame.body.len() as u64).sum();
        self.append_frames(&frames).map_err(|error| error.wanting(wanted))?;
        self.hot_bytes += frames.iter().map(|frame| frame.bytes).sum::<u64>();
        Ok(())
    }

    fn append_frames(&mut self, frames: &[Frame]) -> Result<(), StoreError> {
        let path = self.log();
        let transaction = self.catalog.write()?;
        for frame in frames {
            catalog::insert_frame(&transaction, frame).map_err(StoreError::sqlite(&path))?;
        }
        self.lake.disk.commit(transaction, &path)
    }

    /// Bytes that the rows of the hot log take in memory: what a snapshot and a seal need. On disk
    /// they are compressed.
    pub fn hot_bytes(&self) -> u64 {
        self.hot_bytes
    }

    /// True when enough was appended since the last seal to make another one worth its files.
    pub fn seal_is_due(&self) -> bool {
        self.hot_bytes >= self.left_bytes + SEAL_BYTES
    }

    /// Moves everything that is closed into segments: [`Sealer::prepare`] and
    /// [`publish`](Self::publish) in one call, and gives the room in the hot log back.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does. The rows are then still in the hot log.
    pub fn seal(&mut self) -> Result<SealReport, StoreError> {
        let prepared = self.sealer()?.prepare()?;
        let report = self.publish(prepared)?;
        self.catalog.shrink()?;
        Ok(report)
    }

    /// What another thread needs to prepare a seal while this writer goes on appending. It holds on
    /// to the right to write: give it back by dropping it.
    ///
    /// # Errors
    ///
    /// None today; opening is left to [`Sealer::prepare`].
    pub fn sealer(&self) -> Result<Sealer, StoreError> {
        Ok(Sealer::new(self.lake.clone(), Arc::clone(&self.lock)))
    }

    /// Makes a preparation part of the lake in one short transaction: the manifest lists its
    /// segments in a snapshot of their own, the frames that they hold are gone, and what those
    /// frames held besides is back in the log.
    ///
    /// Where the log was changed under the preparation ([`discard_open`](Self::discard_open),
    /// another publish), it is thrown away and made again.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does. The rows are then still in the hot log.
    pub fn publish(&mut self, prepared: Prepared) -> Result<SealReport, StoreError> {
        let mut prepared = prepared;
        loop {
            if let Some(report) = self.try_publish(&prepared)? {
                // The transaction is durable either way.
                let _ = self.catalog.settle();
                return Ok(report);
            }
            prepared.discard();
            prepared = self.sealer()?.prepare()?;
        }
    }

    fn try_publish(&mut self, prepared: &Prepared) -> Result<Option<SealReport>, StoreError> {
        let path = self.log();
        let lake = self.lake.path.clone();
        let transaction = self.catalog.write()?;
        for &seq in &prepared.taken {
            if !catalog::delete_frame(&transaction, seq).map_err(StoreError::sqlite(&path))? {
                return Ok(None);
            }
        }
        for frame in &prepared.leftovers {
            catalog::insert_frame(&transaction, frame).map_err(StoreError::sqlite(&path))?;
        }
        let seal = || {
            if prepared.segments().next().is_none() {
                return Ok(());
            }
            let id = manifest::begin_snapshot(
                &transaction,
                self.lake.disk.now_ms(),
                SnapshotKind::Seal,
                &prepared.detail(),
            )?;
            let mut segments = prepared.segments();
            segments.try_for_each(|segment| manifest::insert(&transaction, &lake, segment, id))
        };
        seal().map_err(StoreError::sqlite(&path))?;
        let hot_bytes = catalog::hot_bytes(&transaction).map_err(StoreError::sqlite(&path))?;
        if !prepared.taken.is_empty() {
            self.lake.disk.commit(transaction, &path)?;
        }
        self.hot_bytes = hot_bytes;
        self.left_bytes = prepared.left_bytes();
        Ok(Some(prepared.report(hot_bytes)))
    }

    /// The episodes of a run that are over, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when a file of the lake is damaged.
    pub fn closed_episodes(&self, run: RunId) -> Result<BTreeSet<EpisodeId>, StoreError> {
        let snapshot = self.lake.snapshot()?;
        let mut closed = BTreeSet::new();
        for batch in snapshot.scan(Table::Episodes, ScanColumns::Named(&["episode_id"])) {
            let batch = batch?;
            let ids = batch["episode_id"].as_primitive::<Int64Type>().values().iter();
            closed.extend(ids.map(|&id| EpisodeId(id)).filter(|id| id.run() == run));
        }
        Ok(closed)
    }

    /// What the lake knows already.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when a file of the lake is damaged.
    pub fn known_states(&self) -> Result<Known, StoreError> {
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
        for batch in snapshot.scan(Table::Benchmarks, ScanColumns::All) {
            benchmarks.extend(known_benchmarks(&batch?, &self.lake.identity().baselines));
        }
        Ok(Known { observed: states(Table::Observations)?, ir: states(Table::Ir)?, benchmarks })
    }

    /// Takes back the hot steps of the open episodes of `run`, and the hot observations of states,
    /// IR of keyframes, and benchmarks, that then no hot row refers to any more. What this changes
    /// in [`known_states`](Self::known_states) has to be read anew.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when the hot log is damaged, and what a disk does.
    pub fn discard_open(&mut self, run: RunId) -> Result<(), StoreError> {
        let hot = self.hot()?;
        let closed = seal::closed_episodes(hot.iter().map(|hot| (hot.table, &hot.batch)));
        let stays = |episode: i64| EpisodeId(episode).run() != run || closed.contains(&episode);
        let mut benchmarks = seal::closed_benchmarks(hot.iter().map(|hot| (hot.table, &hot.batch)));
        let (mut held, mut whole) = (HashSet::new(), HashSet::new());
        for hot in hot.iter().filter(|hot| hot.table == Table::Steps) {
            let uris = hot.batch["benchmark_uri"].as_dictionary::<Int32Type>();
            let uris = uris.downcast_dict::<StringArray>().expect("the names are strings");
            let episodes = hot.batch["episode_id"].as_primitive::<Int64Type>().values().iter();
            let staying = uris.into_iter().zip(episodes).filter(|&(_, &episode)| stays(episode));
            benchmarks.extend(staying.filter_map(|(uri, _)| uri));
            let episodes = hot.batch["episode_id"].as_primitive::<Int64Type>().values().iter();
            let states = state_ids(&hot.batch, "state_id").zip(episodes);
            held.extend(
                states.filter(|&(_, &episode)| stays(episode)).filter_map(|(state, _)| state),
            );
            whole.extend(seal::keyframes(&hot.batch, stays));
        }
        let path = self.log();
        let transaction = self.catalog.write()?;
        for hot in &hot {
            let keep: BooleanArray = match hot.table {
                Table::Steps => {
                    let episodes = hot.batch["episode_id"].as_primitive::<Int64Type>();
                    episodes.values().iter().map(|&episode| Some(stays(episode))).collect()
                }
                Table::Observations => seal::state_mask(&hot.batch, &held),
                Table::Ir => seal::state_mask(&hot.batch, &whole),
                Table::Benchmarks => seal::benchmark_mask(&hot.batch, &benchmarks),
                _ => continue,
            };
            if keep.true_count() == keep.len() {
                continue;
            }
            catalog::delete_frame(&transaction, hot.seq).map_err(StoreError::sqlite(&path))?;
            if keep.true_count() > 0 {
                let kept =
                    filter_record_batch(&hot.batch, &keep).expect("a mask as long as its batch");
                let frame = Frame::encode(hot.table, &kept);
                catalog::insert_frame(&transaction, &frame).map_err(StoreError::sqlite(&path))?;
            }
        }
        let hot_bytes = catalog::hot_bytes(&transaction).map_err(StoreError::sqlite(&path))?;
        self.lake.disk.commit(transaction, &path)?;
        self.hot_bytes = hot_bytes;
        self.left_bytes = self.left_bytes.min(hot_bytes);
        Ok(())
    }

    fn hot(&self) -> Result<Vec<HotBatch>, StoreError> {
        let frames = self.catalog.reading(catalog::frames)?;
        decode(&self.lake, frames)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.catalog.path().to_owned()
    }
}

/// 128 bits that the operating system draws, hex.
pub(super) fn random_uid() -> Result<String, StoreError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| {
        StoreError::io("draw a run's name from", Path::new("the operating system"))(error.into())
    })?;
    Ok(format!("{:032x}", u128::from_le_bytes(bits)))
}

/// A frame, read.
pub(super) struct HotBatch {
    pub(super) seq: i64,
    pub(super) table: Table,
    pub(super) batch: RecordBatch,
    /// Bytes of the frame, decompressed.
    pub(super) bytes: u64,
}

/// Reads frames.
pub(super) fn decode(lake: &Lake, frames: Vec<PlacedFrame>) -> Result<Vec<HotBatch>, StoreError> {
    let path = lake.path.join(catalog::FILE_NAME);
    let decode = |PlacedFrame { seq, frame }: PlacedFrame| {
        let batch = frame.decode(lake.schemas.get(frame.table), seq, &path)?;
        Ok(HotBatch { seq, table: frame.table, batch, bytes: frame.bytes })
    };
    frames.into_iter().map(decode).collect()
}

/// The states in a column.
pub(super) fn state_ids<'a>(
    batch: &'a RecordBatch,
    column: &str,
) -> impl Iterator<Item = Option<StateId>> + 'a {
    let ids: &FixedSizeBinaryArray = batch[column].as_fixed_size_binary();
    (0..ids.len()).map(|row| ids.is_valid(row).then(|| state_id(ids, row)))
}

/// The state in a row, which is not null.
pub(super) fn state_id(ids: &FixedSizeBinaryArray, row: usize) -> StateId {
    StateId(ids.value(row).try_into().expect("the column holds 20 bytes a row"))
}

/// The programs of some rows of `benchmarks`, by name.
fn known_benchmarks(batch: &RecordBatch, names: &[String]) -> Vec<(String, KnownBenchmark)> {
    let text = |name, row| batch[name].as_string::<i32>().value(row).to_owned();
    let states: Vec<Option<StateId>> = state_ids(batch, "initial_state_id").collect();
    let known = |(row, initial_state)| {
        let baseline = |name: &String| {
            let column = batch[name.as_str()].as_primitive::<Int64Type>();
            column.is_valid(row).then(|| (name.clone(), column.value(row)))
        };
        let baselines = Baselines(names.iter().filter_map(baseline).collect());
        let program_digest = text("program_digest", row);
        (text("benchmark_uri", row), KnownBenchmark { program_digest, initial_state, baselines })
    };
    states.into_iter().enumerate().map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BenchmarkUri;
    use crate::store::StepRow;
    use crate::store::identity::tests::identity;

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
            episode: EpisodeId(0),
            index,
            benchmark: benchmark.clone(),
            action: None,
            state: Some(state()),
            keyframe: false,
            end_of_episode: false,
            rewards: None,
            wall_time: std::time::Duration::ZERO,
        };
        let rows = Rows { steps: (0..10_000).map(step).collect(), ..Rows::default() };
        let limit = |writer: &Writer, pages: u32| {
            let set = |connection: &rusqlite::Connection| {
                connection.pragma_update(None, "max_page_count", pages)
            };
            writer.catalog.reading(set).unwrap();
        };
        limit(&writer, 1);
        let error = writer.append(&rows).unwrap_err();
        let wanted = |bytes: &u64| *bytes > 100_000;
        assert!(
            matches!(&error, StoreError::DiskFull { wanted: Some(bytes), .. } if wanted(bytes)),
            "{error}"
        );
        assert_eq!((lake.snapshot().unwrap().rows(Table::Steps), writer.hot_bytes()), (0, 0));
        limit(&writer, 1 << 20);
        writer.append(&rows).unwrap();
        assert_eq!(lake.snapshot().unwrap().rows(Table::Steps), 10_000);
    }
}
