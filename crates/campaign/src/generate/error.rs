//! Why runs stop.

use steplake_env::SessionError;
use steplake_model::{BenchmarkUri, Classified, Error, ErrorKind, Failure, Remedy};

/// Why a run stopped early. What was recorded of settled episodes stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A program is not available.
    #[error("{0}")]
    Program(#[source] Error),
    /// A session failed in a way that is not the compiler's.
    #[error("{0}")]
    Session(#[source] SessionError),
    /// This machine keeps sessions from going on. A resumed run continues with the episodes that
    /// are not settled.
    #[error("{0}; when that is over, a resumed run goes on")]
    Machine(SessionError),
    /// The start of a program failed that had succeeded before in this run: for lack of memory, or
    /// of time for its worker. A resumed run continues with this episode.
    #[error(
        "the start of {uri}, which started before in this run, failed twice ({}: {}): this machine may be \
         short of memory or too busy; when that is over, a resumed run goes on",
        failure.kind,
        failure.detail
    )]
    StartFailed {
        /// The program.
        uri: BenchmarkUri,
        /// The second failure.
        failure: Failure,
    },
    /// The run is to have so many steps or states, but all its episodes are failed starts.
    #[error(
        "the start of every benchmark of the run failed (the query `failed_starts` says how): \
         name others"
    )]
    NothingStarts,
    /// A resumed search would not have tried what the lake's run did.
    #[error(
        "another version of steplake began this search of {0}, with other rules, so it cannot be \
         continued: begin a new run, in another lake"
    )]
    AnotherSearch(BenchmarkUri),
}

impl Classified for GenerateError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Program(error) => (error.kind(), error.remedy().cloned()),
            Self::Session(error) => error.classify(),
            Self::Machine(_) | Self::StartFailed { .. } => {
                (ErrorKind::Failed, Some(Remedy::Field("resume")))
            }
            _ => (ErrorKind::Failed, None),
        }
    }
}

impl From<SessionError> for GenerateError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Machine(_)
            | SessionError::Unrepeatable { .. }
            | SessionError::Worker(_)
            | SessionError::Unavailable { .. } => Self::Machine(error),
            other => Self::Session(other),
        }
    }
}
