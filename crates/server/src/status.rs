//! Errors as clients see them.

use std::io::ErrorKind;

use steplake::lake::LakeError;
use steplake::model::line;
use steplake::query::QueryError;
use steplake_terminal::exit;
use tonic::{Code, Status};

/// Converts a query's error: its message, and the code that says who can act.
pub(crate) fn of(error: &QueryError) -> Status {
    let code = match error {
        QueryError::ReadOnly(_) => Code::PermissionDenied,
        QueryError::Sql { .. }
        | QueryError::UnknownQuery { .. }
        | QueryError::Parameter { .. }
        | QueryError::NotInLake { .. }
        | QueryError::SameName { .. } => Code::InvalidArgument,
        QueryError::Memory(_) | QueryError::Spill(_) | QueryError::TooLarge(_) => {
            Code::ResourceExhausted
        }
        QueryError::NotRebuilt(_) => Code::FailedPrecondition,
        QueryError::Store(error) => of_store(error),
        _ => Code::Internal,
    };
    Status::new(code, line(error))
}

/// Converts a query's error likewise, with the command that helps, for people who run `steplake`.
pub(crate) fn with_advice(error: QueryError) -> Status {
    let code = of(&error).code();
    Status::new(code, exit::with_advice(&error.into()))
}

/// Clients retry by themselves if something is unavailable, so only temporary errors have that
/// code.
fn of_store(error: &LakeError) -> Code {
    match error {
        LakeError::Corrupt { .. } | LakeError::LostSnapshot { .. } | LakeError::Parquet { .. } => {
            Code::DataLoss
        }
        LakeError::Io { source, .. } => match source.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => Code::FailedPrecondition,
            _ => Code::Unavailable,
        },
        LakeError::Sqlite { .. } | LakeError::Busy { .. } | LakeError::BeingMaintained { .. } => {
            Code::Unavailable
        }
        LakeError::DiskFull { .. } => Code::ResourceExhausted,
        _ => Code::FailedPrecondition,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn only_what_may_pass_by_itself_is_unavailable() {
        let path = PathBuf::from("lake");
        let io = |kind: ErrorKind| LakeError::Io {
            doing: "read",
            path: path.clone(),
            source: io::Error::from(kind),
        };
        for (error, code) in [
            (io(ErrorKind::TimedOut), Code::Unavailable),
            (io(ErrorKind::NotFound), Code::FailedPrecondition),
            (LakeError::NotFound { path: path.clone() }, Code::FailedPrecondition),
            (
                LakeError::Format { path: path.clone(), found: 9, known: 1 },
                Code::FailedPrecondition,
            ),
            (LakeError::Corrupt { path: path.clone(), what: "bits".into() }, Code::DataLoss),
        ] {
            assert_eq!(of(&QueryError::Store(error)).code(), code);
        }
    }
}
