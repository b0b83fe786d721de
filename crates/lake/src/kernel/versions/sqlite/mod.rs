//! `hot.sqlite`: opening, reading and writing the database.

mod content;
pub(crate) mod wal;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, OpenFlags, Params, Transaction, TransactionBehavior, params};
use serde::de::{DeserializeOwned, IntoDeserializer as _};

use crate::kernel::error::{LakeError, is_full};
use crate::kernel::files::disk::{Disk, DiskOperation};
use crate::kernel::handle::Lake;
use crate::kernel::identity::Identity;
use crate::kernel::identity_file;

/// The name of the database in the lake.
pub(crate) const FILE_NAME: &str = "hot.sqlite";

/// The migrations, in order. The database's `user_version` is the number of those applied. One that
/// lacks the last is read as it is.
const MIGRATIONS: [&str; 4] = [
    include_str!("../../../../../../schema/sqlite/0001_first.sql"),
    include_str!("../../../../../../schema/sqlite/0002_sums.sql"),
    include_str!("../../../../../../schema/sqlite/0003_audits.sql"),
    include_str!("../../../../../../schema/sqlite/0004_deletions.sql"),
];

/// How long a connection waits for the lock of another one, which may be writing a checkpoint.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the emptying of `SQLite`'s log waits for readers.
const TRUNCATE_TIMEOUT: Duration = Duration::from_millis(500);

/// A connection to the database.
#[derive(Debug)]
pub(crate) struct Catalog {
    connection: Connection,
    path: PathBuf,
    disk: Disk,
    /// Whether the content's digest follows what this connection changes.
    notes_changes: bool,
    /// The folder of the copy that is read, if the database cannot be read in place.
    _copy: Option<tempfile::TempDir>,
}

impl Catalog {
    /// Opens the one connection that writes, and brings the database to this version. The caller
    /// holds the lake's lock.
    ///
    /// A missing database is an error. A new one would have an empty manifest, and every segment of
    /// the lake would look like a leftover.
    pub(crate) fn open_for_writing(lake: &Lake) -> Result<Self, LakeError> {
        let path = existing(lake)?;
        wal::demand_whole(&log_path(&path), &lake.disk)?;
        let connection = open_shared(&path).map_err(LakeError::sqlite(&path))?;
        demand_content(&connection, &path)?;
        // SQLite would overwrite pages that a damaged list marks as free.
        if let Some(damage) = damage(&connection).map_err(LakeError::sqlite(&path))? {
            return Err(LakeError::corrupt(&path, damage));
        }
        drop(connection);
        let catalog = Self::create(path, lake)?;
        catalog.truncate_log()?;
        Ok(catalog)
    }

    /// Empties `SQLite`'s log. A power cut may have left a broken end in it, and a second broken
    /// end behind it would look like damage. If readers use the log, it stays as it is.
    fn truncate_log(&self) -> Result<(), LakeError> {
        let truncate = || {
            self.connection.busy_timeout(TRUNCATE_TIMEOUT)?;
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            self.connection.busy_timeout(BUSY_TIMEOUT)
        };
        truncate().map_err(self.error())
    }

    /// Opens the database at `path` to write to it, and applies the migrations that it lacks: all
    /// of them to a new one, which then has no snapshot. The caller holds the lake's lock.
    pub(crate) fn create(path: PathBuf, lake: &Lake) -> Result<Self, LakeError> {
        let connection = Connection::open(&path).map_err(LakeError::sqlite(&path))?;
        let mut catalog = Self::of(connection, path, &lake.disk, None);
        prepare_for_writing(&catalog.connection).map_err(catalog.error())?;
        catalog.migrate(&lake.identity)?;
        catalog.demand(lake)?;
        content::note_changes(&catalog.connection).map_err(catalog.error())?;
        catalog.notes_changes = true;
        Ok(catalog)
    }

    fn of(
        connection: Connection,
        path: PathBuf,
        disk: &Disk,
        copy: Option<tempfile::TempDir>,
    ) -> Self {
        Self { connection, path, disk: disk.clone(), notes_changes: false, _copy: copy }
    }

