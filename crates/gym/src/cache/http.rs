//! `/step` for clients who hold only a state id, and `/health` and `/metrics` for monitoring.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value as JsonValue, json};
use steplake::Error;
use steplake::datasets::names_files;
use steplake::env::{Session as _, SessionError, Start, Watch};
use steplake::generate::ProgramProvider as _;
use steplake::model::{
    ActionIndex, Benchmark, List, Outcome, Provenance, StateId, Texts, Value, plain_problem,
};
use steplake::model::{Classified, ErrorKind, line};
use steplake_server::{Access, Certificate, Denial, HttpListener, Right, is_of_this_machine};
use tokio::net::TcpListener;

use super::session::CacheSession;
use super::shared::Cache;

/// Asks what an action does in a state. Without a state, it is the first one of the benchmark.
/// Without an action, nothing is done, and the state is looked at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepRequest {
    benchmark: String,
    state: Option<String>,
    action: Option<Action>,
    #[serde(default)]
    observations: Vec<String>,
    #[serde(default)]
    rewards: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an action is its name, or its number in the action space")]
enum Action {
    Index(u32),
    Name(String),
}

#[derive(Debug, Serialize)]
struct StepReply {
    /// The state after the action, in hexadecimal digits; null if the compiler failed.
    state: Option<String>,
    changed: bool,
    /// Who answered.
    source: &'static str,
    failure: Option<FailureReply>,
    rewards: BTreeMap<String, JsonValue>,
    observations: BTreeMap<String, JsonValue>,
}

#[derive(Debug, Serialize)]
struct FailureReply {
    kind: &'static str,
    detail: String,
}

/// Why a request is refused.
#[derive(Debug)]
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        let code = match error.kind() {
            ErrorKind::NotInLake => StatusCode::NOT_FOUND,
            kind if kind.is_of_caller() => StatusCode::BAD_REQUEST,
            ErrorKind::CompilerFailed => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::Diverged => StatusCode::CONFLICT,
            ErrorKind::Unreadable => StatusCode::INTERNAL_SERVER_ERROR,
            kind if kind.is_of_lake() => StatusCode::CONFLICT,
            ErrorKind::Machine | ErrorKind::Interrupted | ErrorKind::CompilerUnavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(code, line(&error))
    }
}

fn wrong(problem: impl Into<String>) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, problem.into())
}

/// Serves, on tasks of its own, for as long as the runtime lives. Steps need a token that may
/// record, if there are tokens.
///
/// # Errors
///
/// If the certificate and its key are none.
pub(crate) fn serve(
    listener: TcpListener,
    cache: Arc<Cache>,
    access: Option<Arc<Access>>,
    certificate: Option<&Certificate>,
) -> Result<(), Error> {
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let is_guarded = access.is_some();
    let step = post(step).layer(middleware::from_fn_with_state(access, demand_token));
    let mut routes = Router::new()
        .route("/step", step)
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
        .with_state(cache);
    if is_local && !is_guarded {
        routes = routes.layer(middleware::from_fn(demand_local_name));
    }
    let listener = HttpListener::start(listener, certificate)?;
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "nothing answers POST /step, /health and /metrics any more");
        }
    });
    Ok(())
}

/// Refuses a request whose token may not record.
async fn demand_token(
    State(access): State<Option<Arc<Access>>>,
    request: Request,
    next: Next,
) -> Response {
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|sent| sent.to_str().ok());
    match access.map_or(Ok(()), |access| access.check(sent, Right::Record)) {
        Ok(()) => next.run(request).await,
        Err(denial) => {
            let status = match denial {
                Denial::Unknown => StatusCode::UNAUTHORIZED,
                Denial::Lacks { .. } => StatusCode::FORBIDDEN,
            };
            Refusal(status, denial.to_string()).into_response()
        }
    }
}

/// What can be asked.
const CALLS: &str = "write POST /step, GET /health, or GET /metrics";

async fn nothing_there() -> Refusal {
    Refusal(StatusCode::NOT_FOUND, format!("there is no such call: {CALLS}"))
}

async fn wrong_method() -> Refusal {
    Refusal(StatusCode::METHOD_NOT_ALLOWED, format!("this call has another method: {CALLS}"))
}

/// Refuses a request of a page in a browser that calls this machine by a name of its own.
async fn demand_local_name(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if host.is_none_or(is_of_this_machine) {
        return next.run(request).await;
    }
    let problem = "this server is for its own machine: call it localhost or 127.0.0.1";
    Refusal(StatusCode::FORBIDDEN, problem.to_owned()).into_response()
}

