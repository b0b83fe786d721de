//! The list of retractions in the catalog.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::sqlite::{named, query};
use crate::kernel::ids::SnapshotId;
use steplake_model::RunId;

steplake_model::named! {
    /// The kind of thing that is retracted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum RetractionKind {
        /// A program: its row, and all its episodes.
        Benchmark = "benchmark",
        /// A run: all its episodes.
        Run = "run",
        /// An action: its transitions. The steps stay, since the states after them are real.
        Action = "action",
    }

    /// The name in the catalog and in SQL.
    fn as_str;
}

/// A retraction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetractionRow {
    /// Its number in the lake.
    pub id: i64,
    /// The kind of thing that was retracted.
    pub kind: RetractionKind,
    /// What was retracted: a URI, the number of a run, or the name of an action.
    pub value: String,
    /// The reason.
    pub reason: String,
    /// The first snapshot without it.
    pub snapshot: SnapshotId,
    /// The runs that lost episodes, in order.
    pub runs: Vec<RunId>,
}

/// Adds a retraction under the next number.
pub(crate) fn insert(connection: &Connection, row: &RetractionRow) -> rusqlite::Result<()> {
    let sql = "INSERT INTO retractions (kind, value, reason, snapshot_id) VALUES (?1, ?2, ?3, ?4)
               RETURNING retraction_id";
    let values = params![row.kind.as_str(), row.value, row.reason, row.snapshot.0];
    let id: i64 = connection.query_row(sql, values, |row| row.get(0))?;
    for run in &row.runs {
        connection.execute("INSERT INTO retracted_runs VALUES (?1, ?2)", [id, run.0.into()])?;
    }
    Ok(())
}

/// The retractions up to snapshot `id`, oldest first.
pub(crate) fn list(
    connection: &Connection,
    id: SnapshotId,
) -> rusqlite::Result<Vec<RetractionRow>> {
    let sql = "SELECT retraction_id, kind, value, reason, snapshot_id FROM retractions
               WHERE snapshot_id <= ?1 ORDER BY retraction_id";
    let of_runs = "SELECT run_id FROM retracted_runs WHERE retraction_id = ?1 ORDER BY run_id";
    query(connection, sql, [id.0], |row| {
        let id = row.get(0)?;
        Ok(RetractionRow {
            id,
            kind: named(row, 1)?,
            value: row.get(2)?,
            reason: row.get(3)?,
            snapshot: SnapshotId(row.get(4)?),
            runs: query(connection, of_runs, [id], |row| row.get(0).map(RunId))?,
        })
    })
}
