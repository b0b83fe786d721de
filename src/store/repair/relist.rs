//! A lake whose database is gone or malformed: the sealed files are listed anew.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::Int64Type;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use rusqlite::{Connection, params};

use super::Relisted;
use crate::model::EpisodeId;
use crate::store::catalog::{self, Catalog};
use crate::store::disk::BLOCK_BYTES;
use crate::store::frame::Frame;
use crate::store::lock::{Lock, Right};
use crate::store::reading::guarded;
use crate::store::segment::{footer_entries, is_own_name};
use crate::store::writer::{random_uid, state_ids};
use crate::store::{
    BlockDigests, Lake, LossRow, RetractionRow, RunRow, Scan, ScanColumns, Segment, SnapshotId,
    SnapshotKind, StoreError, Table, losses, manifest, retractions,
};

/// What tells a row of a recorded table from others.
type Key = [u8; 20];

/// Makes the database anew where it is gone or cannot be read. Older snapshots are lost: which files they had
/// is known to nobody. What can still be read of the list of runs, of the retractions and of the rows that
/// were not sealed is taken over.
///
/// The old database is kept beside the new one, as `hot.sqlite.damaged`. Files that are damaged, or that
/// hold rows which another file holds too, get `.left-out` behind their names. Killed in between, it is
/// done from the beginning by the next repair.
pub(super) fn relist(lake: &Lake) -> Result<Option<Relisted>, StoreError> {
    let Some(why) = destroyed(lake)? else { return Ok(None) };
    let _maintain = Lock::take(&lake.path, Right::Maintain)?;
    let _write = Lock::take(&lake.path, Right::Write)?;
    let mut taken = Listing::default();
    for table in Table::ALL.into_iter().filter(|table| !table.is_derived()) {
        taken.list(lake, table)?;
    }
    for path in &taken.left_out {
        lake.disk.rename(path, &with_end(path, ".left-out"))?;
    }
    let old = Old::read(lake, &taken);
    publish(lake, &taken, &old, &why)?;
    let database = lake.path.join(catalog::FILE_NAME);
    for end in ["-wal", "-shm", ""] {
        let part = with_end(&database, end);
        if part.exists() {
            let aside = with_end(&with_end(&database, ".damaged"), end);
            lake.disk.rename(&part, &aside)?;
        }
    }
    lake.disk.rename(&new_database(lake), &database)?;
    let left_out = taken.left_out.iter().map(|path| with_end(path, ".left-out")).collect();
    let (files, hot_rows) = (taken.segments.len() as u64, old.hot.is_some());
    Ok(Some(Relisted { why, files, left_out, hot_rows }))
}

/// What is wrong with the database, where it cannot be read.
fn destroyed(lake: &Lake) -> Result<Option<String>, StoreError> {
    let read = || {
        let catalog = Catalog::open_for_reading(&lake.path, &lake.identity, &lake.disk)?;
        let all = |log: &Connection| {
            let damage = catalog::damage(log)?;
            manifest::snapshots(log)?;
            manifest::listed_paths(log, &lake.path)?;
            catalog::runs(log)?;
            catalog::frames(log)?;
            Ok(damage)
        };
        catalog.reading(all)
    };
    match read() {
        Ok(damage) => Ok(damage),
        Err(StoreError::Corrupt { path, what }) if path.ends_with(catalog::FILE_NAME) => {
            Ok(Some(what))
        }
        Err(error) => Err(error),
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path.into()
}

fn new_database(lake: &Lake) -> PathBuf {
    with_end(&lake.path.join(catalog::FILE_NAME), ".new")
}

/// The sealed files that are sound, and hold rows that no other file holds.
#[derive(Default)]
struct Listing {
    segments: Vec<Segment>,
    left_out: Vec<PathBuf>,
    /// The runs that episodes are of.
    runs: BTreeSet<i32>,
}

impl Listing {
    fn list(&mut self, lake: &Lake, table: Table) -> Result<(), StoreError> {
        let folder = lake.path.join(table.name());
        let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(()) };
        let mut sound = Vec::new();
        for entry in entries {
            let entry = entry.map_err(StoreError::io("list", &folder))?;
            let name = entry.file_name();
            let own = name.to_str().is_some_and(|name| is_own_name(table, name));
            if own && entry.path().extension().is_some_and(|end| end == "parquet") {
                match as_written(lake, table, &entry.path())? {
                    Some(segment) => sound.push(segment),
                    None => self.left_out.push(entry.path()),
                }
            }
        }
        // What a crash left beside a file holds less than the file.
        sound.sort_by(|a, b| (b.rows, &a.path).cmp(&(a.rows, &b.path)));
        let mut known = HashSet::new();
        for segment in sound {
            let keys = self.keys(lake, &segment)?;
            if keys.iter().any(|key| known.contains(key)) {
                self.left_out.push(segment.path);
                continue;
            }
            known.extend(keys);
            self.segments.push(segment);
        }
        Ok(())
    }

    fn keys(&mut self, lake: &Lake, segment: &Segment) -> Result<HashSet<Key>, StoreError> {
        let column = match segment.table {
            Table::Benchmarks => "benchmark_uri",
            Table::Episodes | Table::Steps => "episode_id",
            _ => "state_id",
        };
        let mut keys = HashSet::new();
        for batch in scan(lake, segment, column) {
            let batch = batch?;
            match segment.table {
                Table::Benchmarks => {
                    let uris = batch[column].as_string::<i32>().iter().flatten();
                    keys.extend(uris.map(|uri| shortened(uri.as_bytes())));
                }
                Table::Episodes | Table::Steps => {
                    let ids = batch[column].as_primitive::<Int64Type>().values().iter();
                    self.runs.extend(ids.clone().map(|&id| EpisodeId(id).run().0));
                    keys.extend(ids.map(|id| shortened(&id.to_le_bytes())));
                }
                _ => keys.extend(state_ids(&batch, column).flatten().map(|state| state.0)),
            }
        }
        Ok(keys)
    }
}

