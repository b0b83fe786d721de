//! The calls of live sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{delete, get, post};
use serde::{Deserialize, Serialize};
use serde_json::json;
use steplake::env::Environment;
use steplake::model::EnvironmentSpec;

use super::answers::{
    JsonBody, JsonRequest, JsonResult, Problem, UrlParameters, computed, node_number,
};
use super::code::{self, Code, KeptCode};
use super::programs::{ProgramSource, SentSource};
use super::sessions::Sessions;
use super::tree::shown::{ShownFeatures, ShownNode};
use super::tree::{ROOT, Tree, TreeStart};

/// The reward space of a session that names none, where there is one of this name.
const USUAL_REWARD: &str = "IrInstructionCountOz";

/// What live sessions share. Clones share everything.
#[derive(Clone)]
pub(super) struct LiveSessions {
    pub(super) environment: Arc<dyn Environment>,
    pub(super) programs: Arc<ProgramSource>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) code: Arc<KeptCode>,
}

impl LiveSessions {
    pub(super) fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    /// The name of the action space of a session that names none.
    pub(super) fn usual_action_space(&self) -> &str {
        self.spec().action_spaces.first().map_or("", |space| &space.name)
    }

    /// The name of the reward space of a session that names none.
    pub(super) fn usual_reward(&self) -> &str {
        let mut spaces = self.spec().reward_spaces.iter().map(|space| space.name.as_ref());
        let first = spaces.clone().next().unwrap_or_default();
        spaces.find(|name| *name == USUAL_REWARD).unwrap_or(first)
    }

    /// Runs `work` with a session, on a thread that may wait for a compiler.
    async fn with<T: Send + 'static>(
        &self,
        id: String,
        work: impl FnOnce(&mut Tree, &KeptCode) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let live = self.clone();
        computed(move || live.sessions.with(&id, |tree| work(tree, &live.code))).await
    }
}

