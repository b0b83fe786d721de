//! What the silence of a service means: a failure of its compiler, a lost session, a wrong request.

use steplake::env::SessionError;
use steplake::model::{Failure, FailureKind};
use tonic::{Code, Status};

use super::connection::Silence;

/// The longest text of a service that is kept.
const DETAIL_CHARS_MAX: usize = 1000;

/// Why a call has no answer, by who can act.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The compiler failed. A fresh session has to fail too before it is data.
    Failed(Failure),
    /// The session is gone, with the service or without it. A fresh one may go on.
    Lost(String),
    /// The service refuses the call. The code says why.
    Refused(Code, String),
    /// The session cannot be brought back: its actions lead elsewhere now.
    Elsewhere {
        /// Where they lead: to a state, or to a failure of the compiler.
        found: String,
        is_failure: bool,
    },
    /// Whoever waited gave up.
    Interrupted,
}

impl Trouble {
    /// An answer that no service should give.
    pub(super) fn wrong(detail: &str) -> Self {
        Self::Refused(Code::Ok, detail.to_owned())
    }

    /// The same, on the way back to the state of an episode, where nothing may fail.
    pub(super) fn elsewhere(self) -> Self {
        match self {
            Self::Failed(failure) => {
                let found = format!("{}: {}", failure.kind, failure.detail);
                Self::Elsewhere { found, is_failure: true }
            }
            trouble => trouble,
        }
    }

    /// Returns the error of a call that came to nothing, such as `an action`.
    pub(super) fn error(self, call: &str) -> SessionError {
        match self {
            Self::Refused(Code::Ok, detail) => SessionError::Broken(format!(
                "the service answers {call} in a way that cannot be recorded: {detail}"
            )),
            Self::Refused(_, detail) => refused(call, &detail),
            Self::Failed(failure) => SessionError::Broken(format!(
                "the service fails on {call}: {}: {}",
                failure.kind, failure.detail
            )),
            Self::Lost(detail) => SessionError::Machine(format!(
                "the service lost a session again and again, the last time with: {detail}; see \
                 whether it runs, and go on with --resume"
            )),
            Self::Elsewhere { found, is_failure } => {
                SessionError::Unrepeatable { found, is_failure }
            }
            Self::Interrupted => SessionError::Interrupted,
        }
    }
}

impl From<Silence> for Trouble {
    fn from(silence: Silence) -> Self {
        match silence {
            Silence::Interrupted => Self::Interrupted,
            Silence::TooLong(longest) => Self::Failed(Failure {
                kind: FailureKind::TimeOut,
                detail: format!("no answer within {} s", longest.as_secs()),
            }),
            Silence::Status(status) => of(&status),
        }
    }
}

/// The codes are those of `CompilerGym`'s services.
fn of(status: &Status) -> Trouble {
    let words = status.message().split_whitespace().collect::<Vec<_>>().join(" ");
    let mut detail: String = words.chars().take(DETAIL_CHARS_MAX).collect();
    if detail.is_empty() {
        status.code().description().clone_into(&mut detail);
    }
    let failed = |kind| Trouble::Failed(Failure { kind, detail: detail.clone() });
    match status.code() {
        Code::DataLoss => failed(FailureKind::Verifier),
        Code::DeadlineExceeded => failed(FailureKind::TimeOut),
        Code::ResourceExhausted => failed(FailureKind::OutOfMemory),
        // A connection that breaks off is `Unknown` with an error of the transport as its cause.
        Code::Unknown | Code::Internal if has_source(status) => Trouble::Lost(detail),
        Code::Unknown | Code::Internal | Code::Aborted => failed(FailureKind::Crash),
        Code::Unavailable | Code::Cancelled => Trouble::Lost(detail),
        Code::NotFound if status.message().starts_with("Session not found") => {
            Trouble::Lost(detail)
        }
        code => Trouble::Refused(code, detail),
    }
}

fn has_source(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// The error for a call that the service should not refuse.
pub(super) fn refused(call: &str, detail: &str) -> SessionError {
    SessionError::Broken(format!("the service refuses {call}: {detail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_who_can_act() {
        let kind = |code| match of(&Status::new(code, "two\nlines")) {
            Trouble::Failed(failure) => {
                assert_eq!(failure.detail, "two lines");
                Some(failure.kind)
            }
            _ => None,
        };
        assert_eq!(kind(Code::DataLoss), Some(FailureKind::Verifier));
        assert_eq!(kind(Code::DeadlineExceeded), Some(FailureKind::TimeOut));
        assert_eq!(kind(Code::ResourceExhausted), Some(FailureKind::OutOfMemory));
        assert_eq!(kind(Code::Unknown), Some(FailureKind::Crash));
        assert_eq!(kind(Code::Unavailable), None);
        let lost = of(&Status::not_found("Session not found: 7"));
        assert!(matches!(lost, Trouble::Lost(_)), "{lost:?}");
        let refused = of(&Status::not_found("Benchmark not found"));
        assert!(matches!(refused, Trouble::Refused(Code::NotFound, _)), "{refused:?}");
    }
}