    fn migrate(&mut self, identity: &Identity) -> Result<(), LakeError> {
        let (path, disk) = (self.path.clone(), self.disk.clone());
        let version = user_version(&self.connection).map_err(self.error())?;
        for (number, migration) in (1_u32..).zip(MIGRATIONS).skip(version as usize) {
            let transaction = self.write()?;
            if number > 1 {
                // The commit signs whatever is there.
                demand_intact(&transaction, &path)?;
            }
            let apply = || {
                transaction.execute_batch(migration)?;
                transaction.pragma_update(None, "user_version", number)?;
                if number == 1 {
                    let row = params![identity.format_version, identity.digest()];
                    transaction.execute("INSERT INTO lake VALUES (?1, ?2)", row)?;
                }
                Ok(())
            };
            apply().map_err(LakeError::sqlite(&path))?;
            Self::commit(transaction, &path, &disk)?;
        }
        Ok(())
    }

    /// Opens a connection that only reads. Each of its transactions sees everything that was
    /// committed before. It never waits for the writer.
    ///
    /// In a read-only folder, `SQLite` cannot make the file that readers of a write-ahead log
    /// share. No process of this machine writes there either. The database is then read in place,
    /// or from a copy if it has a log.
    pub(crate) fn open_for_reading(lake: &Lake) -> Result<Self, LakeError> {
        let (path, disk) = (existing(lake)?, lake.disk.clone());
        wal::demand_whole(&log_path(&path), &disk)?;
        let catalog = match open_shared(&path) {
            Ok(connection) => Self::of(connection, path, &disk, None),
            Err(error) if is_denied(&error) => Self::open_unshared(path, error, &disk)?,
            // The file that readers share finds no room, so nobody has the database open.
            Err(error) if is_full(&error) => Self::open_copy(path, &disk)?,
            Err(error) => return Err(LakeError::sqlite(&path)(error)),
        };
        catalog.demand(lake)?;
        Ok(catalog)
    }

