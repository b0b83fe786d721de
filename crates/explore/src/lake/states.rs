//! States: what was observed, where their actions lead, and their programs as text.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use steplake::lake::Identity;
use steplake::model::StateId;

use super::paths::no_state;
use super::reader::{LISTED_MAX, LakeReader, RowCount, columns};
use super::spaces::{BaselineValues, action, baselines, costs};
use crate::answers::{JsonBody, JsonResult, Problem, UrlParameters, computed, state_id};
use crate::code::{self, Code};
use crate::live::no_function;
use crate::tree::shown::NamedAction;

#[derive(Serialize)]
struct ShownState {
    state_id: String,
    observations: Map<String, Value>,
    features: BTreeMap<String, Value>,
    is_start_of: Vec<String>,
    /// A program that reaches it, and the baselines of that for the usual cost.
    benchmark: Option<String>,
    cost_name: Option<String>,
    baselines: BaselineValues,
    #[serde(flatten)]
    degrees: Degrees,
    actions_total: usize,
    has_ir: bool,
}

/// How many transitions lead to and from a state; none before the first dedup.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Degrees {
    in_degree: Option<u64>,
    out_degree: Option<u64>,
    actions_tried: Option<u64>,
}

#[derive(Deserialize)]
struct BenchmarkName {
    benchmark_uri: String,
}

pub(super) async fn state(State(lake): State<LakeReader>, Path(id): Path<String>) -> JsonResult {
    let state = state_id(&id)?;
    let served = lake.served().await?;
    let identity = &served.identity;
    let (observations, features) = observed(&lake, identity, state).await?;
    let starts = format!(
        "SELECT benchmark_uri FROM benchmarks WHERE initial_state_id = '{state}' \
         ORDER BY benchmark_uri"
    );
    let starts: Vec<BenchmarkName> = lake.ask(starts, Vec::new(), LISTED_MAX).await?;
    let is_start_of: Vec<String> = starts.into_iter().map(|row| row.benchmark_uri).collect();
    let benchmark = match is_start_of.first() {
        Some(first) => Some(first.clone()),
        None => played_by(&lake, state).await?,
    };
    if observations.is_none() && benchmark.is_none() {
        return Err(no_state(state));
    }
    let cost_name = identity.usual_cost().map(str::to_owned);
    let baselines = match (&benchmark, &cost_name) {
        (Some(benchmark), Some(cost)) => baselines(&lake, identity, benchmark, cost).await?,
        _ => BaselineValues::default(),
    };
    let retracted = "SELECT count(*) AS rows FROM retractions WHERE kind = 'action'".to_owned();
    let retracted = lake.ask_one::<RowCount>(retracted).await?.map_or(0, |count| count.rows);
    let actions = identity.action_space.actions.len();
    Ok(JsonBody::of(&ShownState {
        state_id: state.to_string(),
        observations: observations.unwrap_or_default(),
        features,
        is_start_of,
        benchmark,
        cost_name,
        baselines,
        degrees: degrees(&lake, state).await?,
        actions_total: actions.saturating_sub(usize::try_from(retracted).unwrap_or_default()),
        has_ir: has_ir(&lake).await?,
    }))
}

/// Returns the single numbers and the named vectors that were observed in a state.
async fn observed(
    lake: &LakeReader,
    identity: &Identity,
    state: StateId,
) -> Result<(Option<Map<String, Value>>, BTreeMap<String, Value>), Problem> {
    let vectors = || identity.observations.iter().filter(|space| !space.features.is_empty());
    let names = identity.number_spaces().chain(vectors().map(|space| space.name.as_str()));
    let columns = columns("observations", names);
    let sql = format!("SELECT state_id{columns} FROM observations WHERE state_id = '{state}'");
    let Some(mut row) = lake.ask_one::<Map<String, Value>>(sql).await? else {
        return Ok((None, BTreeMap::new()));
    };
    row.remove("state_id");
    let mut features = BTreeMap::new();
    for space in vectors() {
        if let Some(values) = row.remove(&space.name).filter(|values| !values.is_null()) {
            let shown = json!({ "names": space.features, "values": values });
            features.insert(space.name.clone(), shown);
        }
    }
    Ok((Some(row), features))
}

/// Returns a program with an episode that reached a state.
async fn played_by(lake: &LakeReader, state: StateId) -> Result<Option<String>, Problem> {
    let sql = format!(
        "SELECT CAST(benchmark_uri AS VARCHAR) AS benchmark_uri FROM steps \
         WHERE state_id = '{state}' ORDER BY 1 LIMIT 1"
    );
    Ok(lake.ask_one::<BenchmarkName>(sql).await?.map(|row| row.benchmark_uri))
}

async fn degrees(lake: &LakeReader, state: StateId) -> Result<Degrees, Problem> {
    let sql = format!(
        "SELECT (SELECT count(*) FROM state_transitions \
                 WHERE next_state_id = '{state}' AND state_id <> '{state}') AS in_degree, \
         (SELECT count(*) FROM state_transitions \
          WHERE state_id = '{state}' AND next_state_id <> '{state}') AS out_degree, \
         (SELECT count(DISTINCT action) FROM (\
          SELECT action FROM state_transitions WHERE state_id = '{state}' UNION ALL \
          SELECT action FROM failures WHERE state_id = '{state}') AS tried) AS actions_tried"
    );
    match lake.ask_one::<Degrees>(sql).await {
        Ok(degrees) => Ok(degrees.unwrap_or_default()),
        // No dedup has counted steps yet.
        Err(problem) if problem.status == StatusCode::CONFLICT => Ok(Degrees::default()),
        Err(problem) => Err(problem),
    }
}

