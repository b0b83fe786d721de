//! The bearer token.

use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

/// The token that clients must send as `authorization: Bearer <token>`. Only its digest is kept.
#[derive(Clone)]
pub(crate) struct Token(blake3::Hash);

impl Token {
    /// Parses the token in a text, ignoring surrounding spaces and line ends; `None` if there is
    /// none, or if it could not stand in a header.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let token = text.trim();
        let visible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        visible.then(|| Self(blake3::hash(token.as_bytes())))
    }

    fn is_in(&self, headers: &MetadataMap) -> bool {
        self.is_sent(headers.get("authorization").and_then(|value| value.to_str().ok()))
    }

    /// Returns whether the header `authorization` has the token. The comparison of digests takes
    /// the same time for every token.
    pub(crate) fn is_sent(&self, header: Option<&str>) -> bool {
        header.and_then(|value| value.split_once(' ')).is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && blake3::hash(token.trim().as_bytes()) == self.0
        })
    }
}

/// Lets requests with the token pass, or all requests without a token.
#[derive(Clone)]
pub(crate) struct Guard(pub(crate) Option<Token>);

impl tonic::service::Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        match &self.0 {
            Some(token) if !token.is_in(request.metadata()) => Err(Status::unauthenticated(
                "this server requires a token: send it as the header `authorization: Bearer <token>`",
            )),
            _ => Ok(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens() {
        let token = Token::new(" s3cret\n").unwrap();
        let sent = |value: &str| {
            let mut headers = MetadataMap::new();
            headers.insert("authorization", value.parse().unwrap());
            token.is_in(&headers)
        };
        assert!(sent("Bearer s3cret") && sent("bearer s3cret"));
        assert!(
            !sent("Bearer s3cre")
                && !sent("Bearer s3cret2")
                && !sent("s3cret")
                && !sent("Basic s3cret")
        );
        assert!(!token.is_in(&MetadataMap::new()));
        assert!(Token::new("\n").is_none() && Token::new("a b").is_none());
    }
}