fn shortened(bytes: &[u8]) -> Key {
    blake3::hash(bytes).as_bytes()[..20].try_into().expect("a hash has 32 bytes")
}

fn scan<'a>(lake: &'a Lake, segment: &'a Segment, column: &str) -> Scan<'a> {
    let schema = lake.schemas.get(segment.table);
    Scan::new(schema, std::slice::from_ref(segment), &[], ScanColumns::Named(&[column]))
}

/// The segment in a file, where it is what its name and this lake's identity say.
fn as_written(lake: &Lake, table: Table, path: &Path) -> Result<Option<Segment>, StoreError> {
    let reading = StoreError::io("read", path);
    let Some(mut segment) = unnamed(lake, table, path).map_err(reading)? else { return Ok(None) };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name != format!("{table}-{}.parquet", &segment.digest[..16]) {
        return Ok(None);
    }
    let file = segment.open()?;
    let load = || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
    let Ok(footer) = guarded(load) else { return Ok(None) };
    let footer = footer.metadata().file_metadata();
    let entries = footer.key_value_metadata().cloned().unwrap_or_default();
    let is_there = |(key, value): (String, String)| {
        entries.iter().any(|entry| entry.key == key && entry.value.as_ref() == Some(&value))
    };
    if !footer_entries(&lake.identity, table).into_iter().all(is_there) {
        return Ok(None);
    }
    segment.rows = u64::try_from(footer.num_rows()).unwrap_or(0);
    segment.key_range = key_range_of(lake, &segment)?;
    Ok(Some(segment))
}

/// What a file is as such: its length and its digests. None where it got shorter while it was read.
fn unnamed(lake: &Lake, table: Table, path: &Path) -> std::io::Result<Option<Segment>> {
    let file = lake.disk.open(path)?;
    let bytes = file.bytes()?;
    let mut whole = blake3::Hasher::new();
    let mut blocks = Vec::new();
    let mut block = vec![0; BLOCK_BYTES];
    for start in (0..bytes).step_by(BLOCK_BYTES) {
        let read = file.read_at(&mut block, start)?;
        if read == 0 {
            return Ok(None);
        }
        whole.update(&block[..read]);
        blocks.extend_from_slice(blake3::hash(&block[..read]).as_bytes());
    }
    Ok(Some(Segment {
        table,
        path: path.to_owned(),
        rows: 0,
        bytes,
        digest: whole.finalize().to_hex().to_string(),
        key_range: None,
        layer: None,
        is_counted: false,
        blocks: BlockDigests::new(blocks),
        disk: lake.disk.clone(),
    }))
}

fn key_range_of(lake: &Lake, segment: &Segment) -> Result<Option<(i64, i64)>, StoreError> {
    let leading = segment.table.key()[0].as_str();
    let mut range: Option<(i64, i64)> = None;
    for batch in scan(lake, segment, leading) {
        let batch: RecordBatch = batch?;
        let Some(keys) = batch[leading].as_primitive_opt::<Int64Type>() else { return Ok(None) };
        if let (Some(&first), Some(&last)) = (keys.values().first(), keys.values().last()) {
            range = Some((range.map_or(first, |range| range.0), last));
        }
    }
    Ok(range)
}

