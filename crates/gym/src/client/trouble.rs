//! What the silence of a service means: a failure of its compiler, a lost session, a wrong request.

use steplake::env::SessionError;
use steplake::model::{Failure, FailureKind};
use tonic::{Code, Status};

use super::connection::Silence;

/// The longest text of a service that is kept.
const DETAIL_CHARS_MAX: usize = 1000;

/// What our own service adds to the refusal of a program on which its compiler failed: the kind of
/// the failure. Clients of `CompilerGym` see a program that is wrong.
pub(crate) const START_FAILURE: &str = "steplake-start-failure";

/// The first words of statuses that tonic makes itself where the answer of a service does not come
/// whole. They have no source.
const OF_TRANSPORT: [&str; 6] = [
    "protocol error: ",
    "grpc-status header missing",
    "Missing response message.",
    "Unexpected EOF decoding stream.",
    "Error decompressing",
    "failed to decode Protobuf message",
];

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

    /// The same, of a call before the compiler has a part in it: its failures are the machine's.
    pub(super) fn of_machine(self) -> Self {
        match self {
            Self::Failed(failure) => Self::Lost(failure.detail),
            trouble => trouble,
        }
    }

    /// The same, with other words for what the service said.
    pub(super) fn told(self, words: &dyn Fn(&str) -> String) -> Self {
        match self {
            Self::Failed(failure) => {
                Self::Failed(Failure { detail: words(&failure.detail), ..failure })
            }
            Self::Lost(detail) => Self::Lost(words(&detail)),
            Self::Refused(code, detail) => Self::Refused(code, words(&detail)),
            trouble @ (Self::Elsewhere { .. } | Self::Interrupted) => trouble,
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
                "the service lost a session or could not open one, again and again, the last \
                 time with: {detail}; see whether it runs and has room"
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

/// What the silence at the start of a session means. A service that has no room for one, or whose
/// process ends, says so with codes that are failures of a step.
pub(super) fn of_start(silence: Silence) -> Trouble {
    match silence {
        Silence::Status(status)
            if matches!(status.code(), Code::ResourceExhausted | Code::Unknown | Code::Aborted) =>
        {
            of(&status).of_machine()
        }
        silence => silence.into(),
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
    if has_source(status) {
        return Trouble::Lost(detail);
    }
    let start_failure = status.metadata().get(START_FAILURE).and_then(|kind| kind.to_str().ok());
    if let Some(kind) = start_failure.and_then(|kind| kind.parse().ok()) {
        return failed(kind);
    }
    match status.code() {
        Code::Unknown | Code::Internal | Code::ResourceExhausted if is_of_transport(status) => {
            Trouble::Lost(detail)
        }
        Code::DataLoss => failed(FailureKind::Verifier),
        Code::DeadlineExceeded => failed(FailureKind::TimeOut),
        Code::ResourceExhausted => failed(FailureKind::OutOfMemory),
        Code::Unknown | Code::Internal | Code::Aborted => failed(FailureKind::Crash),
        Code::Unavailable | Code::Cancelled => Trouble::Lost(detail),
        Code::NotFound if status.message().starts_with("Session not found") => {
            Trouble::Lost(detail)
        }
        code => Trouble::Refused(code, detail),
    }
}

/// Whether the cause of a status is an error of the transport, such as a connection that breaks
/// off. What a service sends has none.
fn has_source(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

fn is_of_transport(status: &Status) -> bool {
    OF_TRANSPORT.iter().any(|words| status.message().starts_with(words))
}

/// The error for a call that the service should not refuse.
pub(super) fn refused(call: &str, detail: &str) -> SessionError {
    SessionError::Broken(format!("the service refuses {call}: {detail}"))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::proto::StepReply;

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

    #[test]
    fn what_the_transport_says_is_no_failure_of_the_compiler() {
        let garbage = StepReply::decode(&[0xff_u8][..]).unwrap_err().to_string();
        for status in [
            Status::internal(garbage),
            Status::internal("Missing response message."),
            Status::internal("Unexpected EOF decoding stream."),
            Status::unknown("protocol error: missing grpc-status trailer, stream was terminated"),
            Status::unknown("grpc-status header missing, mapped from HTTP status code 500"),
        ] {
            assert!(matches!(of(&status), Trouble::Lost(_)), "{status:?}");
        }
        for code in [Code::ResourceExhausted, Code::DataLoss, Code::Aborted, Code::NotFound] {
            let mut status = Status::new(code, "h2 protocol error");
            status.set_source(std::sync::Arc::new(std::io::Error::other("the transport")));
            assert!(matches!(of(&status), Trouble::Lost(_)), "{status:?}");
        }
    }

    #[test]
    fn at_the_start_a_lack_of_room_is_the_machines() {
        let at_start = |code| of_start(Silence::Status(Status::new(code, "no room")));
        for code in [Code::ResourceExhausted, Code::Unknown, Code::Aborted] {
            assert!(matches!(at_start(code), Trouble::Lost(_)), "{code:?}");
        }
        for code in [Code::DataLoss, Code::Internal, Code::DeadlineExceeded] {
            assert!(matches!(at_start(code), Trouble::Failed(_)), "{code:?}");
        }
        let mut refusal = Status::invalid_argument("the compiler ran out of memory");
        refusal.metadata_mut().insert(START_FAILURE, "out-of-memory".parse().unwrap());
        let failed = of_start(Silence::Status(refusal));
        let Trouble::Failed(failure) = failed else { panic!("{failed:?}") };
        assert_eq!(failure.kind, FailureKind::OutOfMemory);
    }
}
