use std::io;
use std::path::{Path, PathBuf};

use super::ids::SnapshotId;
use super::table::Table;
use crate::model::RunId;

/// What to do about rows that contradict each other.
pub(crate) const REPORT: &str =
    "this is a defect of what wrote it: keep the lake, report the defect, and record again";

/// What a lake, its disk or its reader can do wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LakeError {
    /// Nothing stands at the path.
    #[error(
        "there is no lake at {}",
        .path.display()
    )]
    NotFound {
        /// Where a lake was looked for.
        path: PathBuf,
    },
    /// A new lake was to be made where there is one.
    #[error("{} holds a lake already: name a new or empty folder", .path.display())]
    HoldsALake {
        /// The folder.
        path: PathBuf,
    },
    /// The folder is something else than a lake.
    #[error(
        "{} is no lake ({detail}): name a lake, or an empty folder to make one in",
        .path.display()
    )]
    NotALake {
        /// The folder.
        path: PathBuf,
        /// How that shows.
        detail: String,
    },
    /// The lake was written by a version of steplake that keeps lakes otherwise.
    #[error(
        "the lake at {} has format {found}, and this steplake reads format {known}: {}",
        .path.display(),
        if found > known { "use the steplake that wrote it, or a newer one" }
        else { "nothing converts it, so record it anew, into another folder" }
    )]
    Format {
        /// The lake.
        path: PathBuf,
        /// The lake's format version.
        found: u32,
        /// The version that this code knows.
        known: u32,
    },
    /// The lake holds the data of another environment, compiler or choice of what is recorded.
    #[error(
        "the lake at {} has {what} {lake}, and what is to be written has {wanted}: \
         write to another lake, or with the lake's {what}",
        .path.display()
    )]
    OtherIdentity {
        /// The lake.
        path: PathBuf,
        /// What differs, e.g. `compiler`.
        what: String,
        /// What the lake has.
        lake: String,
        /// What was to be written.
        wanted: String,
    },
    /// The lake holds what no fetch brought, and a fetch would drop it.
    #[error(
        "the lake at {} is not the copy of a published one alone ({what}): fetch into another folder, and \
         merge the two",
        .path.display()
    )]
    OwnWork {
        /// The lake.
        path: PathBuf,
        /// How that shows.
        what: &'static str,
    },
    /// Somebody else is writing.
    #[error(
        "another process{} is writing to the lake at {}: \
         wait for it to end, or write to another lake",
        .pid.map_or(String::new(), |pid| format!(" (pid {pid})")),
        .path.display()
    )]
    Busy {
        /// The lake.
        path: PathBuf,
        /// The process that holds the lock, where it could be read.
        pid: Option<u32>,
    },
    /// Several machines share the file system, where neither locks nor the hot log work.
    #[error(
        "{} lies on {kind}, a file system that several machines share: nothing is written or deleted there, \
         because two machines could do so at once; keep the lake on a disk of this machine, and publish it, \
         or copy it there once nobody works on it",
        .path.display()
    )]
    SharedFileSystem {
        /// The lake.
        path: PathBuf,
        /// The type of the file system.
        kind: &'static str,
    },
    /// Somebody else maintains the lake.
    #[error(
        "another process{} is maintaining the lake at {} (dedup, expire, gc, retract or repair): \
         wait for it to end",
        .pid.map_or(String::new(), |pid| format!(" (pid {pid})")),
        .path.display()
    )]
    BeingMaintained {
        /// The lake.
        path: PathBuf,
        /// The process that holds the lock, where it could be read.
        pid: Option<u32>,
    },
    /// Somebody reads the lake, so no file of it can go.
    #[error(
        "somebody is reading the lake at {}: nothing was deleted; call again when they are done",
        .path.display()
    )]
    BeingRead {
        /// The lake.
        path: PathBuf,
    },
    /// There is no such snapshot, or none any more.
    #[error(
        "the lake at {} has {}: {}",
        .path.display(),
        if wanted > newest { format!("no snapshot {wanted} yet") }
        else if wanted < oldest && wanted.0 > 0 { format!("snapshot {wanted} no more: it has expired") }
        else { format!("no snapshot {wanted}") },
        if oldest == newest { format!("there is only {newest}") }
        else { format!("there are {oldest} to {newest}") }
    )]
    NoSnapshot {
        /// The lake.
        path: PathBuf,
        /// The number that was asked for.
        wanted: SnapshotId,
        /// The oldest one that there is.
        oldest: SnapshotId,
        /// The newest one.
        newest: SnapshotId,
    },
    /// A repair found files of the snapshot damaged.
    #[error(
        "snapshot {wanted} of the lake at {} cannot be read any more: {} was damaged, and a repair took \
         it out; read the newest snapshot",
        .path.display(),
        .file.display()
    )]
    LostSnapshot {
        /// The lake.
        path: PathBuf,
        /// The snapshot that was asked for.
        wanted: SnapshotId,
        /// One of the files.
        file: PathBuf,
    },
    /// No dedup has made the derived tables.
    #[error(
        "{}the lake at {} has no {table}: {}",
        if snapshot == newest { String::new() } else { format!("snapshot {snapshot} of ") },
        .path.display(),
        if snapshot == newest { "its steps are not counted yet" }
        else { "its steps were not counted yet; read a later one" }
    )]
    NotDerived {
        /// The lake.
        path: PathBuf,
        /// The table.
        table: Table,
        /// The snapshot that is read.
        snapshot: SnapshotId,
        /// The newest one.
        newest: SnapshotId,
    },
    /// Episodes of the run were taken back.
    #[error(
        "run {} of the lake at {} cannot be resumed: {what}, and it would record it again; begin \
         another run",
        .run.0,
        .path.display()
    )]
    RunHasGaps {
        /// The lake.
        path: PathBuf,
        /// The run.
        run: RunId,
        /// What it lacks, e.g. `benchmark … was retracted (…)`.
        what: String,
    },
    /// Somebody else took frames out of the hot log that a change of the lake was made of.
    #[error("the hot log {} was changed meanwhile: try again", .path.display())]
    FramesGone {
        /// The hot log.
        path: PathBuf,
    },
    /// There is nothing of the kind to be retracted.
    #[error("nothing to retract in the lake at {}: {what}", .path.display())]
    NothingToRetract {
        /// The lake.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The place cannot be written to.
    #[error("{} cannot be written to: it is read-only for this user", .path.display())]
    ReadOnly {
        /// What was to be written.
        path: PathBuf,
    },
    /// There is no room. Everything that was recorded before is still there.
    #[error(
        "the disk that holds {} is full{}: \
         free some space and go on; nothing recorded so far is lost",
        .path.display(),
        .wanted.map_or(String::new(), |bytes| format!(" ({bytes} bytes were to be written)"))
    )]
    DiskFull {
        /// What was to be written.
        path: PathBuf,
        /// How much was to be written, where that is known.
        wanted: Option<u64>,
    },
    /// A file of the lake is not what was written.
    #[error(
        "{} is damaged: {what}; {}",
        .path.display(),
        if path.ends_with("lake.json") {
            "restore it from a copy, or from a new lake of the same environment, compiler and choices, whose \
             lake.json is equal"
        } else {
            "restore it from a copy"
        }
    )]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// How that shows.
        what: String,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// `SQLite` refused.
    #[error("cannot use the hot log {}", .path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What it said.
        source: rusqlite::Error,
    },
    /// A Parquet file could not be read or written.
    #[error("cannot read or write {}", .path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the Parquet library said.
        source: parquet::errors::ParquetError,
    },
}

impl LakeError {
    /// Turns an error of the operating system into one that says what was tried with which file.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let path = path.to_owned();
            match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Self::DiskFull { path, wanted: None }
                }
                io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
                _ => Self::Io { doing, path, source },
            }
        }
    }

    /// Turns an error of `SQLite` into one of the store.
    pub(crate) fn sqlite(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| {
            let path = path.to_owned();
            match source.sqlite_error_code() {
                Some(rusqlite::ErrorCode::DiskFull) => Self::DiskFull { path, wanted: None },
                Some(rusqlite::ErrorCode::ReadOnly) => Self::ReadOnly { path },
                Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                    // SQLite quotes the whole of a statement that it cannot read.
                    let what = source.to_string().lines().next().unwrap_or_default().to_owned();
                    Self::Corrupt { path, what }
                }
                _ => Self::Sqlite { path, source },
            }
        }
    }

    /// Says that `path` is not what was written.
    pub(crate) fn corrupt(path: &Path, what: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), what: what.into() }
    }

    /// Adds to a full disk how much was to be written.
    pub(crate) fn wanting(self, bytes: u64) -> Self {
        match self {
            Self::DiskFull { path, .. } => Self::DiskFull { path, wanted: Some(bytes) },
            other => other,
        }
    }
}