/// Whether the lake keeps IR, and so has that of its states or can rebuild it.
async fn has_ir(lake: &LakeReader) -> Result<bool, Problem> {
    let sql = "SELECT count(*) AS rows FROM ir".to_owned();
    Ok(lake.ask_one::<RowCount>(sql).await?.is_some_and(|count| count.rows > 0))
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EdgeDirection {
    #[default]
    Out,
    In,
}

#[derive(Deserialize)]
pub(super) struct AskedNeighbours {
    #[serde(default)]
    direction: EdgeDirection,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct Neighbour {
    state_id: String,
    action: NamedAction,
    count: u64,
    is_changed: bool,
    /// The usual cost of the lake, one of the next two.
    cost_name: Option<String>,
    cost: BTreeMap<String, Option<f64>>,
    difference: BTreeMap<String, Option<f64>>,
}

#[derive(Deserialize)]
struct NeighbourRow {
    neighbour: String,
    action: u32,
    count: u64,
    #[serde(flatten)]
    costs: Map<String, Value>,
}

pub(super) async fn neighbours(
    State(lake): State<LakeReader>,
    Path(id): Path<String>,
    UrlParameters(asked): UrlParameters<AskedNeighbours>,
) -> JsonResult {
    let state = state_id(&id)?;
    let served = lake.served().await?;
    let identity = &served.identity;
    let (own, _) = observed(&lake, identity, state).await?;
    let spaces = costs(identity);
    let columns = columns("o", spaces.iter().copied());
    let (here, there) = match asked.direction {
        EdgeDirection::Out => ("state_id", "next_state_id"),
        EdgeDirection::In => ("next_state_id", "state_id"),
    };
    let sql = format!(
        "SELECT t.{there} AS neighbour, t.action, t.count{columns} FROM state_transitions AS t \
         LEFT JOIN observations AS o ON o.state_id = t.{there} WHERE t.{here} = '{state}' \
         ORDER BY t.action, t.{there}"
    );
    let limit = asked.limit.unwrap_or(200).min(LISTED_MAX);
    let rows: Vec<NeighbourRow> = lake.ask(sql, Vec::new(), limit).await?;
    let of = |row: Option<&Map<String, Value>>, space: &str| row?.get(space)?.as_f64();
    let shown = rows.into_iter().map(|row| {
        let cost = |space: &str| of(Some(&row.costs), space);
        let difference = |space: &str| {
            let change = cost(space)? - of(own.as_ref(), space)?;
            // Not `-change`, which makes -0 of 0.
            Some(if asked.direction == EdgeDirection::Out { change } else { 0.0 - change })
        };
        let each = |value: &dyn Fn(&str) -> Option<f64>| {
            spaces.iter().map(|space| ((*space).to_owned(), value(space))).collect()
        };
        Neighbour {
            action: action(identity, row.action),
            count: row.count,
            is_changed: row.neighbour != state.to_string(),
            cost_name: identity.usual_cost().map(str::to_owned),
            cost: each(&cost),
            difference: each(&difference),
            state_id: row.neighbour,
        }
    });
    Ok(JsonBody::of(&shown.collect::<Vec<_>>()))
}

#[derive(Deserialize)]
struct IrAnswer {
    ir: Option<String>,
}

/// Returns the program in a state as text, rebuilt where it is not stored.
async fn code_of(lake: &LakeReader, state: StateId) -> Result<Arc<Code>, Problem> {
    if let Some(code) = lake.code().get(state) {
        return Ok(code);
    }
    let sql = format!("SELECT ir(state('{state}')) AS ir");
    let shown = lake.ask_one::<IrAnswer>(sql).await?.and_then(|row| row.ir);
    let Some(text) = shown else {
        let detail = "it has no such state, or its run kept none (`--ir none`)";
        return Err(Problem::missing(format!("the lake has no IR of state {state}: {detail}")));
    };
    let kept = Arc::clone(lake.code());
    computed(move || Ok(kept.keep(state, text))).await
}

pub(super) async fn ir(State(lake): State<LakeReader>, Path(id): Path<String>) -> JsonResult {
    let code = code_of(&lake, state_id(&id)?).await?;
    computed(move || Ok(JsonBody::of(&json!({ "text": code.text })))).await
}

#[derive(Deserialize)]
pub(super) struct TwoStates {
    from: String,
    to: String,
    #[serde(default)]
    function: String,
}

async fn both(lake: &LakeReader, asked: &TwoStates) -> Result<[Arc<Code>; 2], Problem> {
    let (from, to) = (state_id(&asked.from)?, state_id(&asked.to)?);
    Ok([code_of(lake, from).await?, code_of(lake, to).await?])
}

pub(super) async fn diff(
    State(lake): State<LakeReader>,
    UrlParameters(asked): UrlParameters<TwoStates>,
) -> JsonResult {
    let [before, after] = both(&lake, &asked).await?;
    computed(move || Ok(JsonBody::of(&code::compare(&before, &after)))).await
}

pub(super) async fn diff_text(
    State(lake): State<LakeReader>,
    UrlParameters(asked): UrlParameters<TwoStates>,
) -> JsonResult {
    let [before, after] = both(&lake, &asked).await?;
    let texts = code::texts(&before, &after, &asked.function);
    texts.map(|texts| JsonBody::of(&texts)).ok_or_else(|| no_function(&asked.function))
}
