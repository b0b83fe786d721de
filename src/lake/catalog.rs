//! The rows of `hot.sqlite` beside the manifest: frames of the hot log, runs, derivations.

use std::path::Path;

use rusqlite::{Connection, params};

use super::error::LakeError;
use super::frame::Frame;
use super::rows::RunRow;
use super::sqlite::{count, signed, table};
use crate::model::RunId;

/// A frame and its place in the log.
pub(crate) struct PlacedFrame {
    pub(crate) seq: i64,
    pub(crate) frame: Frame,
}

/// The frames of the log, in the order of their numbers.
pub(crate) const FRAMES: &str =
    "SELECT seq, table_name, rows, bytes, digest, body FROM frames ORDER BY seq";

/// The frames of the log, oldest first.
pub(crate) fn frames(connection: &Connection) -> rusqlite::Result<Vec<PlacedFrame>> {
    connection.prepare(FRAMES)?.query_map([], frame)?.collect()
}

/// A row of [`FRAMES`].
pub(crate) fn frame(row: &rusqlite::Row<'_>) -> rusqlite::Result<PlacedFrame> {
    let frame = Frame {
        table: table(&row.get::<_, String>(1)?)?,
        rows: count(row, 2)?,
        bytes: count(row, 3)?,
        digest: row.get(4)?,
        body: row.get(5)?,
    };
    Ok(PlacedFrame { seq: row.get(0)?, frame })
}

/// Appends a frame to the log.
pub(crate) fn insert_frame(connection: &Connection, frame: &Frame) -> rusqlite::Result<()> {
    let sql = "INSERT INTO frames (table_name, rows, bytes, digest, body)
               VALUES (?1, ?2, ?3, ?4, ?5)";
    let row = params![
        frame.table.name(),
        signed(frame.rows),
        signed(frame.bytes),
        frame.digest,
        frame.body
    ];
    connection.prepare_cached(sql)?.execute(row).map(drop)
}

/// Removes a frame; false where there is none.
pub(crate) fn delete_frame(connection: &Connection, seq: i64) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("DELETE FROM frames WHERE seq = ?1")?
        .execute([seq])
        .map(|rows| rows == 1)
}

/// Bytes of all frames, decompressed.
pub(crate) fn hot_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("SELECT coalesce(sum(bytes), 0) FROM frames", [], |row| count(row, 0))
}

/// The runs, in the order in which they were begun.
pub(crate) fn runs(connection: &Connection) -> rusqlite::Result<Vec<RunRow>> {
    select_runs(connection, "")
}

fn select_runs(connection: &Connection, condition: &str) -> rusqlite::Result<Vec<RunRow>> {
    let sql = format!(
        "SELECT run_id, arguments, started_at_ms, finished, uid, repeated_windows
         FROM runs {condition} ORDER BY run_id"
    );
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| {
        Ok(RunRow {
            id: RunId(row.get(0)?),
            arguments: row.get(1)?,
            started_at_ms: row.get(2)?,
            finished: row.get(3)?,
            uid: row.get(4)?,
            repeated_windows: row.get(5)?,
        })
    })?;
    rows.collect()
}

/// Adds a run under the number that it has.
pub(crate) fn insert_run(connection: &Connection, run: &RunRow) -> rusqlite::Result<()> {
    let sql = "INSERT INTO runs
                 (run_id, uid, arguments, started_at_ms, finished, repeated_windows)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let (id, began) = (run.id.0, run.started_at_ms);
    let row = params![id, run.uid, run.arguments, began, run.finished, run.repeated_windows];
    connection.execute(sql, row).map(drop)
}

/// Lists a run as it is now, whether it was listed before or not.
pub(crate) fn replace_run(connection: &Connection, run: &RunRow) -> rusqlite::Result<()> {
    connection
        .execute("DELETE FROM runs WHERE run_id = ?1 OR uid = ?2", params![run.id.0, run.uid])?;
    insert_run(connection, run)
}

/// Notes that the log of snapshots has a run as it is.
pub(crate) fn mark_logged(connection: &Connection, run: RunId) -> rusqlite::Result<()> {
    connection.execute("UPDATE runs SET logged = 1 WHERE run_id = ?1", [run.0]).map(drop)
}

/// The runs that changed since the log of snapshots was told of them. From now on it counts as
/// told.
pub(crate) fn take_unlogged_runs(connection: &Connection) -> rusqlite::Result<Vec<RunRow>> {
    let unlogged = select_runs(connection, "WHERE NOT logged")?;
    connection.execute("UPDATE runs SET logged = 1 WHERE NOT logged", [])?;
    Ok(unlogged)
}

/// 128 bits that the operating system draws, hex.
pub(crate) fn random_uid() -> Result<String, LakeError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| {
        LakeError::io("draw a run's name from", Path::new("the operating system"))(error.into())
    })?;
    Ok(format!("{:032x}", u128::from_le_bytes(bits)))
}
