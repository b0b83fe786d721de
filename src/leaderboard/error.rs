//! What is wrong with a task, with results, or with a board.

use std::io;
use std::path::PathBuf;

use crate::model::{Classified, ErrorKind, Remedy};

/// Why a leaderboard cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaderboardError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Results have other columns.
    #[error(
        "{} has the columns `{found}`: write `benchmark,reward,walltime,commandline` as its first line",
        path.display()
    )]
    Columns {
        /// The file.
        path: PathBuf,
        /// Its first line.
        found: String,
    },
    /// A row of results is none.
    #[error("{}, line {line}: {problem}", path.display())]
    BadRow {
        /// The file.
        path: PathBuf,
        /// The number of the line.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// Results have other rows than the task wants.
    #[error("{} is not complete: `{task}` wants {wanted}; {problems}", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// The task.
        task: String,
        /// What the task wants.
        wanted: String,
        /// What is there instead.
        problems: String,
    },
    /// There is no such task.
    #[error("there is no task `{name}`: write {known}")]
    UnknownTask {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// Nobody said of which task results are, and their benchmarks do not say it.
    #[error("{} has the benchmarks of {of}: say of which task it is", path.display())]
    WhichTask {
        /// The file.
        path: PathBuf,
        /// The tasks that have its benchmarks, if any.
        of: String,
    },
    /// A task is none.
    #[error("{} is no task: {detail}", path.display())]
    BadTask {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// An entry is damaged, or of another version of its task.
    #[error("{} is no entry of its task: {detail}", path.display())]
    BadEntry {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// A method has no name that makes a file's name.
    #[error("`{0}` names no method: write letters or digits")]
    BadMethod(String),
    /// The board has the method's entry already.
    #[error(
        "{} is there already: name the method otherwise, or delete the file first",
        path.display()
    )]
    Known {
        /// The entry.
        path: PathBuf,
    },
    /// A page has no place for tables.
    #[error("{} has no place for the tables: write the lines `{begin}` and `{end}` into it", path.display())]
    NoPlace {
        /// The page.
        path: PathBuf,
        /// The line before the tables.
        begin: &'static str,
        /// The line after them.
        end: &'static str,
    },
}

impl Classified for LeaderboardError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Write { .. } => (ErrorKind::Failed, None),
            Self::WhichTask { .. } => (ErrorKind::Usage, Some(Remedy::Field("task"))),
            Self::Known { .. } => (ErrorKind::Usage, Some(Remedy::Field("method"))),
            _ => (ErrorKind::Usage, None),
        }
    }
}