/// The calls.
pub(super) fn routes(live: LiveSessions) -> Router {
    Router::new()
        .route("/api/sessions", post(start))
        .route("/api/sessions/{id}", get(show).delete(end))
        .route("/api/sessions/{id}/fork", post(fork))
        .route("/api/sessions/{id}/nodes", post(play))
        .route("/api/sessions/{id}/nodes/{node}", delete(undo))
        .route("/api/sessions/{id}/nodes/{node}/features", get(features))
        .route("/api/sessions/{id}/nodes/{node}/command", get(command))
        .route("/api/sessions/{id}/nodes/{node}/ir", get(ir))
        .route("/api/sessions/{id}/features", get(features_of_path))
        .route("/api/sessions/{id}/diff", get(diff))
        .route("/api/sessions/{id}/diff/text", get(diff_text))
        .with_state(live)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentStart {
    #[serde(default)]
    benchmark: String,
    source: Option<SentSource>,
    action_space: Option<String>,
    reward_space: Option<String>,
    #[serde(default)]
    actions: Vec<u32>,
}

async fn start(
    State(live): State<LiveSessions>,
    JsonRequest(sent): JsonRequest<SentStart>,
) -> JsonResult {
    computed(move || {
        let benchmark = match &sent.source {
            Some(source) => live.programs.of_source(source)?,
            None if sent.benchmark.is_empty() => {
                return Err(Problem::wrong("name a `benchmark`, or send a `source`"));
            }
            None => live.programs.named(&sent.benchmark)?,
        };
        let action_space = sent.action_space.as_deref().unwrap_or(live.usual_action_space());
        let reward_space = sent.reward_space.as_deref().unwrap_or(live.usual_reward());
        let start = TreeStart {
            benchmark,
            action_space: action_space.to_owned(),
            reward_space: reward_space.to_owned(),
        };
        let tree = Tree::start(Arc::clone(&live.environment), &live.programs, start)?;
        opened(&live, tree, &sent.actions)
    })
    .await
}

/// Plays actions from the start of a new session, and shows it.
fn opened(live: &LiveSessions, mut tree: Tree, actions: &[u32]) -> JsonResult {
    tree.play(ROOT, actions)?;
    let id = live.sessions.add(tree)?;
    live.sessions.with(&id, |tree| Ok(JsonBody::of(&tree.show(&id))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentFork {
    #[serde(default)]
    actions: Vec<u32>,
}

async fn fork(
    State(live): State<LiveSessions>,
    Path(id): Path<String>,
    JsonRequest(sent): JsonRequest<SentFork>,
) -> JsonResult {
    computed(move || {
        let tree = live.sessions.with(&id, Tree::fork)?;
        opened(&live, tree, &sent.actions)
    })
    .await
}

async fn show(State(live): State<LiveSessions>, Path(id): Path<String>) -> JsonResult {
    let name = id.clone();
    live.with(id, move |tree, _| Ok(JsonBody::of(&tree.show(&name)))).await
}

async fn end(State(live): State<LiveSessions>, Path(id): Path<String>) -> JsonResult {
    computed(move || {
        let ended = live.sessions.end(&id);
        Ok(JsonBody::of(&json!({ "ended": ended })))
    })
    .await
}

#[derive(Deserialize)]
struct SentActions {
    parent: usize,
    actions: Vec<u32>,
}

async fn play(
    State(live): State<LiveSessions>,
    Path(id): Path<String>,
    JsonRequest(sent): JsonRequest<SentActions>,
) -> JsonResult {
    live.with(id, move |tree, _| {
        let way = tree.play(sent.parent, &sent.actions)?;
        let nodes: Vec<ShownNode> = way.iter().filter_map(|&node| tree.show_node(node)).collect();
        Ok(JsonBody::of(&json!({ "nodes": nodes })))
    })
    .await
}

async fn undo(
    State(live): State<LiveSessions>,
    Path((id, node)): Path<(String, String)>,
) -> JsonResult {
    let node = node_number(&node)?;
    live.with(id, move |tree, _| Ok(JsonBody::of(&json!({ "removed": tree.remove(node)? })))).await
}

async fn features(
    State(live): State<LiveSessions>,
    Path((id, node)): Path<(String, String)>,
) -> JsonResult {
    let node = node_number(&node)?;
    live.with(id, move |tree, _| Ok(JsonBody::of(&tree.features(node)?))).await
}

#[derive(Deserialize)]
struct OfNode {
    node: usize,
}

/// Vectors of features, one for each node of a path.
#[derive(Default, Serialize)]
struct PathFeatures {
    names: Vec<String>,
    values: Vec<Arc<[f64]>>,
}

async fn features_of_path(
    State(live): State<LiveSessions>,
    Path(id): Path<String>,
    UrlParameters(asked): UrlParameters<OfNode>,
) -> JsonResult {
    live.with(id, move |tree, _| {
        let mut nodes = tree.path(asked.node)?;
        // A failure has no features, and ends a path.
        nodes.retain(|&node| tree.state(node).is_ok());
        let mut spaces: BTreeMap<String, PathFeatures> = BTreeMap::new();
        for &node in &nodes {
            for (name, ShownFeatures { names, values }) in tree.features(node)? {
                let space = spaces.entry(name).or_default();
                space.names = names;
                space.values.push(values);
            }
        }
        let mut answer = json!({ "nodes": nodes });
        for (name, features) in spaces {
            answer[name] = json!(features);
        }
        Ok(JsonBody::of(&answer))
    })
    .await
}

async fn command(
    State(live): State<LiveSessions>,
    Path((id, node)): Path<(String, String)>,
) -> JsonResult {
    let node = node_number(&node)?;
    live.with(id, move |tree, _| Ok(JsonBody::of(&tree.command(node)?))).await
}

/// Returns the text of a node.
fn code_of(tree: &mut Tree, kept: &KeptCode, node: usize) -> Result<Arc<Code>, Problem> {
    let state = tree.state(node)?;
    match kept.get(state) {
        Some(code) => Ok(code),
        None => Ok(kept.keep(state, tree.text(node)?)),
    }
}

async fn ir(
    State(live): State<LiveSessions>,
    Path((id, node)): Path<(String, String)>,
) -> JsonResult {
    let node = node_number(&node)?;
    live.with(id, move |tree, kept| {
        Ok(JsonBody::of(&json!({ "text": code_of(tree, kept, node)?.text })))
    })
    .await
}

#[derive(Deserialize)]
struct TwoNodes {
    from: usize,
    to: usize,
    #[serde(default)]
    function: String,
}

async fn diff(
    State(live): State<LiveSessions>,
    Path(id): Path<String>,
    UrlParameters(asked): UrlParameters<TwoNodes>,
) -> JsonResult {
    let [before, after] = both(&live, id, &asked).await?;
    computed(move || Ok(JsonBody::of(&code::compare(&before, &after)))).await
}

async fn diff_text(
    State(live): State<LiveSessions>,
    Path(id): Path<String>,
    UrlParameters(asked): UrlParameters<TwoNodes>,
) -> JsonResult {
    let [before, after] = both(&live, id, &asked).await?;
    let texts = code::texts(&before, &after, &asked.function);
    texts.map(|texts| JsonBody::of(&texts)).ok_or_else(|| no_function(&asked.function))
}

async fn both(
    live: &LiveSessions,
    id: String,
    asked: &TwoNodes,
) -> Result<[Arc<Code>; 2], Problem> {
    let (from, to) = (asked.from, asked.to);
    live.with(id, move |tree, kept| Ok([code_of(tree, kept, from)?, code_of(tree, kept, to)?]))
        .await
}

/// Neither program has a function.
pub(super) fn no_function(name: &str) -> Problem {
    Problem::missing(format!("neither program has a function `{name}`"))
}
