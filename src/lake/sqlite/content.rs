//! One digest of the content of `hot.sqlite`. `SQLite` has no checksums of its pages. Without the
//! digest, a flipped bit could remove a segment from the manifest, and a collection would then
//! delete the segment's file.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _};

/// Updates the digest, as the last step of a transaction. Costs a read of all rows of the manifest
/// and of the heads of all frames.
pub(crate) fn keep(connection: &Connection) -> rusqlite::Result<()> {
    let digest = digest(connection)?;
    if connection.prepare_cached("UPDATE content SET digest = ?1")?.execute([digest])? == 0 {
        connection.execute("INSERT INTO content VALUES (?1)", [digest])?;
    }
    Ok(())
}

/// Whether the tables are what was written.
pub(crate) fn is_intact(connection: &Connection) -> rusqlite::Result<bool> {
    let kept: Option<Vec<u8>> =
        connection.query_row("SELECT digest FROM content", [], |row| row.get(0)).optional()?;
    match kept {
        Some(kept) => Ok(kept == digest(connection)?),
        None => Ok(false),
    }
}

fn digest(connection: &Connection) -> rusqlite::Result<[u8; 32]> {
    let tables =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'content' ORDER BY name";
    let mut tables = connection.prepare_cached(tables)?;
    let names = tables.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let mut hasher = blake3::Hasher::new();
    for name in names {
        let columns = columns(connection, &name)?;
        // An index is a copy, which may be damaged on its own.
        let sql = format!("SELECT {columns} FROM \"{name}\" NOT INDEXED");
        let mut statement = connection.prepare_cached(&sql)?;
        let width = statement.column_count();
        add(&mut hasher, name.as_bytes());
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..width {
                match row.get_ref(column)? {
                    ValueRef::Null => add(&mut hasher, b"null"),
                    ValueRef::Integer(number) => add(&mut hasher, &number.to_le_bytes()),
                    ValueRef::Real(number) => add(&mut hasher, &number.to_le_bytes()),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => add(&mut hasher, bytes),
                }
            }
        }
    }
    Ok(hasher.finalize().into())
}

/// The columns of a table, except the large ones that have digests of their own: the bodies of
/// frames, and the digests of the blocks of segments.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<String> {
    let sql = "SELECT group_concat(name) FROM pragma_table_info(?1)
               WHERE name NOT IN ('body', 'blocks')";
    connection.prepare_cached(sql)?.query_row([table], |row| row.get(0))
}

/// Hashes a value with its length, so that different lists of values have different input.
fn add(hasher: &mut blake3::Hasher, value: &[u8]) {
    hasher.update(&(value.len() as u64).to_le_bytes()).update(value);
}
