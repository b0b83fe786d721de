//! Errors as clients see them. The Python client acts on the code: it raises for some, ends the
//! episode for others, and repeats the call for `UNAVAILABLE`.

use steplake::assembly::messages::line;
use steplake::assembly::program_under_test::MachineSpaceError;
use steplake::env::SessionError;
use steplake::execution::ExecutionError;
use steplake::model::{Failure, FailureKind};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::client::START_FAILURE;

/// Converts the error of a session: its message, and the code that says who can act.
pub(super) fn of(error: &SessionError) -> Status {
    let code = match error {
        // What a client sent is wrong, or no program that the compiler can read.
        SessionError::InvalidAction { .. }
        | SessionError::UnknownSpace { .. }
        | SessionError::BadProgram { .. }
        | SessionError::StartFailed { .. } => Code::InvalidArgument,
        // The episode has ended, or the lake cannot take its steps. Clients show these at once.
        SessionError::NoEpisode | SessionError::Visit(_) => Code::FailedPrecondition,
        // The service is about to stop, or may start a worker later. `RESOURCE_EXHAUSTED` is for
        // a compiler that runs out of memory.
        SessionError::Machine(_) | SessionError::Interrupted | SessionError::Unavailable { .. } => {
            Code::Unavailable
        }
        SessionError::Unrepeatable { .. } => Code::Aborted,
        _ => Code::Internal,
    };
    let mut status = Status::new(code, line(error));
    // To clients of `CompilerGym` a program on which the compiler fails is a wrong one. Our own
    // client records the failure.
    if let SessionError::StartFailed { failure, .. } | SessionError::Unobservable(failure) = error {
        let kind = MetadataValue::from_static(failure.kind.as_str());
        status.metadata_mut().insert(START_FAILURE, kind);
    }
    status
}

/// The status of a step that fails after `taken` actions were applied. A client repeats a call that
/// is `UNAVAILABLE`, and would apply these twice.
pub(super) fn after(taken: usize, status: Status) -> Status {
    if taken > 0 && status.code() == Code::Unavailable {
        return Status::new(Code::Cancelled, status.message());
    }
    status
}

/// The status of a step on which the compiler failed.
pub(super) fn of_failure(action: &str, failure: &Failure) -> Status {
    let code = match failure.kind {
        FailureKind::Verifier => Code::DataLoss,
        FailureKind::TimeOut => Code::DeadlineExceeded,
        FailureKind::OutOfMemory => Code::ResourceExhausted,
        FailureKind::Crash | FailureKind::Rejected | FailureKind::Assembler => Code::Internal,
    };
    Status::new(code, format!("the compiler failed on {action}: {failure}; reset to go on"))
}

/// Converts the error of a space that belongs to this machine.
pub(super) fn of_machine(error: &MachineSpaceError) -> Status {
    let code = match error {
        MachineSpaceError::Session(error) => return of(error),
        MachineSpaceError::CompilerFailed { pipeline, failure } => {
            return of_failure(pipeline, failure);
        }
        MachineSpaceError::Execution(error) => of_execution(error),
        MachineSpaceError::NoCode(_) | MachineSpaceError::NoPipeline { .. } => Code::Unimplemented,
        MachineSpaceError::File { .. } => Code::Unavailable,
        // What the client sent does not say how it is built or run.
        MachineSpaceError::NotBuildable(_) | MachineSpaceError::NotRunnable(_) => {
            Code::InvalidArgument
        }
        _ => Code::Internal,
    };
    Status::new(code, line(error))
}

fn of_execution(error: &ExecutionError) -> Code {
    match error {
        ExecutionError::TimedOut { .. } => Code::DeadlineExceeded,
        ExecutionError::Machine(_) | ExecutionError::NotSetUp { .. } => Code::Unavailable,
        ExecutionError::ToolMissing { .. } => Code::Unimplemented,
        ExecutionError::WrongCode => Code::Internal,
        // What the client sent cannot be built or run.
        _ => Code::InvalidArgument,
    }
}

/// The status for a session that is not there. Clients know it by its first words.
pub(super) fn no_session(id: i64) -> Status {
    Status::not_found(format!("Session not found: {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_of_the_compiler_has_its_code() {
        for (kind, code) in [
            (FailureKind::Verifier, Code::DataLoss),
            (FailureKind::TimeOut, Code::DeadlineExceeded),
            (FailureKind::OutOfMemory, Code::ResourceExhausted),
            (FailureKind::Crash, Code::Internal),
            (FailureKind::Rejected, Code::Internal),
            (FailureKind::Assembler, Code::Internal),
        ] {
            let status = of_failure("-gvn", &Failure { kind, detail: "signal 11".into() });
            assert_eq!(status.code(), code);
            assert!(status.message().contains("-gvn"), "{}", status.message());
        }
        assert_eq!(of(&SessionError::NoEpisode).code(), Code::FailedPrecondition);
        assert_eq!(of(&SessionError::Interrupted).code(), Code::Unavailable);
        let codes = [0, 1].map(|taken| after(taken, of(&SessionError::Interrupted)).code());
        assert_eq!(codes, [Code::Unavailable, Code::Cancelled]);
        let machine = of(&SessionError::Machine("no memory".into()));
        assert_eq!(machine.code(), Code::Unavailable);
        let failure = Failure { kind: FailureKind::TimeOut, detail: "10 s".into() };
        let uri = "benchmark://a-v0/b".to_owned();
        let status = of(&SessionError::StartFailed { uri, failure });
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.metadata().get(START_FAILURE).unwrap(), "time-out");
    }
}
