//! One digest of all that `hot.sqlite` says. `SQLite` has no checksums of its pages: without it, a
//! flipped bit could take a segment out of the manifest, and the next writer the segment's file off
//! the disk.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _};

/// Brings the digest up to date; the last thing that a transaction does. It costs a look at every
/// row of the manifest and the head of every frame.
pub(crate) fn keep(connection: &Connection) -> rusqlite::Result<()> {
    let digest = digest(connection)?;
    if connection.prepare_cached("UPDATE content SET digest = ?1")?.execute([digest])? == 0 {
        connection.execute("INSERT INTO content VALUES (?1)", [digest])?;
    }
    Ok(())
}

/// Says whether the tables are what was written.
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
        // Indexes are copies, which may be damaged on their own.
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

/// The columns of a table, but those that grow as the lake and have a digest beside them: the
/// bodies of frames, and the digests of the blocks of segments.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<String> {
    let sql = "SELECT group_concat(name) FROM pragma_table_info(?1)
               WHERE name NOT IN ('body', 'blocks')";
    connection.prepare_cached(sql)?.query_row([table], |row| row.get(0))
}

/// Adds a value so that no two lists of values look alike.
fn add(hasher: &mut blake3::Hasher, value: &[u8]) {
    hasher.update(&(value.len() as u64).to_le_bytes()).update(value);
}
