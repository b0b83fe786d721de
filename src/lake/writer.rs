use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::BooleanArray;
use rusqlite::{Connection, params};

use super::catalog::{self, random_uid};
use super::decode::{benchmark_uris, episode_ids, known_benchmarks, state_ids};
use super::edit;
use super::error::LakeError;
use super::frame::Frame;
use super::handle::Lake;
use super::hot;
use super::identity::Identity;
use super::lock::{Lock, Right};
use super::orphans;
use super::recovery::recover;
use super::rows::{Known, Rows, RunRow};
use super::scan::ScanColumns;
use super::seal::{Prepared, SealReport, Sealer};
use super::sqlite::Catalog;
use super::table::Table;
use crate::model::{EpisodeId, RunId};

/// New bytes in the hot log after which a seal is worth its file.
const SEAL_BYTES: u64 = 64 << 20;

/// The right to write to a lake, and the one connection that does. Dropping it gives the right
/// back.
///
/// Every call is one transaction: after an `Err` the lake is as before, and the writer can go on.
#[derive(Debug)]
pub struct Writer {
    pub(crate) lake: Lake,
    pub(crate) catalog: Catalog,
    lock: Arc<Lock>,
    hot_bytes: u64,
    /// What the last seal had to leave.
    left_bytes: u64,
}

impl Lake {
    /// Takes the right to write, brings the hot log to this version, and removes what a crash left
    /// of recorded tables.
    ///
    /// # Errors
    ///
    /// [`LakeError::Busy`] when another writer has it, [`LakeError::ReadOnly`].
    pub fn writer(&self) -> Result<Writer, LakeError> {
        Writer::open(self)
    }
}

impl Writer {
    pub(crate) fn open(lake: &Lake) -> Result<Self, LakeError> {
        let lock = Arc::new(Lock::take(&lake.disk, &lake.path, Right::Write)?);
        let lake = &lake.current()?;
        let catalog = Catalog::open_for_writing(lake)?;
        let mut writer = Self { lake: lake.clone(), catalog, lock, hot_bytes: 0, left_bytes: 0 };
        writer.recover()?;
        writer.hot_bytes = writer.catalog.reading(catalog::hot_bytes)?;
        Ok(writer)
    }

    /// The lake.
    pub fn lake(&self) -> &Lake {
        &self.lake
    }

