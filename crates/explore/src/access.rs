//! Who may ask, and what browsers are told about every answer.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::answers::Problem;
use steplake_server::{Access, Denial, Right, is_of_this_machine};

/// What the page may load: its own parts, from here.
const CONTENT_POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
                              frame-ancestors 'none'; object-src 'none'";

/// The headers of every answer.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The tokens that requests must have, if any.
#[derive(Clone)]
pub(super) struct Guard(pub(super) Option<Arc<Access>>);

/// Answers a request, or refuses it.
pub(super) async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let is_call = request.uri().path().starts_with("/api/");
    let mut response = match guard.refusal(&request) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_call {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

impl Guard {
    /// Why a request is refused, if it is.
    fn refusal(&self, request: &Request) -> Option<Problem> {
        let headers = request.headers();
        let is_call = request.uri().path().starts_with("/api/");
        match &self.0 {
            Some(access) if is_call => {
                let sent = text(headers, &header::AUTHORIZATION);
                match needed(request.uri().path(), |right| access.check(sent, right)) {
                    Ok(()) => {}
                    Err(Denial::Unknown) => {
                        return Some(Problem::new(
                            StatusCode::UNAUTHORIZED,
                            "this server requires a token: open the link that `steplake explore` printed, or send \
                             the header `Authorization: Bearer <token>`",
                        ));
                    }
                    Err(denial @ Denial::Lacks { .. }) => {
                        return Some(Problem::new(StatusCode::FORBIDDEN, denial.to_string()));
                    }
                }
            }
            // A foreign page can have its own name lead to this machine: then the name shows.
            None if !text(headers, &header::HOST).is_some_and(is_of_this_machine) => {
                return Some(Problem::new(
                    StatusCode::FORBIDDEN,
                    "without a token, this server answers under the names of this machine alone: use 127.0.0.1 or \
                     localhost, or start it with --token-file",
                ));
            }
            // The page itself has no secrets.
            Some(_) | None => {}
        }
        (is_call && is_foreign(headers)).then(|| {
            Problem::new(StatusCode::FORBIDDEN, "a page of another server may not ask this one")
        })
    }
}

/// Checks what a call needs.
fn needed(path: &str, check: impl Fn(Right) -> Result<(), Denial>) -> Result<(), Denial> {
    match path {
        // The page begins with it, whatever it is used for.
        "/api/describe" | "/api/v4/describe" => check(Right::Step).or_else(|_| check(Right::Read)),
        path if path.starts_with("/api/lake/") => check(Right::Read),
        _ => check(Right::Step),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a page of another server sent a request. One of another port of this machine is of the
/// same site, and another server all the same. Reading counts too: that page does not see the
/// answer, but this server has computed it.
fn is_foreign(headers: &HeaderMap) -> bool {
    // `none` is somebody who typed the address.
    let site = text(headers, &HeaderName::from_static("sec-fetch-site"));
    if site.is_some_and(|site| !["same-origin", "none"].contains(&site)) {
        return true;
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let own = text(headers, &header::HOST).unwrap_or_default();
    origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"))
        .is_none_or(|(_scheme, origin)| !origin.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_server_is_foreign() {
        let foreign = |name: &'static str, value: &'static str| {
            let pairs = [("host", "127.0.0.1:5"), (name, value)].map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            is_foreign(&pairs.into_iter().collect())
        };
        assert!(!foreign("accept", "*/*"));
        assert!(!foreign("origin", "http://127.0.0.1:5"));
        for other in ["http://127.0.0.1:6", "http://evil.test", "null"] {
            assert!(foreign("origin", other), "{other}");
        }
        for (site, is_other) in
            [("same-origin", false), ("none", false), ("same-site", true), ("cross-site", true)]
        {
            assert_eq!(foreign("sec-fetch-site", site), is_other, "{site}");
        }
    }
}