async fn step(
    State(cache): State<Arc<Cache>>,
    request: Result<Json<StepRequest>, JsonRejection>,
) -> Result<Json<StepReply>, Refusal> {
    let Json(request) = request.map_err(|error| {
        let problem = plain_problem(&error.body_text());
        Refusal(error.status(), format!("the request cannot be read: {problem}"))
    })?;
    // To wake another thread, and this one again, takes longer than a known step.
    if is_at_hand(&cache, &request) {
        return answer(&cache, &request).map(Json);
    }
    let done = tokio::task::spawn_blocking(move || answer(&cache, &request)).await;
    let broken = "a request panicked: this is a defect of steplake, please report it";
    done.map_err(|_panic| Refusal(StatusCode::INTERNAL_SERVER_ERROR, broken.to_owned()))?.map(Json)
}

/// Reports whether the lake still takes what is recorded.
async fn health(State(cache): State<Arc<Cache>>) -> Response {
    let flushed = tokio::task::spawn_blocking(move || {
        let (states, transitions) = cache.transitions.counts();
        cache.flush().map(|()| (states, transitions))
    });
    match flushed.await {
        Ok(Ok((states, transitions))) => {
            let status = json!({
                "status": "ok",
                "states": states,
                "transitions": transitions,
            });
            Json(status).into_response()
        }
        Ok(Err(error)) => {
            let status = json!({ "status": "failing", "why": line(&error) });
            (StatusCode::SERVICE_UNAVAILABLE, Json(status)).into_response()
        }
        Err(_panic) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn metrics(State(cache): State<Arc<Cache>>) -> impl IntoResponse {
    let (states, transitions) = cache.transitions.counts();
    let text = cache.counters.metrics(states, transitions);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

/// Whether a request is answered without waiting. A wrong one is not.
fn is_at_hand(cache: &Cache, request: &StepRequest) -> bool {
    let known = cache.transitions.benchmark(&request.benchmark);
    let Some(start) = known.and_then(|known| known.initial_state) else { return false };
    let state = request.state.as_deref().map_or(Ok(start), str::parse);
    let action = request.action.as_ref().map(|action| named(cache, action)).transpose();
    let spaces = request.observations.iter().map(|name| cache.spec().observation_index(name));
    let spaces = spaces.collect::<Option<Vec<_>>>();
    let (Ok(state), Ok(action), Some(spaces)) = (state, action, spaces) else { return false };
    // The rewards begin with what the first state costs.
    cache.transitions.is_known_of(start, state)
        && cache.transitions.is_at_hand(start, &[], &[])
        && cache.transitions.is_at_hand(state, action.as_slice(), &spaces)
}

fn answer(cache: &Arc<Cache>, request: &StepRequest) -> Result<StepReply, Refusal> {
    let spec = cache.spec();
    let action = request.action.as_ref().map(|action| named(cache, action)).transpose()?;
    let spaces = request.observations.iter().map(|name| {
        let space = spec.observation_index(name);
        space.map(|space| (name, space)).ok_or_else(|| unknown(cache, name))
    });
    let spaces = spaces.collect::<Result<Vec<_>, _>>()?;
    let places = request.rewards.iter().map(|name| {
        let place = spec.reward_spaces.iter().position(|space| space.name == *name);
        let place = place.ok_or_else(|| unknown(cache, name))?;
        // A known step has no other rewards.
        let recorded = &cache.transitions.identity().rewards;
        if recorded.iter().any(|space| space.name == *name) {
            return Ok((name, place));
        }
        let recorded: Vec<&str> = recorded.iter().map(|space| space.name.as_str()).collect();
        let recorded = recorded.join(", ");
        Err(wrong(format!("the lake does not record the reward {name}: it has {recorded}")))
    });
    let places = places.collect::<Result<Vec<_>, _>>()?;
    let state = request.state.as_deref().map(str::parse::<StateId>).transpose();
    let state = state.map_err(|error| wrong(line(&error)))?;

    let mut session = CacheSession::new(Arc::clone(cache));
    let was_known = start(cache, &mut session, &request.benchmark)?;
    if let Some(state) = state {
        session.go_to(state)?;
    }
    let mut reply = StepReply {
        state: session.state().map(|state| state.to_string()),
        changed: false,
        source: source(was_known),
        failure: None,
        rewards: BTreeMap::new(),
        observations: BTreeMap::new(),
    };
    if let Some(action) = action {
        let step = session.apply(action)?;
        reply.source = source(session.was_hit());
        reply.state = step.outcome.state().map(|state| state.to_string());
        match step.outcome {
            Outcome::State { changed, .. } => reply.changed = changed,
            Outcome::Crashed(failure) => {
                let (kind, detail) = (failure.kind.as_str(), failure.detail);
                reply.failure = Some(FailureReply { kind, detail });
                return Ok(reply);
            }
        }
        let reward = |(name, place): (&String, usize)| (name.clone(), number(step.rewards[place]));
        reply.rewards = places.into_iter().map(reward).collect();
    }
    for (name, space) in spaces {
        reply.observations.insert(name.clone(), to_json(session.observe(space)?));
    }
    Ok(reply)
}

/// Begins a benchmark: one of the lake, or one whose program steplake has. Returns whether its
/// start was known.
fn start(cache: &Cache, session: &mut CacheSession, uri: &str) -> Result<bool, Refusal> {
    let catalogue = &cache.catalogue;
    let known = |uri: &str| {
        cache.transitions.benchmark(uri).is_some_and(|known| known.initial_state.is_some())
    };
    let missing = |problem: String| {
        let advice = "or start a session with the program, over gRPC";
        Refusal(StatusCode::NOT_FOUND, format!("{problem}; {advice}"))
    };
    let uri = if known(uri) {
        uri.parse().map_err(|error| wrong(line(&error)))?
    } else if names_files(uri) {
        return Err(missing(
            "no program is read from the server's files: name a dataset's".to_owned(),
        ));
    } else {
        // A dataset knows one program by several names, of which the lake has one.
        catalogue.one(uri).map_err(|error| missing(line(&error)))?
    };
    let is_known = known(uri.as_str());
    let (benchmark, baselines) = if is_known {
        let (program, provenance) = (Arc::default(), Provenance::default());
        (Benchmark { uri, program, provenance, execution: None }, None)
    } else {
        let benchmark = catalogue.load(&uri).map_err(|error| missing(line(&error)))?;
        let baselines = catalogue.baselines(&benchmark);
        (benchmark, baselines)
    };
    let started = session.start(&Start {
        benchmark: &benchmark,
        action_space: cache.action_space(),
        baselines: baselines.as_ref(),
        watch: &Watch::default(),
    })?;
    if !is_known && baselines.as_ref() != Some(&started.baselines) {
        catalogue.keep_baselines(&benchmark, &started.baselines);
    }
    Ok(is_known)
}

fn source(was_known: bool) -> &'static str {
    if was_known { "lake" } else { "compiler" }
}

fn named(cache: &Cache, action: &Action) -> Result<ActionIndex, Refusal> {
    match action {
        Action::Index(index) => Ok(ActionIndex(*index)),
        Action::Name(name) => {
            let space = cache.transitions.action_space();
            // Flags are named with a hyphen; as for `steplake replay`, it may be omitted.
            let found = space.index_of(name).or_else(|| space.index_of(&format!("-{name}")));
            found.ok_or_else(|| wrong(format!("there is no action `{name}` in `{}`", space.name)))
        }
    }
}

fn unknown(cache: &Cache, name: &str) -> Refusal {
    let environment = cache.spec().name.to_string();
    SessionError::UnknownSpace { name: name.to_owned(), environment }.into()
}

/// A number that is not finite becomes a text: JSON has no such numbers.
fn number(value: f64) -> JsonValue {
    if value.is_finite() {
        value.into()
    } else if value.is_nan() {
        "NaN".into()
    } else if value > 0.0 {
        "Infinity".into()
    } else {
        "-Infinity".into()
    }
}

/// Bytes become hexadecimal digits, and structs of lists objects.
fn to_json(value: Value) -> JsonValue {
    match value {
        Value::Int(value) => value.into(),
        Value::Float(value) => number(value),
        Value::Text(value) => value.into(),
        Value::Bytes(bytes) => {
            use std::fmt::Write as _;
            let mut digits = String::with_capacity(2 * bytes.len());
            for byte in bytes {
                let _ = write!(digits, "{byte:02x}");
            }
            digits.into()
        }
        Value::IntVector(numbers) => numbers.into_vec().into(),
        Value::FloatVector(numbers) => numbers.iter().copied().map(number).collect(),
        Value::TextList(texts) => texts.into(),
        Value::Lists(lists) => {
            let list = |list: &List| match list {
                List::Int8(items) => JsonValue::from(items.clone()),
                List::Int32(items) => JsonValue::from(items.clone()),
                List::Text(items) => Texts::iter(items).map(JsonValue::from).collect(),
            };
            lists.named().map(|(name, items)| (name.to_owned(), list(items))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_json_as_they_are() {
        assert_eq!(to_json(Value::Bytes(vec![0, 255])), json!("00ff"));
        assert_eq!(to_json(Value::IntVector([1, -2].into())), json!([1, -2]));
        assert_eq!(to_json(Value::Float(0.1 + 0.2)).to_string(), "0.30000000000000004");
        assert_eq!(to_json(Value::Float(f64::NAN)), json!("NaN"));
        let vector = Value::FloatVector([1.5, f64::INFINITY, f64::NEG_INFINITY].into());
        assert_eq!(to_json(vector), json!([1.5, "Infinity", "-Infinity"]));
    }
}