    /// Removes what a crash left of the files that are being written, and of the log of snapshots.
    /// Then it shows other tools the newest snapshot. Files of derived tables are left to whoever
    /// maintains the lake, and complete files that no snapshot has are left to a collection.
    fn recover(&mut self) -> Result<(), LakeError> {
        let recorded = Table::ALL.into_iter().filter(|table| !table.is_derived());
        orphans::remove_temporary(&self.lake, recorded)?;
        recover(&self.lake, &self.catalog)
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
    /// [`LakeError::DiskFull`] and what else a disk does.
    pub fn begin_run(&mut self, arguments: &str, started_at_ms: i64) -> Result<RunId, LakeError> {
        let uid = random_uid()?;
        let sql = "INSERT INTO runs (uid, arguments, started_at_ms) VALUES (?1, ?2, ?3)
                   RETURNING run_id";
        let row = params![uid, arguments, started_at_ms];
        self.catalog.writing(|log| log.query_row(sql, row, |row| row.get(0).map(RunId)))
    }

    /// Says that a run did all that it was asked for.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and what else a disk does.
    pub fn finish_run(&mut self, run: RunId) -> Result<(), LakeError> {
        let sql = "UPDATE runs SET finished = 1, logged = 0 WHERE run_id = ?1";
        self.catalog.writing(|log| log.execute(sql, [run.0]).map(drop))
    }

    /// Says that so many more windows of a run's steps failed in one worker process, and not in a
    /// fresh one.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and what else a disk does.
    pub fn add_repeated_windows(&mut self, run: RunId, more: u32) -> Result<(), LakeError> {
        if more == 0 {
            return Ok(());
        }
        let sql = "UPDATE runs SET repeated_windows = repeated_windows + ?2, logged = 0
                   WHERE run_id = ?1";
        self.catalog.writing(|log| log.execute(sql, [run.0.into(), i64::from(more)]).map(drop))
    }

    /// The runs, in the order in which they were begun.
    ///
    /// # Errors
    ///
    /// When the hot log cannot be read.
    pub fn runs(&self) -> Result<Vec<RunRow>, LakeError> {
        self.catalog.reading(catalog::runs)
    }

    /// Appends rows in one durable transaction: after `Ok` they survive a power cut, after `Err`
    /// none of them is there. See [`Rows`] for what has to come with what.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`]: once there is room, the same call works.
    ///
    /// # Panics
    ///
    /// When a row has another number or kind of values than the lake has columns for.
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
    /// [`LakeError::DiskFull`] and what else a disk does. The rows are then still in the hot log.
    pub fn seal(&mut self) -> Result<SealReport, LakeError> {
        let prepared = self.sealer().prepare()?;
        let report = self.publish(prepared)?;
        self.catalog.shrink()?;
        Ok(report)
    }

    /// What another thread needs to prepare a seal while this writer goes on appending. It holds on
    /// to the right to write: give it back by dropping it.
    pub fn sealer(&self) -> Sealer {
        Sealer::new(self.lake.clone(), Arc::clone(&self.lock))
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
    /// [`LakeError::DiskFull`] and what else a disk does. The rows are then still in the hot log.
    pub fn publish(&mut self, prepared: Prepared) -> Result<SealReport, LakeError> {
        let mut prepared = prepared;
        loop {
            match edit::apply(&mut self.catalog, &self.lake, &prepared.edit) {
                Err(LakeError::FramesGone { .. }) => {}
                applied => {
                    applied?;
                    self.hot_bytes = self.catalog.reading(catalog::hot_bytes)?;
                    self.left_bytes = prepared.left_bytes();
                    return Ok(prepared.report(self.hot_bytes));
                }
            }
            prepared.discard();
            prepared = self.sealer().prepare()?;
        }
    }

    /// The episodes of a run that are over, in order.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when a file of the lake is damaged.
    pub fn closed_episodes(&self, run: RunId) -> Result<BTreeSet<EpisodeId>, LakeError> {
        let snapshot = self.lake.snapshot()?;
        let mut closed = BTreeSet::new();
        for batch in snapshot.scan(Table::Episodes, ScanColumns::Named(&["episode_id"])) {
            let batch = batch?;
            let ids = episode_ids(&batch).iter().map(|&id| EpisodeId(id));
            closed.extend(ids.filter(|id| id.run() == run));
        }
        Ok(closed)
    }

    /// What the lake knows already.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when a file of the lake is damaged.
    pub fn known_states(&self) -> Result<Known, LakeError> {
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
    /// [`LakeError::Corrupt`] when the hot log is damaged, and what a disk does.
    pub fn discard_open(&mut self, run: RunId) -> Result<(), LakeError> {
        let hot = hot::decode(&self.lake, self.catalog.reading(catalog::frames)?)?;
        let closed = hot::closed_episodes(hot.iter().map(|hot| (hot.table, &hot.batch)));
        let stays = |episode: i64| EpisodeId(episode).run() != run || closed.contains(&episode);
        let mut benchmarks = hot::closed_benchmarks(hot.iter().map(|hot| (hot.table, &hot.batch)));
        let (mut held, mut whole) = (HashSet::new(), HashSet::new());
        for hot in hot.iter().filter(|hot| hot.table == Table::Steps) {
            let states = state_ids(&hot.batch, "state_id");
            let rows = episode_ids(&hot.batch).iter().zip(benchmark_uris(&hot.batch).zip(states));
            for (_, (uri, state)) in rows.filter(|&(&episode, _)| stays(episode)) {
                benchmarks.insert(uri);
                held.extend(state);
            }
            whole.extend(hot::keyframes(&hot.batch, stays));
        }
        let hot_bytes = self.catalog.writing(|log| {
            for hot in &hot {
                let keep: BooleanArray = match hot.table {
                    Table::Steps => {
                        episode_ids(&hot.batch).iter().map(|&id| Some(stays(id))).collect()
                    }
                    Table::Observations => hot::state_mask(&hot.batch, &held),
                    Table::Ir => hot::state_mask(&hot.batch, &whole),
                    Table::Benchmarks => hot::benchmark_mask(&hot.batch, &benchmarks),
                    _ => continue,
                };
                if keep.true_count() == keep.len() {
                    continue;
                }
                catalog::delete_frame(log, hot.seq)?;
                if keep.true_count() > 0 {
                    catalog::insert_frame(log, &hot.filtered(&keep))?;
                }
            }
            catalog::hot_bytes(log)
        })?;
        self.hot_bytes = hot_bytes;
        self.left_bytes = self.left_bytes.min(hot_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::identity::tests::identity;
    use crate::lake::rows::StepRow;
    use crate::model::BenchmarkUri;
    use crate::model::StateId;

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
            let set = |connection: &Connection| {
                connection.pragma_update(None, "max_page_count", pages)
            };
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
