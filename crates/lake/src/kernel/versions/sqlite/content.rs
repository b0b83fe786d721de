//! One digest of the content of `hot.sqlite`. `SQLite` has no checksums of its pages. Without the
//! digest, a flipped bit could remove a segment from the manifest, and a collection would then
//! delete the segment's file.
//!
//! The digest is a sum over all rows, so a transaction adds and takes away those that it changes,
//! however many there are beside them. Triggers of the connection that writes note each change.
//! They see what a row was: if a bit of it has flipped since it was written, the sum does not fit
//! any more. Only who opens the database looks at all rows.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Null, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, params};

/// Bytes of a sum in the database. A digest of [earlier lakes](digest_of_earlier) is shorter.
const SUM_BYTES: usize = 40;

/// The number of rows and the sum of their hashes, word by word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RowHashSum {
    rows: u64,
    words: [u64; 4],
}

impl RowHashSum {
    /// The sum of all rows of all tables. Each table counts too, so that one without rows is missed
    /// if it is gone.
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let mut sum = Self::default();
        for name in tables(connection)? {
            let columns = columns(connection, &name)?;
            sum.add(Self::of_values(&name, [ValueRef::Text(columns.as_bytes())]));
            sum.add(Self::of_table(connection, &name, &columns)?);
        }
        Ok(sum)
    }

    /// The sum of the rows of a table.
    fn of_table(connection: &Connection, table: &str, columns: &str) -> rusqlite::Result<Self> {
        let mut sum = Self::default();
        let mut statement = all_rows(connection, table, columns)?;
        let width = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let values = (0..width).map(|column| row.get_ref(column));
            sum.add(Self::of_values(table, values.collect::<Result<Vec<_>, _>>()?));
        }
        Ok(sum)
    }

    /// The sum of the numbers that were given last, of which `SQLite` keeps a row for each table.
    /// No trigger sees them.
    fn of_numbers(connection: &Connection) -> rusqlite::Result<Self> {
        Self::of_table(connection, "sqlite_sequence", "name,seq")
    }

    /// The sum of one row.
    fn of_values<'a>(table: &str, values: impl IntoIterator<Item = ValueRef<'a>>) -> Self {
        #[cfg(test)]
        tests::HASHED.with(|hashed| hashed.set(hashed.get() + 1));
        let mut hasher = blake3::Hasher::new();
        add(&mut hasher, table.as_bytes());
        values.into_iter().for_each(|value| add_value(&mut hasher, value));
        let hash = hasher.finalize();
        let (words, _) = hash.as_bytes().as_chunks::<8>();
        let mut sum = Self { rows: 1, words: [0; 4] };
        sum.words
            .iter_mut()
            .zip(words)
            .for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        sum
    }

    fn add(&mut self, other: Self) {
        self.rows = self.rows.wrapping_add(other.rows);
        let words = self.words.iter_mut().zip(other.words);
        words.for_each(|(word, other)| *word = word.wrapping_add(other));
    }

    fn take_away(&mut self, other: Self) {
        self.rows = self.rows.wrapping_sub(other.rows);
        let words = self.words.iter_mut().zip(other.words);
        words.for_each(|(word, other)| *word = word.wrapping_sub(other));
    }

    fn to_bytes(self) -> Vec<u8> {
        [self.rows].into_iter().chain(self.words).flat_map(u64::to_le_bytes).collect()
    }

    /// None for the digest of an earlier lake.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let &[rows, a, b, c, d] = words else { return None };
        let [rows, words @ ..] = [rows, a, b, c, d].map(u64::from_le_bytes);
        rest.is_empty().then_some(Self { rows, words })
    }
}

/// What the transaction of a connection has changed so far; none before the triggers are there.
type Changes = Arc<Mutex<Option<RowHashSum>>>;

