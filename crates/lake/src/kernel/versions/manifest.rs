//! The manifest: the files of the lake, and the snapshots that have them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Result, Row, params};
use serde::{Deserialize, Serialize};

use super::sqlite::{count, named, query, signed};
use crate::kernel::files::digest::BlockDigests;
use crate::kernel::handle::Lake;
use crate::kernel::ids::{LayerId, SnapshotId};
use crate::kernel::schema::table::Table;
use crate::kernel::segments::deletions::DeletionVector;
use crate::kernel::segments::segment::{FileRow, Segment};

steplake_model::named! {
    /// The operation that made a snapshot.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SnapshotKind {
        /// The lake was made.
        #[default]
        Create = "create",
        /// Recorded rows became segments.
        Seal = "seal",
        /// Steps were counted.
        Dedup = "dedup",
        /// Rows were taken back.
        Retract = "retract",
        /// Damage was cut out.
        Repair = "repair",
        /// Other lakes were brought in.
        Merge = "merge",
        /// A published version was fetched.
        Fetch = "fetch",
        /// States got observations that they lacked.
        Backfill = "backfill",
        /// A log of another program was brought in.
        Import = "import",
        /// Segments of recorded tables were merged, row for row.
        Compact = "compact",
        /// The recorded actions of a lake with ids of another scheme were played again.
        Convert = "convert",
    }

    /// The name in the catalog and in SQL.
    fn as_str;
}

/// What becomes of the derived tables in a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Derived {
    /// They do not change.
    #[default]
    Kept,
    /// They are dropped because recorded rows changed. A dedup makes them again.
    Dropped,
    /// They were made, by the rules with this name.
    Made(String),
}

/// A row of the list of snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRow {
    /// Its number.
    pub id: SnapshotId,
    /// The operation that made it.
    pub kind: SnapshotKind,
    /// When it was made, Unix time in milliseconds. Clocks may jump, so only the numbers give the
    /// order.
    pub created_at_ms: i64,
    /// A one-line description for people.
    pub detail: String,
    /// Rows of the segments that it added.
    pub rows_added: u64,
    /// Bytes of these segments.
    pub bytes_added: u64,
}

/// Segments that the manifest lists, in the order in which they were added.
type Segments = Result<Vec<Segment>>;

/// Lists a snapshot. Without an `id`, it gets the next number. The same transaction writes what
/// changes with the snapshot.
pub(crate) fn insert_snapshot(
    log: &Connection,
    id: Option<SnapshotId>,
    created_at_ms: i64,
    kind: SnapshotKind,
    detail: &str,
) -> Result<SnapshotId> {
    let sql = "INSERT INTO snapshots (snapshot_id, kind, created_at_ms, detail)
               VALUES (?1, ?2, ?3, ?4) RETURNING snapshot_id";
    let row = params![id.map(|id| id.0), kind.as_str(), created_at_ms, detail];
    log.query_row(sql, row, |row| row.get(0).map(SnapshotId))
}

/// The snapshots that have not expired, oldest first.
pub(crate) fn snapshots(log: &Connection) -> Result<Vec<SnapshotRow>> {
    let sql = "SELECT snapshot_id, kind, created_at_ms, detail,
                 coalesce(brought.rows, 0), coalesce(brought.bytes, 0)
               FROM snapshots LEFT JOIN
                 (SELECT added_in, sum(rows) AS rows, sum(bytes) AS bytes
                  FROM segments NOT INDEXED
                  WHERE NOT EXISTS (SELECT 1 FROM segments AS before
                    WHERE before.path = segments.path AND before.retired_in = segments.added_in)
                  GROUP BY added_in) AS brought
               ON brought.added_in = snapshot_id
               ORDER BY snapshot_id";
    query(log, sql, [], |row| {
        Ok(SnapshotRow {
            id: SnapshotId(row.get(0)?),
            kind: named(row, 1)?,
            created_at_ms: row.get(2)?,
            detail: row.get(3)?,
            rows_added: count(row, 4)?,
            bytes_added: count(row, 5)?,
        })
    })
}

