//! Access with the bearer token.

use steplake_server::Token;
use tonic::{Request, Status};

/// Lets requests with the token pass, or all requests without a token.
#[derive(Clone)]
pub(crate) struct Guard(pub(crate) Option<Token>);

impl tonic::service::Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let sent = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        match &self.0 {
            Some(token) if !token.is_sent(sent) => Err(Status::unauthenticated(
                "this server requires a token: send it as the header `authorization: Bearer <token>`",
            )),
            _ => Ok(request),
        }
    }
}