/// Adds the functions by which [`keep`] learns what a transaction changed. Until
/// [`note_changes`], it takes the sum of all rows.
pub(crate) fn add_functions(connection: &Connection) -> rusqlite::Result<()> {
    let (noted, flags) = (Changes::default(), FunctionFlags::SQLITE_UTF8);
    let changes = Arc::clone(&noted);
    // Whether a row is new, the name of its table, and its values.
    connection.create_scalar_function("content_change", -1, flags, move |row| {
        let (is_new, table): (bool, String) = (row.get(0)?, row.get(1)?);
        let values = (2..row.len()).map(|column| row.get_raw(column));
        let sum = RowHashSum::of_values(&table, values);
        if let Some(changes) = &mut *changes.lock() {
            if is_new { changes.add(sum) } else { changes.take_away(sum) }
        }
        Ok(Null)
    })?;
    let changes = Arc::clone(&noted);
    // Whether the triggers are there, and the sum to begin with.
    connection.create_scalar_function("content_begin", 2, flags, move |arguments| {
        let (are_noted, bytes): (bool, Vec<u8>) = (arguments.get(0)?, arguments.get(1)?);
        let mut changes = changes.lock();
        if are_noted || changes.is_some() {
            *changes = RowHashSum::from_bytes(&bytes);
        }
        Ok(Null)
    })?;
    connection.create_scalar_function("content_changes", 0, flags, move |_| {
        Ok(noted.lock().map(RowHashSum::to_bytes))
    })
}

/// Notes from now on what the connection changes, in triggers that nobody else has. A table that is
/// made later is not noted, so this comes after all migrations.
pub(crate) fn note_changes(connection: &Connection) -> rusqlite::Result<()> {
    // `SQLite` reports the rows that a REPLACE removes only then.
    connection.execute_batch("PRAGMA recursive_triggers = ON; PRAGMA temp_store = MEMORY")?;
    for table in tables(connection)?.into_iter().filter(|table| !table.starts_with("sqlite_")) {
        let columns = columns(connection, &table)?;
        let values = |row: &str| {
            let columns = columns.split(',').map(|column| format!("{row}.\"{column}\""));
            columns.collect::<Vec<_>>().join(", ")
        };
        let change = |is_new: bool, row: &str| {
            format!("SELECT content_change({is_new}, '{table}', {});", values(row))
        };
        let (new, old) = (change(true, "NEW"), change(false, "OLD"));
        for (event, changes) in [
            ("INSERT", new.clone()),
            ("UPDATE", [old.as_str(), &new].join(" ")),
            ("DELETE", old.clone()),
        ] {
            connection.execute_batch(&format!(
                "CREATE TEMP TRIGGER \"content {event} {table}\" AFTER {event} ON main.\"{table}\"
                 BEGIN {changes} END"
            ))?;
        }
    }
    begin(connection, true)
}

/// Forgets what was noted of a transaction that was rolled back. Every transaction that writes
/// begins with it.
pub(crate) fn forget_changes(connection: &Connection) -> rusqlite::Result<()> {
    begin(connection, false)
}

fn begin(connection: &Connection, are_noted: bool) -> rusqlite::Result<()> {
    let mut sum = RowHashSum::default();
    sum.take_away(RowHashSum::of_numbers(connection)?);
    let mut statement = connection.prepare_cached("SELECT content_begin(?1, ?2)")?;
    statement.query_row(params![are_noted, sum.to_bytes()], |_| Ok(()))
}

/// Updates the digest, as the last step of a transaction.
pub(crate) fn keep(connection: &Connection) -> rusqlite::Result<()> {
    let changes: Option<Vec<u8>> =
        connection.prepare_cached("SELECT content_changes()")?.query_row([], |row| row.get(0))?;
    let changes = changes.and_then(|changes| RowHashSum::from_bytes(&changes));
    let before = kept(connection)?.and_then(|kept| RowHashSum::from_bytes(&kept));
    let sum = match (before, changes) {
        (Some(mut sum), Some(changes)) => {
            sum.add(changes);
            sum.add(RowHashSum::of_numbers(connection)?);
            sum
        }
        // The lake is new, or an earlier program wrote to it.
        _ => RowHashSum::of(connection)?,
    };
    let digest = sum.to_bytes();
    if connection.prepare_cached("UPDATE content SET digest = ?1")?.execute([&digest])? == 0 {
        connection.execute("INSERT INTO content VALUES (?1)", [&digest])?;
    }
    Ok(())
}