/// The segments of a snapshot, in the order in which they were added.
pub(crate) fn segments(log: &Connection, lake: &Lake, id: SnapshotId) -> Segments {
    select(log, lake, "added_in <= ?1 AND (retired_in IS NULL OR retired_in > ?1)", id)
}

/// The segments whose `event` was in snapshot `id`: `added`, `retired` or `counted`.
pub(crate) fn changed_in(log: &Connection, lake: &Lake, event: &str, id: SnapshotId) -> Segments {
    select(log, lake, &format!("{event}_in = ?1"), id)
}

/// The segments from before snapshot `id` that a repair found damaged.
pub(crate) fn lost_before(log: &Connection, lake: &Lake, id: SnapshotId) -> Segments {
    select(log, lake, "lost AND added_in < ?1", id)
}

/// The segments of a snapshot that a repair found damaged.
pub(crate) fn lost(log: &Connection, lake: &Lake, id: SnapshotId) -> Segments {
    let of_snapshot = "lost AND added_in <= ?1 AND (retired_in IS NULL OR retired_in > ?1)";
    select(log, lake, of_snapshot, id)
}

/// The paths that a query returns.
fn paths(log: &Connection, lake: &Path, sql: &str) -> Result<HashSet<PathBuf>> {
    query(log, sql, [], |row| Ok(lake.join(row.get::<_, String>(0)?)))
}

/// The files that a repair found damaged.
pub(crate) fn lost_paths(log: &Connection, lake: &Path) -> Result<HashSet<PathBuf>> {
    paths(log, lake, "SELECT path FROM segments WHERE lost")
}

/// Marks a file as damaged, in all snapshots that have it.
pub(crate) fn mark_lost_path(log: &Connection, path: &str) -> Result<()> {
    log.execute("UPDATE segments SET lost = 1 WHERE path = ?1", [path]).map(drop)
}

/// The segments that only snapshots before the newest have.
pub(crate) fn retired(log: &Connection, lake: &Lake) -> Segments {
    // Snapshots have numbers from 1 on.
    retired_after(log, lake, SnapshotId(0))
}

/// The segments that were retired after snapshot `id` and that the newest snapshot does not have.
pub(crate) fn retired_after(log: &Connection, lake: &Lake, id: SnapshotId) -> Segments {
    let now = "SELECT path FROM segments NOT INDEXED WHERE retired_in IS NULL";
    let mut segments = select(log, lake, &format!("retired_in > ?1 AND path NOT IN ({now})"), id)?;
    // A file comes once for each of its deletion vectors.
    let mut seen = HashSet::new();
    segments.retain(|segment| seen.insert(segment.path.clone()));
    Ok(segments)
}

/// All segments that are not damaged. A segment that was retired and added again comes twice.
pub(crate) fn readable(log: &Connection, lake: &Lake) -> Segments {
    select(log, lake, "NOT lost", SnapshotId(0))
}

fn select(log: &Connection, lake: &Lake, condition: &str, id: SnapshotId) -> Segments {
    // A database from before the column is read as it is.
    let has_deletions = log.column_exists(None, "segments", "deletions")?;
    let deletions = if has_deletions { "deletions" } else { "NULL" };
    let sql = format!(
        "SELECT table_name, path, rows, bytes, digest, key_min, key_max, layer,
           coalesce(counted_in <= ?1, 0), blocks, blocks_digest, {deletions}
         FROM segments NOT INDEXED WHERE {condition} ORDER BY segment_id"
    );
    query(log, &sql, [id.0], |row| {
        let key: (Option<i64>, Option<i64>) = (row.get(5)?, row.get(6)?);
        let file = FileRow {
            table: named(row, 0)?,
            rows: count(row, 2)?,
            bytes: count(row, 3)?,
            digest: row.get(4)?,
            key_range: key.0.zip(key.1),
            layer: row.get::<_, Option<i64>>(7)?.map(LayerId),
            is_counted: row.get(8)?,
            deletions: deletions_of(row)?,
        };
        Ok(Segment {
            row: file,
            path: lake.path.join(row.get::<_, String>(1)?),
            blocks: BlockDigests { list: row.get::<_, Vec<u8>>(9)?.into(), digest: row.get(10)? },
            disk: lake.disk.clone(),
        })
    })
}

