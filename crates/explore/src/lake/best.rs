//! What the lake knows of programs: their costs, their best sequences, and what to try next.

use std::collections::BTreeMap;

use axum::extract::State;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use steplake::query::ScalarValue;

use super::paths;
use super::reader::{self, LISTED_MAX, LakeReader, quoted, text};
use super::spaces::{BaselineColumns, BaselineValues, action, costs, reward};
use crate::answers::{JsonBody, JsonResult, Problem, UrlParameters};
use crate::tree::shown::NamedAction;
use steplake_server::Served;

/// How many paths are looked up at a time.
const PATHS_AT_A_TIME: usize = 8;

#[derive(Deserialize)]
pub(super) struct AskedBenchmarks {
    #[serde(default)]
    like: String,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct ListedBenchmark {
    benchmark: String,
    first_state: String,
    costs: BTreeMap<String, BaselineValues>,
    episodes: u64,
}

pub(super) async fn benchmarks(
    State(lake): State<LakeReader>,
    UrlParameters(asked): UrlParameters<AskedBenchmarks>,
) -> JsonResult {
    let served = lake.served().await?;
    let columns: BTreeMap<String, BaselineColumns> = costs(&served.identity)
        .into_iter()
        .map(|cost| (cost.to_owned(), BaselineColumns::of(&served.identity, cost)))
        .collect();
    let names = reader::columns("b", columns.values().flat_map(BaselineColumns::names));
    let sql = format!(
        "SELECT b.benchmark_uri, b.initial_state_id, coalesce(e.episodes, 0) AS episodes{names} \
         FROM benchmarks AS b LEFT JOIN (SELECT benchmark_uri, count(*) AS episodes FROM episodes \
         GROUP BY benchmark_uri) AS e ON e.benchmark_uri = b.benchmark_uri \
         WHERE strpos(lower(b.benchmark_uri), lower($like)) > 0 OR $like = '' \
         ORDER BY b.benchmark_uri"
    );
    let like = vec![("like".to_owned(), ScalarValue::from(asked.like.as_str()))];
    let limit = asked.limit.unwrap_or(100).min(LISTED_MAX);
    let rows: Vec<Map<String, Value>> = lake.ask(sql, like, limit).await?;
    let listed = rows.iter().map(|row| ListedBenchmark {
        benchmark: word(row, "benchmark_uri"),
        first_state: word(row, "initial_state_id"),
        costs: columns.iter().map(|(cost, own)| (cost.clone(), own.values(row))).collect(),
        episodes: row.get("episodes").and_then(Value::as_u64).unwrap_or_default(),
    });
    Ok(JsonBody::of(&listed.collect::<Vec<_>>()))
}

fn word(row: &Map<String, Value>, column: &str) -> String {
    row.get(column).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The usual cost of a lake.
///
/// # Errors
///
/// If it records no single numbers.
pub(super) fn usual_cost(served: &Served) -> Result<&str, Problem> {
    served.identity.usual_cost().ok_or_else(|| {
        Problem::conflict("this lake records no single numbers: `steplake backfill` adds a space")
    })
}

#[derive(Deserialize)]
pub(super) struct AskedBest {
    limit: Option<usize>,
}

#[derive(Serialize)]
struct ShownBest {
    benchmark: String,
    cost_name: String,
    best_cost: Option<f64>,
    #[serde(flatten)]
    baselines: BaselineValues,
    actions: Vec<NamedAction>,
    states: Vec<String>,
}

pub(super) async fn best(
    State(lake): State<LakeReader>,
    UrlParameters(asked): UrlParameters<AskedBest>,
) -> JsonResult {
    let served = lake.served().await?;
    let cost = usual_cost(&served)?;
    let columns = BaselineColumns::of(&served.identity, cost);
    let names = reader::columns("p", columns.names());
    let by = columns.oz().map(|oz| format!("b.best_cost * 1.0 / nullif(p.{}, 0), ", quoted(oz)));
    let sql = format!(
        "SELECT b.benchmark_uri, p.initial_state_id, b.best_state_id, b.best_cost{names} \
         FROM best_sequences({}) AS b JOIN benchmarks AS p ON p.benchmark_uri = b.benchmark_uri \
         ORDER BY {}b.benchmark_uri",
        text(cost),
        by.unwrap_or_default()
    );
    let limit = asked.limit.unwrap_or(100).min(LISTED_MAX);
    let rows: Vec<Map<String, Value>> = lake.ask(sql, Vec::new(), limit).await?;
    let mut shown = Vec::with_capacity(rows.len());
    for some in rows.chunks(PATHS_AT_A_TIME) {
        let some = some.iter().map(|row| shown_best(&lake, &served, &columns, cost, row));
        shown.extend(try_join_all(some.collect::<Vec<_>>()).await?);
    }
    Ok(JsonBody::of(&shown))
}

async fn shown_best(
    lake: &LakeReader,
    served: &Served,
    columns: &BaselineColumns,
    cost: &str,
    row: &Map<String, Value>,
) -> Result<ShownBest, Problem> {
    let way = match row.get("best_state_id").and_then(Value::as_str) {
        Some(best) => paths::between(lake, &word(row, "initial_state_id"), best).await?,
        None => Vec::new(),
    };
    let taken = way.iter().filter_map(|step| step.action);
    Ok(ShownBest {
        benchmark: word(row, "benchmark_uri"),
        cost_name: cost.to_owned(),
        best_cost: row.get("best_cost").and_then(Value::as_f64),
        baselines: columns.values(row),
        actions: taken.map(|index| action(&served.identity, index)).collect(),
        states: way.into_iter().map(|step| step.state_id).collect(),
    })
}

#[derive(Deserialize)]
pub(super) struct AskedFrontier {
    #[serde(default)]
    benchmark: String,
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct FrontierRow {
    state_id: String,
    benchmark: String,
    cost: Option<f64>,
    untried: u64,
    /// None if only parts of episodes reached it, such as forks.
    depth: Option<u64>,
    action: u32,
    promise: Option<f64>,
}

pub(super) async fn frontier(
    State(lake): State<LakeReader>,
    UrlParameters(asked): UrlParameters<AskedFrontier>,
) -> JsonResult {
    let served = lake.served().await?;
    let cost = usual_cost(&served)?;
    let Some(reward) = reward(&served.identity) else {
        return Err(Problem::conflict("this lake records no rewards, which say what is promising"));
    };
    let columns = BaselineColumns::of(&served.identity, cost);
    let scale = columns.oz().map_or("1.0".to_owned(), |oz| format!("nullif(b.{}, 0)", quoted(oz)));
    let sql = format!(
        "SELECT s.state_id, s.benchmark_uri AS benchmark, o.{own} AS cost, f.untried, \
         s.steps AS depth, f.action, f.promise \
         FROM ({reached}) AS s JOIN frontier({reward}, 1) AS f ON f.state_id = s.state_id \
         JOIN observations AS o ON o.state_id = s.state_id \
         JOIN benchmarks AS b ON b.benchmark_uri = s.benchmark_uri \
         ORDER BY o.{own} * 1.0 / {scale} NULLS LAST, s.steps NULLS LAST, s.state_id",
        reached = reached(&lake, &asked.benchmark).await?,
        own = quoted(cost),
        reward = text(reward)
    );
    let limit = asked.limit.unwrap_or(100).min(LISTED_MAX);
    let rows: Vec<FrontierRow> = lake.ask(sql, Vec::new(), limit).await?;
    let shown = rows.into_iter().map(|row| {
        json!({
            "state_id": row.state_id,
            "benchmark": row.benchmark,
            "cost_name": cost,
            "cost": row.cost,
            "untried": row.untried,
            "depth": row.depth,
            "action": action(&served.identity, row.action),
            "promise": row.promise,
        })
    });
    Ok(JsonBody::of(&shown.collect::<Vec<_>>()))
}

/// Returns the question which states the episodes of a program, or of all, have come to, and in how
/// many steps. What only parts of episodes reached has no number of steps, since these count from a
/// later state.
async fn reached(lake: &LakeReader, benchmark: &str) -> Result<String, Problem> {
    let of_benchmark = if benchmark.is_empty() {
        String::new()
    } else if paths::first_state(lake, benchmark).await?.is_some() {
        format!("AND s.benchmark_uri = {}", text(benchmark))
    } else {
        return Err(Problem::missing(format!("the lake has no benchmark {benchmark}")));
    };
    Ok(format!(
        "SELECT s.state_id, CAST(s.benchmark_uri AS VARCHAR) AS benchmark_uri, \
         min(CASE WHEN w.episode_id IS NOT NULL THEN s.step_index END) AS steps \
         FROM steps AS s LEFT JOIN program_episodes AS w ON w.episode_id = s.episode_id \
         WHERE s.state_id IS NOT NULL {of_benchmark} GROUP BY 1, 2"
    ))
}
