//! What a lake and this program know of sequences that make programs small.

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};
use futures::TryStreamExt as _;

use super::command_error::CommandError;
use super::engine;
use crate::generate::{Coreset, Features};
use crate::lake::Lake;
use crate::model::{ActionIndex, ActionSpace};
use crate::query::{EngineOptions, QueryError, STACK_BYTES};

/// The observation space of what programs look like.
const FEATURES: &str = "Autophase";

/// How many sequences of a lake are taken: those that save most.
const OF_LAKE_MAX: usize = 200;

/// Returns the coreset of this program, and the best sequence of each program of the lake. `cost`
/// is the space that shall be small, and `reference` that of what `-Oz` leaves.
///
/// # Errors
///
/// If the lake cannot be read.
pub(super) fn known_sequences(
    lake: Option<Lake>,
    space: &ActionSpace,
    cost: &str,
    reference: &str,
) -> Result<Coreset, CommandError> {
    let mut coreset = Coreset::shipped(space);
    let records = |lake: &Lake| {
        let identity = lake.identity();
        let is_observed = |name| identity.observations.iter().any(|space| space.name == name);
        let has_reference = identity.baselines.iter().any(|name| name == reference);
        identity.environment == crate::env::DEFAULT
            && has_reference
            && is_observed(cost)
            && is_observed(FEATURES)
    };
    let Some(lake) = lake.filter(records) else { return Ok(coreset) };
    for batch in answers(&lake, &best_sequences(cost, reference))? {
        let (savings, features) =
            (batch["saving"].as_primitive::<Float64Type>(), &batch["features"]);
        let (features, actions) = (features.as_list::<i32>(), batch["actions"].as_list::<i32>());
        for row in (0..batch.num_rows()).filter(|&row| !features.is_null(row)) {
            let counts = features.value(row);
            let counts = counts.as_primitive::<Int32Type>().values().iter();
            let features = Features::of(&counts.map(|&count| f64::from(count)).collect::<Vec<_>>());
            let actions = actions.value(row);
            let actions = actions.as_primitive::<Int64Type>().iter().flatten();
            let index = |action: i64| u32::try_from(action).ok().map(ActionIndex);
            let actions: Vec<ActionIndex> = actions.filter_map(index).collect();
            coreset.add(features, &actions, savings.value(row));
        }
    }
    Ok(coreset)
}

/// Returns the question for the best sequence of each program.
fn best_sequences(cost: &str, reference: &str) -> String {
    format!(
        r#"WITH reached AS (
  SELECT e.benchmark_uri, s.episode_id, s.step_index, o."{cost}" AS cost,
         row_number() OVER (
           PARTITION BY e.benchmark_uri ORDER BY o."{cost}", s.step_index, s.episode_id
         ) AS place
  FROM steps AS s
  JOIN episodes AS e ON e.episode_id = s.episode_id
  JOIN observations AS o ON o.state_id = s.state_id
  WHERE o."{cost}" > 0
), best AS (
  SELECT b.*, ln(m."{reference}" / CAST(b.cost AS DOUBLE)) AS saving, m.initial_state_id
  FROM reached AS b
  JOIN benchmarks AS m ON m.benchmark_uri = b.benchmark_uri
  WHERE b.place = 1 AND b.step_index > 0 AND m."{reference}" > 0
  ORDER BY saving DESC, b.benchmark_uri
  LIMIT {OF_LAKE_MAX}
), ways AS (
  SELECT s.episode_id, array_agg(CAST(s.action AS BIGINT) ORDER BY s.step_index) AS actions
  FROM steps AS s
  JOIN best AS b ON b.episode_id = s.episode_id AND s.step_index <= b.step_index
  WHERE s.step_index > 0
  GROUP BY s.episode_id
)
SELECT b.saving, arrow_cast(f."{FEATURES}", 'List(Int32)') AS features, w.actions
FROM best AS b
JOIN ways AS w ON w.episode_id = b.episode_id
JOIN observations AS f ON f.state_id = b.initial_state_id
ORDER BY b.saving DESC, b.benchmark_uri"#
    )
}

/// Asks a lake, on a thread with enough stack to plan.
fn answers(lake: &Lake, sql: &str) -> Result<Vec<RecordBatch>, CommandError> {
    let snapshot = lake.snapshot()?;
    std::thread::scope(|scope| {
        let ask = || -> Result<Vec<RecordBatch>, CommandError> {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .thread_stack_size(STACK_BYTES)
                .build()?;
            let asked: Result<_, QueryError> = runtime.block_on(async {
                let engine = engine::open(snapshot, EngineOptions::default()).await?;
                engine.sql(sql).await?.try_collect::<Vec<_>>().await
            });
            Ok(asked?)
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, ask)?.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env;

    #[test]
    fn the_coreset_of_this_program_is_of_the_default_spaces() {
        let spec = env::open(env::DEFAULT).unwrap().spec().clone();
        let is_known = |name: &str| {
            !Coreset::shipped(spec.action_space(name).expect("a space of LLVM")).is_empty()
        };
        assert!(is_known("llvm22-v0") && is_known("llvm22-param-v0"));
        assert!(!is_known("compilergym-v0") && !is_known("llvm22-pipelines-v0"));
    }
}