/// The deletion vector in the last column of a row.
fn deletions_of(row: &Row<'_>) -> Result<Option<DeletionVector>> {
    let bytes = row.get_ref(11)?.as_blob_or_null()?;
    let Some(bytes) = bytes else { return Ok(None) };
    let damaged = || {
        let what = "a deletion vector is damaged";
        rusqlite::Error::FromSqlConversionFailure(11, Type::Blob, what.into())
    };
    DeletionVector::from_bytes(bytes).map(Some).ok_or_else(damaged)
}

/// Adds a segment to the manifest, from snapshot `id` on. If the file was marked as damaged before,
/// it is sound again in older snapshots too.
pub(crate) fn insert(
    log: &Connection,
    lake: &Path,
    segment: &Segment,
    id: SnapshotId,
) -> Result<()> {
    let sql = "INSERT INTO segments
                 (table_name, path, rows, bytes, digest, key_min, key_max, layer, added_in, blocks,
                  blocks_digest, deletions)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let row = params![
        segment.table.name(),
        relative(lake, &segment.path),
        signed(segment.rows),
        signed(segment.bytes),
        segment.digest,
        segment.key_range.map(|range| range.0),
        segment.key_range.map(|range| range.1),
        segment.layer.map(|layer| layer.0),
        id.0,
        &segment.blocks.list[..],
        segment.blocks.digest,
        segment.deletions.as_ref().map(DeletionVector::to_bytes),
    ];
    log.execute(sql, row)?;
    let found_again = "UPDATE segments SET lost = 0 WHERE path = ?1";
    log.execute(found_again, [relative(lake, &segment.path)]).map(drop)
}

/// Replaces the list of block digests of a file in all rows of the file. An intact list does not
/// change.
pub(crate) fn mend_blocks(
    log: &Connection,
    lake: &Path,
    path: &Path,
    blocks: &BlockDigests,
) -> Result<()> {
    let sql = "UPDATE segments SET blocks = ?1 WHERE path = ?2 AND blocks_digest = ?3";
    let row = params![&blocks.list[..], relative(lake, path), blocks.digest];
    log.execute(sql, row).map(drop)
}

/// Retires a file in snapshot `id`. Returns false if the newest snapshot does not have it.
pub(crate) fn retire_path(log: &Connection, path: &str, id: SnapshotId) -> Result<bool> {
    let sql = "UPDATE segments SET retired_in = ?1 WHERE path = ?2 AND retired_in IS NULL";
    log.execute(sql, params![id.0, path]).map(|rows| rows == 1)
}

/// Marks the steps of a file as counted from snapshot `id` on. Returns false if the newest snapshot
/// does not have the file.
pub(crate) fn mark_counted_path(log: &Connection, path: &str, id: SnapshotId) -> Result<bool> {
    let sql = "UPDATE segments SET counted_in = coalesce(counted_in, ?1)
               WHERE path = ?2 AND table_name = ?3 AND retired_in IS NULL";
    let row = params![id.0, path, Table::Steps.name()];
    log.execute(sql, row).map(|rows| rows == 1)
}

/// Forgets the snapshots before `oldest`, and the segments that no later snapshot has.
pub(crate) fn forget(log: &Connection, oldest: SnapshotId) -> Result<()> {
    log.execute("DELETE FROM snapshots WHERE snapshot_id < ?1", [oldest.0])?;
    log.execute("DELETE FROM segments WHERE retired_in <= ?1", [oldest.0]).map(drop)
}

