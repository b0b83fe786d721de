//! The log as a database: its tables, and their rows in order.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row, ffi};

use super::error::ImportError;
use super::skipped::Reason;
use steplake_model::{BenchmarkUri, StateId};

/// How long to wait for a logger that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// What SQLite says of a database that has to be rolled back or recovered before it is read.
const UNFINISHED: [i32; 2] = [ffi::SQLITE_READONLY_ROLLBACK, ffi::SQLITE_READONLY_RECOVERY];

/// The columns that are read, by table.
const COLUMNS: [&str; 10] = [
    "States.benchmark_uri",
    "States.done",
    "States.ir_instruction_count_oz_reward",
    "States.state_id",
    "States.actions",
    "Observations.state_id",
    "Observations.ir_instruction_count",
    "Observations.compressed_llvm_ir",
    "Observations.autophase",
    "Observations.instcount",
];

/// A log, read in one transaction: a logger that goes on writing does not disturb it.
pub(super) struct Database {
    path: PathBuf,
    connection: Connection,
}

/// A row of `States`, as far as it was read.
pub(super) struct LogRow<'a> {
    pub(super) benchmark: &'a str,
    /// The actions so far.
    pub(super) actions: &'a str,
    pub(super) done: bool,
    /// None if the compiler failed.
    pub(super) state: Option<StateId>,
    /// The sum of the rewards so far; NaN if there is none.
    pub(super) total: f64,
}

/// A row of `States`, or why it is skipped, with an example.
pub(super) type ReadRow<'a> = Result<LogRow<'a>, (Reason, String)>;

impl Database {
    /// Opens a log for reading.
    pub(super) fn open(path: &Path) -> Result<Self, ImportError> {
        let open = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            // The file may be anybody's: it calls no function with side effects, and its pages are
            // looked at before they are used.
            connection.pragma_update(None, "trusted_schema", false)?;
            connection.pragma_update(None, "cell_size_check", true)?;
            connection.execute_batch("BEGIN")?;
            Ok(connection)
        };
        let failed = |source: rusqlite::Error| match source.sqlite_error() {
            Some(error) if UNFINISHED.contains(&error.extended_code) => {
                ImportError::Unfinished { path: path.to_owned() }
            }
            _ => ImportError::Open { path: path.to_owned(), source },
        };
        let connection = open().map_err(failed)?;
        for column in COLUMNS {
            let (table, name) = column.split_once('.').expect("a column is named with its table");
            // A view may have any number of rows, whatever the size of the file.
            let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1
                           AND type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%')
                       AND EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2)";
            let is_there = connection.query_row(sql, [table, name], |row| row.get::<_, bool>(0));
            if !is_there.map_err(failed)? {
                return Err(ImportError::NotALog { path: path.to_owned(), missing: column });
            }
        }
        Ok(Self { path: path.to_owned(), connection })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of rows of both tables.
    pub(super) fn rows(&self) -> Result<u64, ImportError> {
        let sql = "SELECT (SELECT count(*) FROM States) + (SELECT count(*) FROM Observations)";
        let count = self.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        count.map(i64::unsigned_abs).map_err(|source| self.damaged(source))
    }

    /// Calls `visit` with every row of `States`, those of a program together, and each before those
    /// that continue its actions: a blank is smaller than any digit.
    pub(super) fn states(
        &self,
        visit: &mut dyn FnMut(ReadRow<'_>) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let sql = "SELECT benchmark_uri, actions, done, state_id, ir_instruction_count_oz_reward
                   FROM States ORDER BY benchmark_uri COLLATE BINARY, actions COLLATE BINARY";
        self.each(sql, &mut |row| visit(log_row(row)))
    }

    /// Calls `visit` with every row of `Observations`, in the order of the state's key: `state_id`,
    /// `ir_instruction_count`, `compressed_llvm_ir`, `autophase`, `instcount`. Graphs, which only
    /// executing the log could read, are not even fetched.
    pub(super) fn observations(
        &self,
        visit: &mut dyn FnMut(&Row<'_>) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        // A key is a signed number, so ids that begin with the digits 8 to f come first.
        for half in [">= '8'", "< '8'"] {
            let sql = format!(
                "SELECT state_id, ir_instruction_count, compressed_llvm_ir, autophase, instcount
                 FROM Observations WHERE state_id {half} ORDER BY state_id COLLATE BINARY"
            );
            self.each(&sql, visit)?;
        }
        Ok(())
    }

    /// The instruction count of a state.
    pub(super) fn count_of(&self, state: StateId) -> Result<Option<i64>, ImportError> {
        let sql = "SELECT ir_instruction_count FROM Observations WHERE state_id = ?1";
        let count = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query([state.to_string()])?;
            Ok(rows.next()?.and_then(|row| row.get_ref(0).ok()?.as_i64().ok()))
        };
        count().map_err(|source| self.damaged(source))
    }

    fn each(
        &self,
        sql: &str,
        visit: &mut dyn FnMut(&Row<'_>) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let damaged = |source| self.damaged(source);
        let mut statement = self.connection.prepare(sql).map_err(damaged)?;
        let mut rows = statement.query([]).map_err(damaged)?;
        while let Some(row) = rows.next().map_err(damaged)? {
            visit(row)?;
        }
        Ok(())
    }

    fn damaged(&self, source: rusqlite::Error) -> ImportError {
        ImportError::Read { path: self.path.clone(), source }
    }
}

/// Reads a state id. The logger writes lower-case digits, and the order of the log relies on that.
pub(super) fn state_of(text: &str) -> Option<StateId> {
    let is_lower = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    text.parse().ok().filter(|_| is_lower)
}

fn log_row<'a>(row: &'a Row<'_>) -> ReadRow<'a> {
    let text = |at: usize| row.get_ref(at).ok().and_then(|value| value.as_str().ok());
    let example = || {
        let part = |at| text(at).unwrap_or("(no text)");
        format!("{}, actions `{}`", part(0), part(1))
    };
    let wrong = |reason| (reason, example());
    let benchmark = text(0).ok_or_else(|| wrong(Reason::Benchmark))?;
    let actions = text(1).ok_or_else(|| wrong(Reason::Actions))?;
    let done = match row.get_ref(2) {
        Ok(ValueRef::Integer(done @ (0 | 1))) => done == 1,
        _ => return Err(wrong(Reason::Done)),
    };
    // When the service of the compiler failed, every observation is the default of its space. That
    // of the state id is the empty text.
    let state = match text(3) {
        Some("") if done => None,
        state => Some(state.and_then(state_of).ok_or_else(|| wrong(Reason::State))?),
    };
    let total = row.get_ref(4).ok().and_then(|value| value.as_f64().ok());
    let total = total.filter(|total| total.is_finite()).unwrap_or(f64::NAN);
    Ok(LogRow { benchmark, actions, done, state, total })
}

/// Reads the name of a program.
pub(super) fn benchmark_of(text: &str) -> Option<BenchmarkUri> {
    text.parse().ok()
}