    fn open_unshared(
        path: PathBuf,
        error: rusqlite::Error,
        disk: &Disk,
    ) -> Result<Self, LakeError> {
        let log = log_path(&path);
        if !std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            // The first error says more than the error of this attempt.
            let connection =
                open_immutable(&path).ok().ok_or_else(|| LakeError::sqlite(&path)(error))?;
            return Ok(Self::of(connection, path, disk, None));
        }
        Self::open_copy(path, disk)
    }

    fn open_copy(path: PathBuf, disk: &Disk) -> Result<Self, LakeError> {
        let log = Some(log_path(&path)).filter(|log| log.exists());
        let (copy, target) = copied(&path, log.as_deref(), disk)?;
        let connection = open_shared(&target).map_err(LakeError::sqlite(&path))?;
        Ok(Self::of(connection, path, disk, Some(copy)))
    }

    /// Opens a copy of a possibly damaged database, and of its log if there is one, to salvage what
    /// can be read. The content is not checked; see [`is_vouched_for`](Self::is_vouched_for).
    /// `SQLite` reads the log up to the first damaged frame, so the copy has the state after some
    /// transaction. The original does not change.
    pub(crate) fn open_for_salvage(
        path: PathBuf,
        log: Option<&Path>,
        disk: &Disk,
    ) -> Result<Self, LakeError> {
        let (copy, target) = copied(&path, log, disk)?;
        let open = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
            let connection = Connection::open_with_flags(&target, flags)?;
            // With this, a definition that cannot be parsed loses only its own table.
            connection.pragma_update(None, "writable_schema", true)?;
            user_version(&connection)?;
            Ok(connection)
        };
        let connection = open().map_err(LakeError::sqlite(&path))?;
        Ok(Self::of(connection, path, disk, Some(copy)))
    }

    /// Whether the tables are what was written, for a database that may be damaged.
    pub(crate) fn is_vouched_for(&self) -> bool {
        content::is_intact(&self.connection).unwrap_or(false)
    }

    /// Refuses a database of another version or of another lake.
    fn demand(&self, lake: &Lake) -> Result<(), LakeError> {
        demand_content(&self.connection, &self.path)?;
        let known = u32::try_from(MIGRATIONS.len()).expect("few migrations");
        let found = user_version(&self.connection).map_err(self.error())?;
        if !(1..=known).contains(&found) {
            return Err(LakeError::Format { path: lake.path.clone(), found, known });
        }
        let transaction = self.read()?;
        demand_intact(&transaction, &self.path)?;
        // This comes last: damage in the database must not be blamed on `lake.json`.
        let digest: String = transaction
            .query_row("SELECT identity_digest FROM lake", [], |row| row.get(0))
            .map_err(self.error())?;
        if digest == lake.identity.digest() {
            return Ok(());
        }
        let path = lake.path.join(identity_file::FILE_NAME);
        Err(LakeError::corrupt(&path, "it is not the one that this lake was made with"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn error(&self) -> impl FnOnce(rusqlite::Error) -> LakeError {
        LakeError::sqlite(&self.path)
    }

    /// Begins a transaction that writes.
    pub(crate) fn write(&mut self) -> Result<Transaction<'_>, LakeError> {
        let path = &self.path;
        let transaction = Transaction::new(&mut self.connection, TransactionBehavior::Immediate)
            .map_err(LakeError::sqlite(path))?;
        if self.notes_changes {
            content::forget_changes(&transaction).map_err(LakeError::sqlite(path))?;
        }
        Ok(transaction)
    }

    /// Begins a transaction that reads. It sees the database at one moment.
    pub(crate) fn read(&self) -> Result<Transaction<'_>, LakeError> {
        self.connection.unchecked_transaction().map_err(self.error())
    }

    /// Begins a transaction that reads and keeps others from writing.
    pub(crate) fn read_alone(&self) -> Result<Transaction<'_>, LakeError> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(self.error())
    }

    /// Reads within one transaction.
    pub(crate) fn reading<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, LakeError> {
        let transaction = self.read()?;
        read(&transaction).map_err(self.error())
    }

    /// Writes within one transaction, which is durable after `Ok`. After `Err` see
    /// [`commit`](Self::commit).
    pub(crate) fn writing<T>(
        &mut self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, LakeError> {
        let (path, disk) = (self.path.clone(), self.disk.clone());
        let transaction = self.write()?;
        let written = write(&transaction).map_err(LakeError::sqlite(&path))?;
        Self::commit(transaction, &path, &disk)?;
        Ok(written)
    }

    /// Commits. After `Ok` the transaction is durable. After `Err` it has no effect, except if the
    /// disk failed to sync: then it may have been committed, and reopening the database shows it.
    pub(crate) fn commit(
        transaction: Transaction<'_>,
        path: &Path,
        disk: &Disk,
    ) -> Result<(), LakeError> {
        content::keep(&transaction).map_err(LakeError::sqlite(path))?;
        disk.ask(DiskOperation::Commit(path)).map_err(LakeError::io("commit to", path))?;
        transaction.commit().map_err(LakeError::sqlite(path))
    }

    /// Moves committed pages from `SQLite`'s log into the database file, except those that readers
    /// prevent. Damage to the log then cannot undo changes of the manifest.
    pub(crate) fn checkpoint(&self) -> Result<(), LakeError> {
        let sql = "PRAGMA wal_checkpoint(PASSIVE)";
        self.connection.query_row(sql, [], |_| Ok(())).map_err(self.error())
    }

    /// Returns free pages to the file system.
    pub(crate) fn shrink(&self) -> Result<(), LakeError> {
        // Each step of the statement gives back one page.
        let pages: rusqlite::Result<Vec<()>> =
            query(&self.connection, "PRAGMA incremental_vacuum", [], |_| Ok(()));
        pages.map(drop).map_err(self.error())
    }
}

fn existing(lake: &Lake) -> Result<PathBuf, LakeError> {
    let path = lake.path.join(FILE_NAME);
    if path.is_file() { Ok(path) } else { Err(LakeError::corrupt(&path, "it is missing")) }
}

fn demand_content(connection: &Connection, path: &Path) -> Result<(), LakeError> {
    match user_version(connection).map_err(LakeError::sqlite(path))? {
        0 => Err(LakeError::corrupt(path, "it is empty")),
        _ => Ok(()),
    }
}

/// Refuses tables that are not what was written.
fn demand_intact(connection: &Connection, path: &Path) -> Result<(), LakeError> {
    if content::is_intact(connection).map_err(LakeError::sqlite(path))? {
        return Ok(());
    }
    Err(LakeError::corrupt(path, "its tables are not what was written"))
}

/// Copies a database and its log to a temporary folder.
fn copied(
    path: &Path,
    log: Option<&Path>,
    disk: &Disk,
) -> Result<(tempfile::TempDir, PathBuf), LakeError> {
    let copy = tempfile::tempdir().map_err(LakeError::io("make a folder for a copy of", path))?;
    let target = copy.path().join(FILE_NAME);
    disk.copy(path, &target).map_err(LakeError::io("copy", path))?;
    if let Some(log) = log {
        disk.copy(log, &log_path(&target)).map_err(LakeError::io("copy", log))?;
    }
    Ok((copy, target))
}

/// The path of `SQLite`'s log.
pub(crate) fn log_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

