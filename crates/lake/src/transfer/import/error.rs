//! Errors of imports.

use std::path::PathBuf;

use crate::kernel::LakeError;
use steplake_model::{Classified, ErrorKind, Remedy, StateId};

/// Why a log cannot be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The lake cannot be read or written.
    #[error("{0}")]
    Store(#[from] LakeError),
    /// The log cannot be opened.
    #[error("the log {} cannot be opened", .path.display())]
    Open {
        /// The log.
        path: PathBuf,
        /// The reason.
        source: rusqlite::Error,
    },
    /// The last transaction of a killed logger has to be rolled back, which writes to the log.
    #[error(
        "the logger of {0} was killed: open the log once with `sqlite3 {0} .tables`, which rolls \
         its last transaction back, and import it then",
        .path.display()
    )]
    Unfinished {
        /// The log.
        path: PathBuf,
    },
    /// Episodes of the lake continue ones that are not there.
    #[error(
        "{episodes} episodes of the lake continue ones that were retracted, so an import could \
         take their rows a second time: import the logs into a new lake"
    )]
    Orphaned {
        /// The number of episodes.
        episodes: u64,
    },
    /// The file is a database, but not of the logger.
    #[error(
        "{} was not written by CompilerGym's SynchronousSqliteLogger: it has no column {missing}",
        .path.display()
    )]
    NotALog {
        /// The file.
        path: PathBuf,
        /// A column that every log has, after its table.
        missing: &'static str,
    },
    /// The log cannot be read to its end.
    #[error("the log {} is damaged, and nothing of it was imported", .path.display())]
    Read {
        /// The log.
        path: PathBuf,
        /// The reason.
        source: rusqlite::Error,
    },
    /// The lake has another program under the same name.
    #[error(
        "in the log {} {benchmark} begins in state {there}, and in the lake in {here}: these are \
         different programs, or the log is of another compiler; import it into a lake of its own",
        .path.display()
    )]
    OtherProgram {
        /// The log.
        path: PathBuf,
        /// The program's name.
        benchmark: String,
        /// The first state in the lake.
        here: StateId,
        /// The first state in the log.
        there: StateId,
    },
}

impl Classified for ImportError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Store(error) => error.classify(),
            Self::OtherProgram { .. } | Self::Orphaned { .. } => (ErrorKind::Lake, None),
            Self::Open { .. } | Self::NotALog { .. } | Self::Unfinished { .. } => {
                (ErrorKind::Usage, None)
            }
            _ => (ErrorKind::Failed, None),
        }
    }
}