/// The files that some snapshot has. Like all queries that decide which files may be deleted, this
/// one reads no index, because no digest covers indexes.
pub(crate) fn listed_paths(log: &Connection, lake: &Path) -> Result<HashSet<PathBuf>> {
    paths(log, lake, "SELECT path FROM segments NOT INDEXED")
}

/// Retires all segments in snapshot `id`.
pub(crate) fn retire_all(log: &Connection, id: SnapshotId) -> Result<()> {
    let sql = "UPDATE segments SET retired_in = ?1 WHERE retired_in IS NULL";
    log.execute(sql, [id.0]).map(drop)
}

/// Retires all layers in snapshot `id`.
pub(crate) fn retire_layers(log: &Connection, id: SnapshotId) -> Result<()> {
    let sql = "UPDATE segments SET retired_in = ?1 WHERE layer IS NOT NULL AND retired_in IS NULL";
    log.execute(sql, [id.0]).map(drop)
}

/// How the layers are made. Changes when the same steps would give other tables or layers.
///
/// Version 3 has each (state, action) in one layer. Before, it could be in several, for readers to
/// merge.
pub(crate) const DEDUP_INPUTS: &str = "version 3";

/// The name of the derivation of the derived tables.
pub(crate) const DEDUP: &str = "dedup";

/// The inputs of a derivation, if it was made.
pub(crate) fn derivation(log: &Connection, name: &str) -> Result<Option<String>> {
    let sql = "SELECT inputs FROM derivations WHERE name = ?1";
    log.query_row(sql, [name], |row| row.get(0)).optional()
}

/// The name of the derivation that describes a fetch.
const FETCHED: &str = "fetched";
/// The name of the derivation of what was published.
const PUBLISHED: &str = "published";

/// What the catalog stores about a fetch or a publication, so that later changes can be recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FetchRecord {
    /// What was fetched, or published: a text of the caller.
    pub(crate) what: String,
    /// The snapshot that the fetch made, or that was published.
    pub(crate) snapshot: SnapshotId,
    /// Digest of the list of runs.
    pub(crate) runs: String,
}

/// What the lake was fetched from, if it was fetched.
pub(crate) fn fetched(log: &Connection) -> Result<Option<FetchRecord>> {
    record(log, FETCHED)
}

/// Stores what the lake was fetched from.
pub(crate) fn set_fetched(log: &Connection, fetched: &FetchRecord) -> Result<()> {
    set_record(log, FETCHED, fetched)
}

/// What the lake was last published as, since the last fetch.
pub(crate) fn published(log: &Connection) -> Result<Option<FetchRecord>> {
    record(log, PUBLISHED)
}

/// Stores what the lake was published as.
pub(crate) fn set_published(log: &Connection, published: &FetchRecord) -> Result<()> {
    set_record(log, PUBLISHED, published)
}

fn record(log: &Connection, name: &str) -> Result<Option<FetchRecord>> {
    let note = derivation(log, name)?;
    Ok(note.and_then(|note| serde_json::from_str(&note).ok()))
}

fn set_record(log: &Connection, name: &str, record: &FetchRecord) -> Result<()> {
    let note = serde_json::to_string(record).expect("strings and numbers serialise");
    set_derivation(log, name, &note)
}

/// Stores the inputs of a derivation.
pub(crate) fn set_derivation(log: &Connection, name: &str, inputs: &str) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO derivations VALUES (?1, ?2)";
    log.execute(sql, params![name, inputs]).map(drop)
}

/// Forgets a derivation.
pub(crate) fn forget_derivation(log: &Connection, name: &str) -> Result<()> {
    log.execute("DELETE FROM derivations WHERE name = ?1", [name]).map(drop)
}

/// The path of a file relative to the lake, as the manifest lists it.
pub(crate) fn relative(lake: &Path, path: &Path) -> String {
    let path = path.strip_prefix(lake).expect("segments lie in their lake");
    path.to_str().expect("the store names its files in ASCII").to_owned()
}
