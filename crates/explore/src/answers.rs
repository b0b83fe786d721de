//! Requests as values, and answers and problems as JSON.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use steplake::env::SessionError;
use steplake::model::line;
use steplake::model::{StateId, plain_problem};
use steplake::{Error, ErrorKind};
use steplake_terminal::exit::with_advice;
use tonic::{Code, Status};

/// A request that cannot be answered, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    message: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The request is wrong.
    pub(super) fn wrong(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// There is nothing of that name.
    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// It cannot be done in the present state of things.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// The compiler fails, or rejects a program.
    pub(super) fn of_program(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    /// A defect of this program.
    pub(super) fn defect() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "a request panicked: this is a defect of steplake, please report it",
        )
    }

    /// The same with another message.
    pub(super) fn saying(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// The same with another status.
    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        tracing::debug!(status = self.status.as_u16(), self.message, "refused");
        (self.status, JsonBody::of(&json!({ "error": self.message }))).into_response()
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::BadProgram { .. } => Self::of_program(line(&error)),
            SessionError::Interrupted => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is being stopped")
            }
            other => Error::from(other).into(),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            kind if kind.is_of_caller() => StatusCode::BAD_REQUEST,
            ErrorKind::CompilerFailed => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::NoEpisode | ErrorKind::Diverged => StatusCode::CONFLICT,
            ErrorKind::Unreadable => StatusCode::INTERNAL_SERVER_ERROR,
            kind if kind.is_of_lake() => StatusCode::CONFLICT,
            ErrorKind::Offline => StatusCode::BAD_GATEWAY,
            ErrorKind::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, with_advice(&error))
    }
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        let code = match status.code() {
            Code::InvalidArgument | Code::PermissionDenied => StatusCode::BAD_REQUEST,
            Code::FailedPrecondition => StatusCode::CONFLICT,
            Code::ResourceExhausted | Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(code, status.message())
    }
}

/// An answer as JSON, already written.
#[derive(Debug)]
pub(super) struct JsonBody(Vec<u8>);

impl JsonBody {
    /// Writes an answer. Large ones are written by threads that may take their time.
    pub(super) fn of(answer: &impl Serialize) -> Self {
        Self(serde_json::to_vec(answer).expect("answers have texts as keys"))
    }
}

impl IntoResponse for JsonBody {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

/// What a call returns.
pub(super) type JsonResult = Result<JsonBody, Problem>;

/// Computes an answer on a thread that may take its time. It goes on to its end even if nobody
/// waits for it any more, so that what it works on stays whole.
pub(super) async fn computed<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_panic| Err(Problem::defect()))
}

/// The parameters in the address of a request.
pub(super) struct UrlParameters<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for UrlParameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        read.map(|Query(read)| Self(read))
            .map_err(|error| Problem::wrong(plain_problem(&line(&error))))
    }
}

/// What a request sends as JSON.
pub(super) struct JsonRequest<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonRequest<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send JSON, with the header `Content-Type: application/json`",
            ));
        }
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| Problem::new(error.status(), error.body_text()))?;
        let sent = serde_json::from_slice(&body);
        sent.map(Self).map_err(|error| {
            let problem = plain_problem(&error.to_string());
            Problem::wrong(format!("the request cannot be read: {problem}"))
        })
    }
}

/// Reads a part of an address that is the id of a state.
pub(super) fn state_id(text: &str) -> Result<StateId, Problem> {
    text.parse().map_err(|error| Problem::wrong(format!("{error}")))
}

/// Reads a part of an address that is the number of a node.
pub(super) fn node_number(text: &str) -> Result<usize, Problem> {
    text.parse().map_err(|_error| {
        Problem::wrong(format!("`{text}` is not the number of a node: write a whole number"))
    })
}
