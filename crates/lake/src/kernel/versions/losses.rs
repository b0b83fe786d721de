//! The list of losses in the catalog: what repairs dropped.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::sqlite::{count, named, query, signed};
use crate::kernel::ids::SnapshotId;
use crate::kernel::schema::table::Table;

/// Rows that a repair dropped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossRow {
    /// Their table.
    pub table: Table,
    /// The path of their file, relative to the lake.
    pub path: String,
    /// Their number.
    pub rows: u64,
    /// A one-line description of the damage for people.
    pub what: String,
    /// The first snapshot without them.
    pub snapshot: SnapshotId,
}

pub(crate) fn insert(connection: &Connection, row: &LossRow) -> rusqlite::Result<()> {
    let sql = "INSERT INTO losses (table_name, path, rows, what, snapshot_id)
               VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![row.table.name(), row.path, signed(row.rows), row.what, row.snapshot.0];
    connection.execute(sql, values).map(drop)
}

/// The losses up to snapshot `id`, oldest first.
pub(crate) fn list(connection: &Connection, id: SnapshotId) -> rusqlite::Result<Vec<LossRow>> {
    let sql = "SELECT table_name, path, rows, what, snapshot_id FROM losses
               WHERE snapshot_id <= ?1 ORDER BY loss_id";
    query(connection, sql, [id.0], |row| {
        Ok(LossRow {
            table: named(row, 0)?,
            path: row.get(1)?,
            rows: count(row, 2)?,
            what: row.get(3)?,
            snapshot: SnapshotId(row.get(4)?),
        })
    })
}
