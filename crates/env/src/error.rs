//! Why sessions cannot do what they are asked to.

use serde::{Deserialize, Serialize};

use super::worker;
use steplake_model::{Classified, Error, ErrorKind, Failure, Remedy};

/// Why a session could not do what it was asked to. A compiler that fails on an action is no error:
/// that is an [`Outcome`](steplake_model::Outcome).
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionError {
    /// Nothing was started, or the episode has ended.
    #[error("no episode is under way: start one first")]
    NoEpisode,
    /// The action space has no such action.
    #[error("there is no action {index} in `{space}`, which has {len} actions")]
    InvalidAction {
        /// The index asked for.
        index: u32,
        /// The name of the action space.
        space: String,
        /// The number of its actions.
        len: usize,
    },
    /// The environment has no such action, observation or reward space.
    #[error("`{environment}` has no space called `{name}`")]
    UnknownSpace {
        /// The name asked for.
        name: String,
        /// The environment.
        environment: String,
    },
    /// The compiler rejects the program.
    #[error("the program of {uri} cannot be read: {detail}")]
    BadProgram {
        /// The benchmark.
        uri: String,
        /// The compiler's message, one line.
        detail: String,
    },
    /// The compiler crashed, hung or ran out of memory on the program, before there was a state.
    /// Like a failed action this is data: a recorder stores it and goes on with other programs.
    #[error("the compiler failed over {uri} before the first step: {}: {}", failure.kind, failure.detail)]
    StartFailed {
        /// The benchmark.
        uri: String,
        /// The failure.
        #[serde(with = "worker::WireFailure")]
        failure: Failure,
    },
    /// The environment's compiler is not available here.
    #[error("`{environment}` cannot be started: {detail}")]
    Unavailable {
        /// The environment.
        environment: String,
        /// The obstacle, and what to do about it.
        detail: String,
    },
    /// This machine does not let sessions go on: something ends their processes again and again.
    /// This says nothing about the compiler.
    #[error("{0}")]
    Machine(String),
    /// The worker of an episode was lost, and no other one comes to the episode's state: the
    /// actions that led there now lead elsewhere, or fail.
    #[error(
        "a worker that is lost cannot be replaced, since the actions of its episode do not lead to the \
         same state again, but to {found}"
    )]
    Unrepeatable {
        /// Where they lead: to a state, or to a failure of the compiler.
        found: String,
        /// Whether the compiler failed.
        is_failure: bool,
    },
    /// The compiler fails on an observation of the present state, and will again. The state is as
    /// it was.
    #[error("the compiler fails on the observation: {0}")]
    Unobservable(#[serde(with = "worker::WireFailure")] Failure),
    /// The process that held the session could not be reached or brought back.
    #[error("the worker of a session is lost: {0}")]
    Worker(String),
    /// Whoever waited for a worker gave up. The episode goes on from the last step that was
    /// reported.
    #[error("interrupted")]
    Interrupted,
    /// An invariant was violated that holds whatever a compiler does. What was recorded since
    /// cannot be trusted, and a retry does not help.
    #[error("{0}: this is a defect of steplake, please report it")]
    Defect(String),
    /// The session's own code broke the contract of a session, or was interrupted, or it was called
    /// from within a call. This says nothing about the compiler. In the first two cases the episode
    /// is over.
    #[error("{0}")]
    Broken(String),
    /// A session without a compiler has no recorded answer to an action. The state is as it was.
    #[error(
        "the lake has no result of action {index} (`{action}`) in state {state}: take another action, record \
         this one, or make the environment with another rule for missing edges (`stay`, `live`)"
    )]
    MissingEdge {
        /// The state, in hexadecimal digits.
        state: String,
        /// The index of the action.
        index: u32,
        /// The name of the action.
        action: String,
    },
    /// A session without a compiler was asked for something that was not recorded.
    #[error("the lake does not have {what}: {advice}")]
    NotRecorded {
        /// What was asked for.
        what: String,
        /// What to do about it.
        advice: String,
    },
    /// A live session that played recorded actions again came to another result than the lake.
    #[error(
        "the actions of {uri} that led to state {expected} in the lake led to {found} in a live session: \
         some action depends on more than the state, or the compiler is another one"
    )]
    Diverged {
        /// The benchmark.
        uri: String,
        /// The recorded state, in hexadecimal digits.
        expected: String,
        /// What the live session reached: a state, or how the compiler failed.
        found: String,
    },
    /// What was recorded cannot be read.
    #[error("the lake of a session cannot be read: {0}")]
    Unreadable(String),
    /// What records the session's steps failed on one.
    #[error("a step could not be recorded: {0}")]
    // The last one: those after a variant that is left out would get other numbers on the wire.
    #[serde(skip)]
    Recording(#[source] Error),
}

impl Classified for SessionError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        let kind = match self {
            Self::NoEpisode => ErrorKind::NoEpisode,
            Self::Worker(_) | Self::Defect(_) | Self::Broken(_) => ErrorKind::Failed,
            Self::InvalidAction { .. } => ErrorKind::Usage,
            Self::UnknownSpace { environment, .. } => {
                return (ErrorKind::Usage, Some(Remedy::Spaces(environment.clone())));
            }
            Self::BadProgram { .. } => ErrorKind::Benchmark,
            Self::StartFailed { .. } | Self::Unobservable(_) => ErrorKind::CompilerFailed,
            Self::Unavailable { .. } => ErrorKind::CompilerUnavailable,
            Self::Machine(_) | Self::Unrepeatable { .. } => ErrorKind::Machine,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Recording(error) => return (error.kind(), error.remedy().cloned()),
            Self::MissingEdge { .. } => ErrorKind::MissingEdge,
            Self::NotRecorded { .. } => ErrorKind::NotInLake,
            Self::Diverged { .. } => ErrorKind::Diverged,
            Self::Unreadable(_) => ErrorKind::Unreadable,
        };
        (kind, None)
    }
}