/// Whether the tables are what was written. Reads all rows of the manifest and the heads of all
/// frames.
pub(crate) fn is_intact(connection: &Connection) -> rusqlite::Result<bool> {
    match kept(connection)? {
        Some(kept) if kept.len() == SUM_BYTES => Ok(kept == RowHashSum::of(connection)?.to_bytes()),
        Some(kept) => Ok(kept == digest_of_earlier(connection)?),
        None => Ok(false),
    }
}

fn kept(connection: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut statement = connection.prepare_cached("SELECT digest FROM content")?;
    statement.query_row([], |row| row.get(0)).optional()
}

/// The digest of a lake that nobody has written to since digests are sums: of all rows, in their
/// order.
fn digest_of_earlier(connection: &Connection) -> rusqlite::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    for name in tables(connection)? {
        let columns = columns(connection, &name)?;
        let mut statement = all_rows(connection, &name, &columns)?;
        let width = statement.column_count();
        add(&mut hasher, name.as_bytes());
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..width {
                add_value(&mut hasher, row.get_ref(column)?);
            }
        }
    }
    Ok(hasher.finalize().into())
}

/// The tables whose content counts.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let tables = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name <> 'content'
                  ORDER BY name";
    let mut tables = connection.prepare_cached(tables)?;
    tables.query_map([], |row| row.get(0))?.collect()
}

/// The columns of a table, except the large ones that have digests of their own: the bodies of
/// frames, and the digests of the blocks of segments.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<String> {
    let sql = "SELECT group_concat(name) FROM pragma_table_info(?1)
               WHERE name NOT IN ('body', 'blocks')";
    connection.prepare_cached(sql)?.query_row([table], |row| row.get(0))
}

fn all_rows<'c>(
    connection: &'c Connection,
    table: &str,
    columns: &str,
) -> rusqlite::Result<rusqlite::CachedStatement<'c>> {
    // An index is a copy, which may be damaged on its own.
    connection.prepare_cached(&format!("SELECT {columns} FROM main.\"{table}\" NOT INDEXED"))
}

/// Hashes a value with its length, so that different lists of values have different input.
fn add(hasher: &mut blake3::Hasher, value: &[u8]) {
    hasher.update(&(value.len() as u64).to_le_bytes()).update(value);
}

