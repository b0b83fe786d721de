//! Errors of lakes.

use std::io;
use std::path::{Path, PathBuf};
use steplake_model::suggestions::{list, meant};
use steplake_model::{Classified, ErrorKind, Remedy};

use super::identity::STATE_SCHEME;
use super::ids::SnapshotId;
use crate::kernel::schema::table::Table;

/// What to do if rows contradict each other.
pub const REPORT: &str =
    "this is a defect of what wrote it: keep the lake, report the defect, and record again";

/// What can go wrong with a lake, its disk or its caller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LakeError {
    /// There is nothing at the path.
    #[error("there is no lake at {path}")]
    NotFound {
        /// Where a lake was looked for.
        path: PathBuf,
    },
    /// The lake has no context of this name.
    #[error(
        "the lake at {path} has no context `{name}`: {}",
        meant(name, &known.iter().map(String::as_str).collect::<Vec<_>>())
    )]
    NoContext {
        /// The lake.
        path: PathBuf,
        /// The name.
        name: String,
        /// The names of the contexts.
        known: Vec<String>,
    },
    /// The lake has several contexts, and one is wanted.
    #[error("this works on one context, and the lake at {path} has {}", list(known))]
    SeveralContexts {
        /// The lake.
        path: PathBuf,
        /// The names of the contexts.
        known: Vec<String>,
    },
    /// The folder for a new lake holds a lake already.
    #[error("{path} holds a lake already: name a new or empty folder")]
    HoldsALake {
        /// The folder.
        path: PathBuf,
    },
    /// The folder is not a lake.
    #[error("{path} is no lake ({detail}): name a lake, or an empty folder to make one in")]
    NotALake {
        /// The folder.
        path: PathBuf,
        /// What shows it.
        detail: String,
    },
    /// The lake was written by a version of steplake with another format.
    #[error(
        "the lake at {path} has format {found}, and this steplake reads format {known}: {}",
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
    /// The lake has another environment, compiler, target or set of recorded columns.
    #[error(
        "the lake at {path} has {what} {lake}, and what is to be written has {wanted}: write to \
         another lake{}",
        if what == super::identity::STATE_SCHEME { "" } else { ", or with what this one has" }
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
    /// The lake holds data that no fetch brought, and that the version is not known to have. A
    /// fetch would drop them.
    #[error(
        "the lake at {path} is not the copy of a published one alone ({what}): publish it there, \
         merged with the newest version, and fetch that; or fetch into another folder, and merge \
         the two"
    )]
    OwnWork {
        /// The lake.
        path: PathBuf,
        /// How that shows.
        what: &'static str,
    },
    /// Another process writes to the lake.
    #[error(
        "{} is writing to the lake at {path}: wait for it to end, or write to another lake",
        writer(*.pid)
    )]
    Busy {
        /// The lake.
        path: PathBuf,
        /// The process that holds the lock, if its id could be read.
        pid: Option<u32>,
    },
    /// Several machines share the file system. Neither locks nor the hot log work there.
    #[error(
        "{path} lies on {kind}, a file system that several machines share: nothing is written or \
         deleted there, because two machines could do so at once; keep the lake on a disk of this \
         machine, and publish it, or copy it there once nobody works on it"
    )]
    SharedFileSystem {
        /// The lake.
        path: PathBuf,
        /// The type of the file system.
        kind: &'static str,
    },
    /// Another process maintains the lake.
    #[error(
        "another process{} is maintaining the lake at {path} \
         (compact, dedup, expire, gc, retract, repair or backfill): wait for it to end",
        .pid.map_or(String::new(), |pid| format!(" (pid {pid})"))
    )]
    BeingMaintained {
        /// The lake.
        path: PathBuf,
        /// The process that holds the lock, where it could be read.
        pid: Option<u32>,
    },
    /// A process reads the lake, so none of its files can be deleted.
    #[error(
        "somebody is reading the lake at {path}: nothing was deleted; call again when they are \
         done"
    )]
    BeingRead {
        /// The lake.
        path: PathBuf,
    },
    /// There is no such snapshot, or it has expired.
    #[error(
        "the lake at {path} has {}: {}",
        if wanted > newest { format!("no snapshot {wanted} yet") }
        else if wanted >= oldest || wanted.0 <= 0 { format!("no snapshot {wanted}") }
        else { format!("no snapshot {wanted} any longer, since it has expired") },
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
        "snapshot {wanted} of the lake at {path} cannot be read any more: {file} was damaged, and \
         a repair took it out; read the newest snapshot"
    )]
    LostSnapshot {
        /// The lake.
        path: PathBuf,
        /// The snapshot that was asked for.
        wanted: SnapshotId,
        /// One of the files.
        file: PathBuf,
    },
    /// The derived tables were not made: no dedup has counted the steps.
    #[error(
        "{}the lake at {path} has no {table}: {}",
        if snapshot == newest { String::new() } else { format!("snapshot {snapshot} of ") },
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
    /// Another process removed frames from the hot log that the change of the lake contains.
    #[error("the hot log {path} was changed meanwhile: try again")]
    FramesGone {
        /// The hot log.
        path: PathBuf,
    },
    /// There is nothing to retract.
    #[error("nothing to retract in the lake at {path}: {what}")]
    NothingToRetract {
        /// The lake.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The place cannot be written to.
    #[error("{path} cannot be written to: it is read-only for this user")]
    ReadOnly {
        /// What was to be written.
        path: PathBuf,
    },
    /// The disk is full. Everything that was recorded before is still there.
    #[error(
        "the disk that holds {path} is full{}: \
         free some space and go on; nothing recorded so far is lost",
        .wanted.map_or(String::new(), |bytes| format!(" ({bytes} bytes were to be written)"))
    )]
    DiskFull {
        /// What was to be written.
        path: PathBuf,
        /// Bytes that were to be written, if that is known.
        wanted: Option<u64>,
    },
    /// A file of the lake is not what was written.
    #[error(
        "{path} is damaged: {what}; {}",
        if path.ends_with("lake.json") {
            "restore it from a copy, or from a new lake of the same environment, compiler and \
             choices, whose lake.json is equal"
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
    /// The lake is too large for a transition graph in memory.
    #[error("the lake has more than {most} transitions or states, which are counted in 32 bits")]
    TooLarge {
        /// The most transitions, and the most states.
        most: usize,
    },
    /// Tables that were counted elsewhere cannot become those of the lake, which is unchanged.
    #[error("{path} cannot become the derived tables of the lake: {what}")]
    OtherTables {
        /// Their folder, or one of their files.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// A derived table is not sorted.
    #[error("`{table}` is not in the order of its key: count all steps again")]
    Unordered {
        /// The table.
        table: Table,
    },
    /// The caller stopped the work by a break. The lake is as it was before.
    #[error("interrupted")]
    Interrupted,
    /// The operating system refused.
    #[error("cannot {doing} {path}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Its error.
        source: io::Error,
    },
    /// `SQLite` refused.
    #[error("cannot use the hot log {path}")]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What it said.
        source: rusqlite::Error,
    },
    /// A Parquet file could not be read or written.
    #[error("cannot read or write {path}")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The error of the Parquet library.
        source: parquet::errors::ParquetError,
    },
}

