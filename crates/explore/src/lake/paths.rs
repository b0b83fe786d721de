//! Recorded ways to states.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplake::model::{ActionIndex, StateId};

use super::reader::{LakeReader, RowCount, columns, text};
use super::spaces::{BaselineValues, action, baselines, costs};
use crate::answers::{JsonBody, JsonResult, Problem, state_id};
use crate::tree::shown::{NamedAction, command_of};

/// A step of a way: the state, and the action that led to it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct WayStep {
    pub(super) action: Option<u32>,
    pub(super) state_id: String,
}

/// Returns the shortest known way from one state to another; empty if there is none.
pub(super) async fn between(
    lake: &LakeReader,
    from: &str,
    to: &str,
) -> Result<Vec<WayStep>, Problem> {
    let sql = format!(
        "SELECT action, state_id FROM shortest_path({}, {}) ORDER BY step_index",
        text(from),
        text(to)
    );
    lake.ask(sql, Vec::new(), usize::MAX).await
}

#[derive(Deserialize)]
struct First {
    initial_state_id: String,
}

/// Returns the state in which a program begins; none if the lake does not have the program.
pub(super) async fn first_state(
    lake: &LakeReader,
    benchmark: &str,
) -> Result<Option<String>, Problem> {
    let name = text(benchmark);
    let sql = format!("SELECT initial_state_id FROM benchmarks WHERE benchmark_uri = {name}");
    Ok(lake.ask_one::<First>(sql).await?.map(|first| first.initial_state_id))
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct SequenceRow {
    steps: u32,
    benchmark_uri: String,
}

#[derive(Deserialize)]
struct Seen {
    benchmark_uri: String,
    episode_id: i64,
    step_index: i32,
}

/// Returns a shortest recorded way to a state from the first state of a program, and the program.
/// Of a state that is not in the transition graph, it is the shortest that an episode took.
///
/// # Errors
///
/// If the lake does not have the state, or knows no way there.
pub(super) async fn way_to(
    lake: &LakeReader,
    state: StateId,
) -> Result<(String, Vec<WayStep>), Problem> {
    // Neither joined nor sorted: the error of a state that is not in the graph would come from
    // several partitions at once, and not say any more what it is.
    let sql = format!("SELECT steps, benchmark_uri FROM sequence_to('{state}')");
    match lake.ask::<SequenceRow>(sql, Vec::new(), usize::MAX).await {
        Ok(begun) => {
            if let Some(SequenceRow { benchmark_uri, .. }) = begun.into_iter().min()
                && let Some(first) = first_state(lake, &benchmark_uri).await?
            {
                return Ok((benchmark_uri, between(lake, &first, &state.to_string()).await?));
            }
        }
        // The graph does not have the state, or no dedup has made a graph yet.
        Err(problem)
            if [StatusCode::BAD_REQUEST, StatusCode::CONFLICT].contains(&problem.status) => {}
        Err(problem) => return Err(problem),
    }
    let sql = format!(
        "SELECT CAST(benchmark_uri AS VARCHAR) AS benchmark_uri, episode_id, step_index FROM steps \
         WHERE state_id = '{state}' AND episode_id IN (SELECT episode_id FROM program_episodes) \
         ORDER BY step_index, episode_id LIMIT 1"
    );
    let Some(Seen { benchmark_uri, episode_id, step_index }) = lake.ask_one(sql).await? else {
        return Err(no_way(lake, state).await?);
    };
    let sql = format!(
        "SELECT action, state_id FROM steps WHERE episode_id = {episode_id} \
         AND step_index <= {step_index} ORDER BY step_index"
    );
    Ok((benchmark_uri, lake.ask(sql, Vec::new(), usize::MAX).await?))
}

/// Why no way leads to a state: the lake does not have it, or only in parts of episodes.
async fn no_way(lake: &LakeReader, state: StateId) -> Result<Problem, Problem> {
    let sql = format!("SELECT count(*) AS rows FROM steps WHERE state_id = '{state}'");
    if lake.ask_one::<RowCount>(sql).await?.is_none_or(|count| count.rows == 0) {
        return Ok(no_state(state));
    }
    Ok(Problem::conflict(format!(
        "no recorded episode leads from a program to state {state}: those that have it begin at \
         later states, as forks do. `steplake dedup` joins them; if nothing was recorded since the \
         last one, no way is known"
    )))
}

/// The lake does not have a state.
pub(super) fn no_state(state: StateId) -> Problem {
    Problem::missing(format!("the lake has no state {state}"))
}

#[derive(Serialize)]
struct ShownPath {
    benchmark: String,
    actions: Vec<NamedAction>,
    states: Vec<String>,
    /// The usual cost of the lake, one of `costs`, and the program's baselines for it.
    cost_name: Option<String>,
    #[serde(flatten)]
    baselines: BaselineValues,
    costs: Vec<BTreeMap<String, Option<f64>>>,
    command: String,
}

pub(super) async fn path(State(lake): State<LakeReader>, Path(id): Path<String>) -> JsonResult {
    let state = state_id(&id)?;
    let served = lake.served().await?;
    let (benchmark, way) = way_to(&lake, state).await?;
    let identity = &served.identity;
    let taken: Vec<u32> = way.iter().filter_map(|step| step.action).collect();
    let costs = costs_of(&lake, &costs(identity), &way).await?;
    let cost_name = identity.usual_cost();
    let baselines = match cost_name {
        Some(cost) => baselines(&lake, identity, &benchmark, cost).await?,
        None => BaselineValues::default(),
    };
    let specs = taken.iter().filter_map(|&index| identity.action_space.get(ActionIndex(index)));
    Ok(JsonBody::of(&ShownPath {
        benchmark,
        command: command_of(&identity.environment, specs),
        actions: taken.iter().map(|&index| action(identity, index)).collect(),
        states: way.into_iter().map(|step| step.state_id).collect(),
        cost_name: cost_name.map(str::to_owned),
        baselines,
        costs,
    }))
}

/// Returns what the states of a way cost.
async fn costs_of(
    lake: &LakeReader,
    spaces: &[&str],
    way: &[WayStep],
) -> Result<Vec<BTreeMap<String, Option<f64>>>, Problem> {
    let columns = columns("observations", spaces.iter().copied());
    let states: Vec<String> = way.iter().map(|step| text(&step.state_id)).collect();
    let sql = format!(
        "SELECT state_id{columns} FROM observations WHERE state_id IN ({})",
        states.join(", ")
    );
    let rows: Vec<Map<String, Value>> = lake.ask(sql, Vec::new(), usize::MAX).await?;
    let by_state: BTreeMap<&str, &Map<String, Value>> =
        rows.iter().filter_map(|row| Some((row.get("state_id")?.as_str()?, row))).collect();
    let costs = way.iter().map(|step| {
        let row = by_state.get(step.state_id.as_str());
        let cost = |space: &&str| row.and_then(|row| row.get(*space)?.as_f64());
        spaces.iter().map(|space| ((*space).to_owned(), cost(space))).collect()
    });
    Ok(costs.collect())
}
