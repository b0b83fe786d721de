//! What went wrong, as a client is told.

use steplake::cli::messages::line;
use steplake::query::QueryError;
use steplake::store::StoreError;
use tonic::{Code, Status};

/// A query's error: its message, and the code that says whose turn it is.
pub(crate) fn of(error: &QueryError) -> Status {
    let code = match error {
        QueryError::ReadOnly(_) => Code::PermissionDenied,
        QueryError::Sql { .. }
        | QueryError::UnknownQuery { .. }
        | QueryError::Parameter { .. }
        | QueryError::SameName { .. } => Code::InvalidArgument,
        QueryError::Memory(_) => Code::ResourceExhausted,
        QueryError::NotRebuilt(_) => Code::FailedPrecondition,
        QueryError::Store(StoreError::Corrupt { .. } | StoreError::LostSnapshot { .. }) => {
            Code::DataLoss
        }
        QueryError::Store(_) => Code::Unavailable,
        _ => Code::Internal,
    };
    Status::new(code, line(error))
}