/// What can still be read of the old database.
#[derive(Default)]
struct Old {
    runs: Vec<RunRow>,
    retractions: Vec<RetractionRow>,
    losses: Vec<LossRow>,
    /// The frames that are as they were written, where the old database listed the very files that there
    /// are: else it may be older than they are, and a frame may be sealed by now.
    hot: Option<Vec<Frame>>,
}

impl Old {
    fn read(lake: &Lake, listing: &Listing) -> Self {
        let Ok(catalog) = Catalog::open_for_reading(&lake.path, &lake.identity, &lake.disk) else {
            return Self::default();
        };
        let all = SnapshotId(i64::MAX);
        let hot = || {
            let read =
                |log: &Connection| Ok((manifest::segments(log, lake, all)?, catalog::frames(log)?));
            let (listed, frames) = catalog.reading(read).ok()?;
            let recorded = listed.iter().filter(|segment| !segment.table.is_derived());
            let listed = recorded.map(|segment| &segment.path).collect::<BTreeSet<_>>();
            let found = listing.segments.iter().map(|segment| &segment.path).collect();
            let frames = frames.into_iter().map(|placed| placed.frame);
            (listed == found).then(|| frames.filter(Frame::is_intact).collect())
        };
        Self {
            hot: hot(),
            runs: catalog.reading(catalog::runs).unwrap_or_default(),
            retractions: catalog.reading(|log| retractions::list(log, all)).unwrap_or_default(),
            losses: catalog.reading(|log| losses::list(log, all)).unwrap_or_default(),
        }
    }
}

/// Makes the new database, beside the old one. Durable on return.
fn publish(lake: &Lake, listing: &Listing, old: &Old, why: &str) -> Result<(), StoreError> {
    let path = new_database(lake);
    for end in ["-journal", "-wal", "-shm", ""] {
        lake.disk.remove(&with_end(&path, end))?;
    }
    let Lake { identity, disk, .. } = lake;
    let mut catalog = Catalog::create_at(path.clone(), &lake.path, identity, disk)?;
    let now_ms = disk.now_ms();
    // A run whose row is gone keeps its number. Nobody can go on with it: its arguments are unknown.
    let is_known = |number: &i32| old.runs.iter().any(|row| row.id.0 == *number);
    let unknown = listing.runs.iter().filter(|number| !is_known(number));
    let unknown = unknown.map(|&number| Ok((number, random_uid()?)));
    let unknown = unknown.collect::<Result<Vec<_>, StoreError>>()?;
    let transaction = catalog.write()?;
    let publish = || {
        let detail = format!("{} was lost ({why}): files listed anew", catalog::FILE_NAME);
        let kind = SnapshotKind::Repair;
        let snapshot = manifest::begin_snapshot(&transaction, now_ms, kind, &detail)?;
        let sql = "INSERT INTO runs (run_id, uid, arguments, started_at_ms, finished)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        for run in &old.runs {
            let row = params![run.id.0, run.uid, run.arguments, run.started_at_ms, run.finished];
            transaction.execute(sql, row)?;
        }
        for (number, uid) in &unknown {
            transaction.execute(sql, params![number, uid, "", 0, false])?;
        }
        for row in &old.retractions {
            retractions::insert(&transaction, &RetractionRow { snapshot, ..row.clone() })?;
        }
        for row in &old.losses {
            losses::insert(&transaction, &LossRow { snapshot, ..row.clone() })?;
        }
        for frame in old.hot.iter().flatten() {
            catalog::insert_frame(&transaction, frame)?;
        }
        if old.hot.is_none() {
            let what = "the hot log was lost: whatever was not sealed".to_owned();
            let (table, path) = (Table::Steps, catalog::FILE_NAME.to_owned());
            losses::insert(&transaction, &LossRow { table, path, rows: 0, what, snapshot })?;
        }
        let mut segments = listing.segments.iter();
        segments
            .try_for_each(|segment| manifest::insert(&transaction, &lake.path, segment, snapshot))
    };
    publish().map_err(StoreError::sqlite(&path))?;
    disk.commit(transaction, &path)?;
    // The last connection to be closed brings the write-ahead log home.
    drop(catalog);
    Ok(())
}