fn add_value(hasher: &mut blake3::Hasher, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => add(hasher, b"null"),
        ValueRef::Integer(number) => add(hasher, &number.to_le_bytes()),
        ValueRef::Real(number) => add(hasher, &number.to_le_bytes()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => add(hasher, bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::kernel::files::disk::Disk;
    use crate::kernel::handle::Lake;
    use crate::kernel::identity::tests::identity;
    use crate::kernel::versions::sqlite::{Catalog, FILE_NAME, MIGRATIONS, user_version};

    thread_local! {
        /// How many rows were hashed in this thread.
        pub(super) static HASHED: Cell<u64> = const { Cell::new(0) };
    }

    fn catalog() -> (tempfile::TempDir, Lake, Catalog) {
        let folder = tempfile::tempdir().unwrap();
        let lake = Lake::new(folder.path(), identity(), Disk::default());
        let path: PathBuf = folder.path().join(FILE_NAME);
        let catalog = Catalog::create(path, &lake).unwrap();
        (folder, lake, catalog)
    }

    fn write(catalog: &mut Catalog, sql: &str) {
        catalog.writing(|log| log.execute_batch(sql)).unwrap();
        assert!(is_sound(catalog), "after {sql}");
    }

    fn is_sound(catalog: &Catalog) -> bool {
        catalog.reading(is_intact).unwrap()
    }

    const FRAME: &str = "INSERT INTO frames (table_name, rows, bytes, digest, body)
                         VALUES ('steps', 1, 2, x'03', randomblob(9000));";

    #[test]
    fn a_transaction_hashes_the_rows_that_it_changes_however_many_there_are() {
        let (_folder, _lake, mut catalog) = catalog();
        let hashed_by = |catalog: &mut Catalog, sql: &str| {
            let before = HASHED.get();
            catalog.writing(|log| log.execute_batch(sql)).unwrap();
            HASHED.get() - before
        };
        catalog.writing(|log| log.execute_batch(FRAME)).unwrap();
        // The number that a frame was given last counts before and after.
        let (numbers, mut frames) = (2, 1);
        for wanted in [10, 100, 1000] {
            let more = wanted - frames;
            let hashed = hashed_by(&mut catalog, &FRAME.repeat(more));
            assert_eq!(hashed, more as u64 + numbers);
            assert_eq!(hashed_by(&mut catalog, FRAME), 1 + numbers, "{wanted} frames");
            let oldest = "DELETE FROM frames WHERE seq = (SELECT min(seq) FROM frames)";
            assert_eq!(hashed_by(&mut catalog, oldest), 1 + numbers, "{wanted} frames");
            frames = wanted;
        }
        assert!(is_sound(&catalog));
    }

    #[test]
    fn the_digest_fits_after_every_kind_of_change() {
        let (_folder, lake, mut catalog) = catalog();
        write(&mut catalog, &FRAME.repeat(3));
        write(&mut catalog, "INSERT OR REPLACE INTO derivations VALUES ('dedup', 'a')");
        write(&mut catalog, "INSERT OR REPLACE INTO derivations VALUES ('dedup', 'b')");
        write(&mut catalog, "UPDATE frames SET rows = rows + 1, body = x''");
        write(&mut catalog, "INSERT INTO retracted_runs VALUES (1, 1), (1, 2)");
        write(
            &mut catalog,
            "INSERT INTO segments (table_name, path, rows, bytes, digest, added_in, blocks,
               blocks_digest) VALUES ('ir', 'a', 1, 2, 'x', 1, x'01', x'02')",
        );
        write(&mut catalog, "UPDATE segments SET blocks = x'05', lost = 1");
        write(&mut catalog, "DELETE FROM retracted_runs");
        // Whatever is rolled back has not been.
        let transaction = catalog.write().unwrap();
        transaction.execute_batch(FRAME).unwrap();
        drop(transaction);
        let failed = catalog.writing(|log| log.execute_batch("DELETE FROM frames; nonsense"));
        assert!(failed.is_err());
        write(&mut catalog, "DELETE FROM frames WHERE seq = 2");
        write(&mut catalog, "");
        // Two connections write in turns.
        let mut other = Catalog::open_for_writing(&lake).unwrap();
        write(&mut other, "DELETE FROM frames");
        write(&mut catalog, FRAME);
        assert!(is_sound(&other));
    }

    #[test]
    fn a_change_that_nobody_made_is_found_also_after_others() {
        let (folder, _lake, mut catalog) = catalog();
        write(&mut catalog, &FRAME.repeat(4));
        let path = folder.path().join(FILE_NAME);
        let flip = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        for (sql, back) in [
            (
                "UPDATE frames SET rows = 9 WHERE seq = 2",
                "UPDATE frames SET rows = 1 WHERE seq = 2",
            ),
            (
                "UPDATE frames SET table_name = 'ir' WHERE seq = 2",
                "UPDATE frames SET table_name = 'steps'",
            ),
        ] {
            flip(sql);
            assert!(!is_sound(&catalog), "{sql}");
            catalog.writing(|log| log.execute_batch(FRAME)).unwrap();
            assert!(!is_sound(&catalog), "the next transaction takes it over: {sql}");
            flip(back);
            assert!(is_sound(&catalog), "{back}");
        }
        // Not even if what has changed goes.
        flip("UPDATE sqlite_sequence SET seq = 77");
        catalog.writing(|log| log.execute_batch(FRAME)).unwrap();
        assert!(!is_sound(&catalog));
        flip("UPDATE frames SET bytes = 3 WHERE seq = 2");
        catalog.writing(|log| log.execute_batch("DELETE FROM frames")).unwrap();
        assert!(!is_sound(&catalog));
    }

    #[test]
    fn a_table_without_rows_is_missed() {
        let (folder, _lake, mut catalog) = catalog();
        write(&mut catalog, FRAME);
        let path = folder.path().join(FILE_NAME);
        Connection::open(path).unwrap().execute_batch("DROP TABLE losses").unwrap();
        assert!(!is_sound(&catalog));
    }

    #[test]
    fn a_digest_of_earlier_stands_until_somebody_writes() {
        let (folder, lake, mut catalog) = catalog();
        write(&mut catalog, &FRAME.repeat(2));
        let digest = catalog.reading(digest_of_earlier).unwrap();
        let path = folder.path().join(FILE_NAME);
        let other = Connection::open(path).unwrap();
        other.execute("UPDATE content SET digest = ?1", [digest]).unwrap();
        assert!(is_sound(&catalog));
        Catalog::open_for_reading(&lake).unwrap();
        assert_eq!(catalog.reading(kept).unwrap().unwrap(), digest);
        other.execute_batch("UPDATE frames SET rows = 9 WHERE seq = 2").unwrap();
        assert!(!is_sound(&catalog));
        other.execute_batch("UPDATE frames SET rows = 1 WHERE seq = 2").unwrap();
        write(&mut catalog, FRAME);
        assert_eq!(catalog.reading(kept).unwrap().unwrap().len(), SUM_BYTES);
    }

    /// Makes a database as the first version left it, signed with its digest.
    fn make_first_version(folder: &Path) -> PathBuf {
        let (path, identity) = (folder.join(FILE_NAME), identity());
        let connection = Connection::open(&path).unwrap();
        let pragmas = "PRAGMA page_size = 16384; PRAGMA auto_vacuum = INCREMENTAL;
                       PRAGMA journal_mode = WAL;";
        connection.execute_batch(&[pragmas, MIGRATIONS[0], FRAME, FRAME].concat()).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        let row = params![identity.format_version, identity.digest()];
        connection.execute("INSERT INTO lake VALUES (?1, ?2)", row).unwrap();
        let digest = digest_of_earlier(&connection).unwrap();
        connection.execute("INSERT INTO content VALUES (?1)", [digest]).unwrap();
        path
    }

    #[test]
    fn a_migration_refuses_what_was_damaged_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let lake = Lake::new(folder.path(), identity(), Disk::default());
        let path = make_first_version(folder.path());
        let open = || Connection::open(&path).unwrap();
        let version = || user_version(&open()).unwrap();
        open().execute_batch("UPDATE frames SET rows = 9 WHERE seq = 2").unwrap();
        // The first refusal signs nothing.
        for _ in 0..2 {
            let error = Catalog::open_for_writing(&lake).unwrap_err().to_string();
            assert!(error.contains("its tables are not what was written"), "{error}");
            assert_eq!(version(), 1);
        }
        open().execute_batch("UPDATE frames SET rows = 1 WHERE seq = 2").unwrap();
        let mut catalog = Catalog::open_for_writing(&lake).unwrap();
        assert_eq!(version() as usize, MIGRATIONS.len());
        assert_eq!(catalog.reading(kept).unwrap().unwrap().len(), SUM_BYTES);
        write(&mut catalog, FRAME);
    }
}
