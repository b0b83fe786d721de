//! Why runs stop.

use super::ProgramError;
use crate::env::SessionError;
use crate::model::{BenchmarkUri, Failure};

/// Why a run did not come to its end. What was recorded of settled episodes stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A program cannot be had.
    #[error(transparent)]
    Program(ProgramError),
    /// A session failed in a way that is not the compiler's.
    #[error(transparent)]
    Session(SessionError),
    /// This machine keeps sessions from going on. A run that is taken up goes on with the episodes
    /// that are not settled.
    #[error("{0}; when that is over, the same command with --resume goes on")]
    Machine(SessionError),
    /// The start of a program failed that had started before in this run: for want of memory, or of
    /// time for its worker. A run that is taken up goes on with this episode.
    #[error(
        "the start of {uri}, which started before in this run, failed twice ({}: {}): this machine may be \
         short of memory or too busy; when that is over, the same command with --resume goes on",
        failure.kind,
        failure.detail
    )]
    StartFailed {
        /// The program.
        uri: BenchmarkUri,
        /// How it failed the second time.
        failure: Failure,
    },
    /// The run is to have so many steps or states, and all its episodes are failed starts.
    #[error(
        "the start of every benchmark of the run failed (`steplake query failed_starts` says how): \
         name others"
    )]
    NothingStarts,
}

impl From<SessionError> for GenerateError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Machine(_)
            | SessionError::Worker(_)
            | SessionError::Unavailable { .. } => Self::Machine(error),
            other => Self::Session(other),
        }
    }
}