impl Classified for LakeError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::NotFound { .. } => (ErrorKind::NoLake, Some(Remedy::Record)),
            Self::NotALake { path, .. } => {
                let is_database_there = path.join("hot.sqlite").exists();
                (ErrorKind::NoLake, is_database_there.then_some(Remedy::Identity))
            }
            Self::NoSnapshot { oldest, newest, .. } => {
                (ErrorKind::NoSnapshot, (oldest != newest).then_some(Remedy::Snapshots))
            }
            Self::NoContext { .. } => (ErrorKind::Usage, None),
            Self::SeveralContexts { .. } => (ErrorKind::Usage, Some(Remedy::Field("context"))),
            Self::NothingToRetract { .. } => (ErrorKind::Usage, Some(Remedy::Runs)),
            Self::LostSnapshot { .. } => (ErrorKind::LostSnapshot, None),
            Self::NotDerived { snapshot, newest, .. } if snapshot == newest => {
                (ErrorKind::NotDerived, Some(Remedy::Dedup))
            }
            Self::NotDerived { .. } => (ErrorKind::NotDerived, Some(Remedy::Snapshots)),
            Self::Busy { .. } => (ErrorKind::Busy, Some(Remedy::OwnLake)),
            Self::BeingMaintained { .. } | Self::BeingRead { .. } => (ErrorKind::Busy, None),
            Self::Corrupt { path, .. } if path.ends_with("lake.json") => {
                (ErrorKind::Damaged, Some(Remedy::Identity))
            }
            Self::Corrupt { .. } => (ErrorKind::Damaged, Some(Remedy::Verify)),
            Self::OtherIdentity { what, .. } if what == STATE_SCHEME => {
                (ErrorKind::Lake, Some(Remedy::OtherScheme))
            }
            Self::OwnWork { .. } => (ErrorKind::Lake, Some(Remedy::Merge)),
            Self::Interrupted => (ErrorKind::Interrupted, None),
            _ => (ErrorKind::Lake, None),
        }
    }
}

impl LakeError {
    /// Adds to an error of the operating system what was tried with which file.
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

    /// Adds the database to an error of `SQLite`.
    pub(crate) fn sqlite(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| {
            let path = path.to_owned();
            match source.sqlite_error_code() {
                _ if is_full(&source) => Self::DiskFull { path, wanted: None },
                Some(rusqlite::ErrorCode::ReadOnly) => Self::ReadOnly { path },
                Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                    // SQLite quotes the whole statement that it cannot read.
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

    /// Adds the number of bytes that were to be written, if the disk is full.
    pub(crate) fn wanting(self, bytes: u64) -> Self {
        match self {
            Self::DiskFull { path, .. } => Self::DiskFull { path, wanted: Some(bytes) },
            other => other,
        }
    }
}

/// Whether `SQLite` found no room on the disk, for its pages or for the file that connections
/// share.
pub(crate) fn is_full(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
        || error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

/// Names the process of this id, which writes to a lake.
fn writer(pid: Option<u32>) -> String {
    match pid {
        Some(pid) if pid == std::process::id() => "another writer of this process".to_owned(),
        Some(pid) => format!("another process (pid {pid})"),
        None => "another process".to_owned(),
    }
}
