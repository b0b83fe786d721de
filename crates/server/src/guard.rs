//! What lets requests of gRPC pass.

use std::sync::Arc;

use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::access::{Access, Right};

/// Lets requests pass whose token has a right, or all requests where there are no tokens.
#[derive(Debug, Clone)]
pub struct Guard {
    /// The tokens, if the server has some.
    pub access: Option<Arc<Access>>,
    /// What every request needs.
    pub right: Right,
}

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let sent = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        if let Some(access) = &self.access {
            access.check(sent, self.right)?;
        }
        Ok(request)
    }
}
