//! The rows of `hot.sqlite` beside the manifest: frames of the hot log, runs, derivations.

use std::path::Path;

use rusqlite::{Connection, Result, params};

use super::sqlite::{count, named, query, signed};
use crate::kernel::error::LakeError;
use crate::kernel::schema::rows::RunRow;
use crate::kernel::segments::frame::Frame;
use steplake_model::RunId;

/// A frame and its place in the log.
pub(crate) struct PlacedFrame {
    pub(crate) seq: i64,
    pub(crate) frame: Frame,
}

/// The frames of the log, in the order of their numbers.
pub(crate) const FRAMES: &str =
    "SELECT seq, table_name, rows, bytes, digest, body FROM frames ORDER BY seq";

/// The frames of the log, oldest first.
pub(crate) fn frames(log: &Connection) -> Result<Vec<PlacedFrame>> {
    query(log, FRAMES, [], frame)
}

/// A row of [`FRAMES`].
pub(crate) fn frame(row: &rusqlite::Row<'_>) -> Result<PlacedFrame> {
    let frame = Frame {
        table: named(row, 1)?,
        rows: count(row, 2)?,
        bytes: count(row, 3)?,
        digest: row.get(4)?,
        body: row.get(5)?,
    };
    Ok(PlacedFrame { seq: row.get(0)?, frame })
}

/// Appends a frame to the log.
pub(crate) fn insert_frame(log: &Connection, frame: &Frame) -> Result<()> {
    let sql = "INSERT INTO frames (table_name, rows, bytes, digest, body)
               VALUES (?1, ?2, ?3, ?4, ?5)";
    let Frame { table, rows, bytes, digest, body } = frame;
    let row = params![table.name(), signed(*rows), signed(*bytes), digest, body];
    log.prepare_cached(sql)?.execute(row).map(drop)
}

/// Removes a frame. Returns false if there is none of this number.
pub(crate) fn delete_frame(log: &Connection, seq: i64) -> Result<bool> {
    log.prepare_cached("DELETE FROM frames WHERE seq = ?1")?.execute([seq]).map(|rows| rows == 1)
}

/// Bytes of all frames, decompressed.
pub(crate) fn hot_bytes(log: &Connection) -> Result<u64> {
    log.query_row("SELECT coalesce(sum(bytes), 0) FROM frames", [], |row| count(row, 0))
}

/// The runs, oldest first.
pub(crate) fn runs(log: &Connection) -> Result<Vec<RunRow>> {
    select_runs(log, "")
}

fn select_runs(log: &Connection, condition: &str) -> Result<Vec<RunRow>> {
    // A database from before the columns is read as it is.
    let has_audits = log.column_exists(None, "runs", "audited_steps")?;
    let audit = if has_audits { "audited_steps, differing_steps" } else { "0, 0" };
    let sql = format!(
        "SELECT run_id, arguments, started_at_ms, finished, uid, repeated_windows, {audit}
         FROM runs {condition} ORDER BY run_id"
    );
    query(log, &sql, [], |row| {
        Ok(RunRow {
            id: RunId(row.get(0)?),
            arguments: row.get(1)?,
            started_at_ms: row.get(2)?,
            finished: row.get(3)?,
            uid: row.get(4)?,
            repeated_windows: row.get(5)?,
            audited_steps: count(row, 6)?,
            differing_steps: count(row, 7)?,
        })
    })
}

/// Inserts a run, which has a number.
pub(crate) fn insert_run(log: &Connection, run: &RunRow) -> Result<()> {
    let sql = "INSERT INTO runs
                 (run_id, uid, arguments, started_at_ms, finished, repeated_windows,
                  audited_steps, differing_steps)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let (id, began) = (run.id.0, run.started_at_ms);
    let (audited, differing) = (signed(run.audited_steps), signed(run.differing_steps));
    let row = params![
        id,
        run.uid,
        run.arguments,
        began,
        run.finished,
        run.repeated_windows,
        audited,
        differing
    ];
    log.execute(sql, row).map(drop)
}

/// Inserts a run, or replaces its row.
pub(crate) fn replace_run(log: &Connection, run: &RunRow) -> Result<()> {
    log.execute("DELETE FROM runs WHERE run_id = ?1 OR uid = ?2", params![run.id.0, run.uid])?;
    insert_run(log, run)
}

/// Notes that the log of snapshots has the current row of a run.
pub(crate) fn mark_logged(log: &Connection, run: RunId) -> Result<()> {
    log.execute("UPDATE runs SET logged = 1 WHERE run_id = ?1", [run.0]).map(drop)
}

/// The runs whose current rows the log of snapshots does not have. Marks them as logged.
pub(crate) fn take_unlogged_runs(log: &Connection) -> Result<Vec<RunRow>> {
    let unlogged = select_runs(log, "WHERE NOT logged")?;
    log.execute("UPDATE runs SET logged = 1 WHERE NOT logged", [])?;
    Ok(unlogged)
}

/// 128 random bits of the operating system, in hexadecimal digits.
///
/// # Errors
///
/// If the operating system gives none.
pub fn random_uid() -> std::result::Result<String, LakeError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| {
        LakeError::io("draw a run's name from", Path::new("the operating system"))(error.into())
    })?;
    Ok(format!("{:032x}", u128::from_le_bytes(bits)))
}