fn is_denied(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | PermissionDenied | ReadOnly))
}

fn open_shared(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    user_version(&connection)?;
    Ok(connection)
}

fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let text = path.to_str().ok_or_else(|| rusqlite::Error::InvalidPath(path.clone()))?;
    let text = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file://{text}?immutable=1"), flags)?;
    user_version(&connection)?;
    Ok(connection)
}

/// Sets the pragmas. FULL makes a commit durable on return. Frames are blobs, so pages are large. A
/// checkpoint comes every 16 MiB. The log shrinks to 64 MiB after a long reader let it grow.
fn prepare_for_writing(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    content::add_functions(connection)?;
    connection.pragma_update(None, "page_size", signed(wal::PAGE_BYTES as u64))?;
    connection.execute_batch(
        "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1024;
         PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -16384;",
    )
}

fn user_version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// The first damage that `SQLite` finds in the database, including its indexes.
pub(crate) fn damage(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let verdict: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    // The first line only names the database.
    Ok((verdict != "ok").then(|| verdict.lines().last().unwrap_or_default().to_owned()))
}

/// Whether a database holds only what the creation of a lake writes.
pub(crate) fn is_unused(path: &Path) -> Result<bool, LakeError> {
    let unused = || {
        let connection = open_shared(path)?;
        if user_version(&connection)? == 0 {
            return Ok(0);
        }
        let sql = "SELECT (SELECT count(*) FROM frames) + (SELECT count(*) FROM segments
                      WHERE table_name <> 'actions')
                   + (SELECT count(*) FROM runs)";
        connection.query_row(sql, [], |row| count(row, 0))
    };
    unused().map(|rows: u64| rows == 0).map_err(LakeError::sqlite(path))
}

/// Reads a count. `SQLite` has only signed numbers.
pub(crate) fn count(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).ok().ok_or(rusqlite::Error::IntegralValueOutOfRange(column, number))
}

pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).expect("counts stay far below 2^63")
}

/// Reads a name as serde writes it.
pub(crate) fn named<T: DeserializeOwned>(
    row: &rusqlite::Row<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    let name: String = row.get(column)?;
    T::deserialize(name.as_str().into_deserializer()).map_err(|error: serde::de::value::Error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
    })
}

/// The rows of a query.
pub(crate) fn query<T, C: FromIterator<T>>(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<C> {
    connection.prepare(sql)?.query_map(parameters, row)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::identity::tests::identity;
    use crate::kernel::schema::rows::RunRow;
    use crate::kernel::versions::catalog::runs;

    fn runs_at(path: &Path, connection: &Connection) -> Vec<RunRow> {
        runs(connection).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn a_database_that_cannot_be_shared_is_read_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let lake = Lake::new(&folder.path().join("a ?#%25 lake"), identity(), Disk::default());
        std::fs::create_dir(&lake.path).unwrap();
        let path = lake.path.join(FILE_NAME);
        Catalog::create(path.clone(), &lake).unwrap();
        let mut writer = Catalog::open_for_writing(&lake).unwrap();
        let transaction = writer.write().unwrap();
        transaction
            .execute("INSERT INTO runs (uid, arguments, started_at_ms) VALUES ('', '', 0)", [])
            .unwrap();
        transaction.commit().unwrap();

        // With a log beside it: from a copy, log included.
        assert!(log_path(&path).exists());
        let open = || {
            Catalog::open_unshared(path.clone(), rusqlite::Error::InvalidQuery, &Disk::default())
        };
        let copied = open().unwrap();
        assert_eq!(runs_at(&path, &copied.connection).len(), 1);
        // Without: as it stands.
        drop(writer);
        assert!(!log_path(&path).exists());
        let immutable = open().unwrap();
        assert_eq!(runs_at(&path, &immutable.connection).len(), 1);
    }

    #[test]
    fn a_database_of_another_version_or_lake_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |identity| Lake::new(folder.path(), identity, Disk::default());
        let (lake, path) = (at(identity()), folder.path().join(FILE_NAME));
        Catalog::create(path.clone(), &lake).unwrap();
        let mut other = identity();
        other.compiler.push('x');
        let error = Catalog::open_for_reading(&at(other)).unwrap_err();
        assert!(matches!(error, LakeError::Corrupt { .. }), "{error}");

        Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
        let error = Catalog::open_for_reading(&lake).unwrap_err();
        assert!(matches!(error, LakeError::Format { found: 99, .. }), "{error}");
    }
}
