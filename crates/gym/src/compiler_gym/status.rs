//! Errors as clients see them. The Python client acts on the code: it raises for some, ends the
//! episode for others, and repeats the call for `UNAVAILABLE`. Codes are those of `CompilerGym`'s
//! services, and so are the first words where scripts, or the client itself, know them.

use std::io;
use std::path::Path;

use steplake::env::SessionError;
use steplake::execution::ExecutionError;
use steplake::model::{Classified, ErrorKind, line};
use steplake::model::{Failure, FailureKind};
use steplake::program_under_test::MachineSpaceError;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::client::START_FAILURE;

/// By these words the client of `CompilerGym` knows that a program cannot be built: it raises
/// `BenchmarkInitError`.
const NO_TEXT_SIZE: &str = "Failed to compute .text size cost: ";

/// Converts the error of a session: its message, and the code that says who can act.
pub(super) fn of(error: &SessionError) -> Status {
    let code = match error.kind() {
        _ if matches!(error, SessionError::Unrepeatable { .. }) => Code::Aborted,
        _ if matches!(error, SessionError::Unobservable(_)) => Code::Internal,
        // What a client sent is wrong, or no program that the compiler can read.
        ErrorKind::CompilerFailed => Code::InvalidArgument,
        kind if kind.is_of_caller() => Code::InvalidArgument,
        // The episode has ended, or the lake cannot take its steps. Clients show these at once.
        ErrorKind::NoEpisode => Code::FailedPrecondition,
        ErrorKind::Unreadable => Code::Internal,
        kind if kind.is_of_lake() => Code::FailedPrecondition,
        // The service is about to stop, or may start a worker later. `RESOURCE_EXHAUSTED` is for
        // a compiler that runs out of memory.
        ErrorKind::Machine | ErrorKind::Interrupted | ErrorKind::CompilerUnavailable => {
            Code::Unavailable
        }
        _ => Code::Internal,
    };
    let status = Status::new(code, line(error));
    match error {
        SessionError::StartFailed { failure, .. } | SessionError::Unobservable(failure) => {
            with_failure(status, failure)
        }
        _ => status,
    }
}

/// To clients of `CompilerGym` a program on which the compiler fails is a wrong one. Our own client
/// records the failure.
fn with_failure(mut status: Status, failure: &Failure) -> Status {
    let kind = MetadataValue::from_static(failure.kind.as_str());
    status.metadata_mut().insert(START_FAILURE, kind);
    status
}

/// A program whose session is about to start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Starting<'a> {
    /// Its name, as the client gave it.
    pub(super) uri: &'a str,
    /// Whether LLVM reads it.
    pub(super) is_llvm: bool,
}

impl Starting<'_> {
    /// Converts the error of the session.
    pub(super) fn error(self, error: &SessionError) -> Status {
        match error {
            SessionError::BadProgram { detail, .. } => self.bad(detail),
            SessionError::StartFailed { failure, .. } => {
                let (Failure { kind, detail }, uri) = (failure, self.uri);
                let said = format!(
                    "the compiler failed over {uri} before the first step: {kind}: {detail}"
                );
                with_failure(self.without_cost(&said), failure)
            }
            other => of(other),
        }
    }

    /// The status of a program that the compiler cannot read.
    pub(super) fn bad(self, detail: &str) -> Status {
        let uri = self.uri;
        Status::invalid_argument(if self.is_llvm {
            format!("Failed to parse LLVM bitcode: \"{uri}\": {detail}")
        } else {
            format!("the program of {uri} cannot be read: {detail}")
        })
    }

    /// The status of a program that has no costs, since it cannot be compiled.
    fn without_cost(self, why: &str) -> Status {
        Status::invalid_argument(if self.is_llvm {
            format!("{NO_TEXT_SIZE}{why}")
        } else {
            why.to_owned()
        })
    }
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
    let Failure { kind, detail } = failure;
    let said = match kind {
        FailureKind::Verifier => "Failed to verify module: ",
        _ => "",
    };
    let said = format!("{said}the compiler failed on {action}: {kind}: {detail}; reset to go on");
    Status::new(code, said)
}

/// Converts the error of a size of the linked program.
pub(super) fn of_text_size(error: &MachineSpaceError) -> Status {
    match error {
        MachineSpaceError::Execution(execution) if is_of_program(execution) => {
            Status::invalid_argument(format!("{NO_TEXT_SIZE}{}", line(error)))
        }
        other => of_machine(other),
    }
}

/// The status of an executable that cannot be written where the client wants it.
pub(super) fn not_written(path: &Path, error: &io::Error) -> Status {
    let why = match error.kind() {
        io::ErrorKind::AlreadyExists => {
            "what is there is no program: remove it, or name another file".into()
        }
        io::ErrorKind::InvalidData => "the build command made no program".into(),
        _ => line(error),
    };
    let path = path.display();
    Status::invalid_argument(format!(
        "{NO_TEXT_SIZE}the executable cannot be written to {path}: {why}"
    ))
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
        // A command fails, of which the client makes the end of an episode.
        _ => Code::Internal,
    }
}

/// Whether a program cannot be built because of itself, and not because of this machine.
pub(super) fn is_of_program(error: &ExecutionError) -> bool {
    matches!(of_execution(error), Code::DeadlineExceeded | Code::Internal)
}

/// The status for a session that is not there. Clients know it by its first words.
pub(super) fn no_session(id: i64) -> Status {
    Status::not_found(format!("Session not found: {id}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        let broken = Failure { kind: FailureKind::Verifier, detail: "no terminator".into() };
        let said = of_failure("-gvn", &broken);
        assert!(said.message().starts_with("Failed to verify module: "), "{said:?}");
    }

    #[test]
    fn a_program_that_cannot_be_started_is_told_in_the_words_of_the_original() {
        let uri = "benchmark://a-v0/b";
        let failure = Failure { kind: FailureKind::TimeOut, detail: "10 s".into() };
        let failed = SessionError::StartFailed { uri: "other".into(), failure };
        let bad = SessionError::BadProgram { uri: "other".into(), detail: "no magic".into() };
        for (is_llvm, error, text) in [
            (true, &bad, r#"Failed to parse LLVM bitcode: "benchmark://a-v0/b": no magic"#),
            (false, &bad, "the program of benchmark://a-v0/b cannot be read: no magic"),
            (true, &failed, "Failed to compute .text size cost: the compiler failed over bench"),
            (false, &failed, "the compiler failed over benchmark://a-v0/b before the first step"),
        ] {
            let status = Starting { uri, is_llvm }.error(error);
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.message().starts_with(text), "{}", status.message());
        }
        let status = Starting { uri, is_llvm: true }.error(&failed);
        assert_eq!(status.metadata().get(START_FAILURE).unwrap(), "time-out");
    }

    #[test]
    fn a_command_that_fails_ends_an_episode_and_a_size_that_is_not_there_is_refused() {
        let failed = ExecutionError::BuildFailed { detail: "no such library".into() };
        let late = ExecutionError::TimedOut { what: "a".into(), limit: Duration::from_secs(1) };
        let tool = ExecutionError::ToolMissing { tool: "cc".into(), package: "gcc" };
        for (error, time, size) in [
            (failed, Code::Internal, Code::InvalidArgument),
            (late, Code::DeadlineExceeded, Code::InvalidArgument),
            (tool, Code::Unimplemented, Code::Unimplemented),
        ] {
            let error = MachineSpaceError::Execution(error);
            assert_eq!(
                [of_machine(&error), of_text_size(&error)].map(|it| it.code()),
                [time, size]
            );
        }
    }
}
