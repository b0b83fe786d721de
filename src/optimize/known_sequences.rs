//! What a lake and this program know of sequences that make programs small or fast.

use arrow::array::{Array as _, AsArray as _, PrimitiveArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};
use futures::TryStreamExt as _;

use super::goal::GENERATION;
use crate::Error;
use crate::engine;
use crate::environments::Environments;
use crate::generate::{Coreset, ProgramFeatures};
use crate::lake::{Identity, Lake};
use crate::measure::MeasuredSpace;
use crate::model::{ActionIndex, ActionSpace, BenchmarkUri};
use crate::query::{EngineOptions, QueryError};
use crate::recording::Stopwatch;
use crate::runtime::{on_deep_stack, runtime};

/// What savings are counted in, as the coreset's are: instructions, beside those after `-Oz`.
const COUNT: &str = "IrInstructionCount";
const OZ: &str = "IrInstructionCountOz";

/// How many sequences of a lake are taken: those that save most.
const OF_LAKE_MAX: usize = 200;

/// How many fast sequences of a lake are tried: of the program itself, and of others.
const FAST_MAX: usize = 4;

/// The least samples of a state that say how fast it is.
const SAMPLES_MIN: u32 = 3;

/// The part of a question that reads the actions up to the steps of `best`.
const WAYS: &str = "ways AS (
  SELECT s.episode_id, array_agg(CAST(s.action AS BIGINT) ORDER BY s.step_index) AS actions
  FROM steps AS s
  JOIN best AS b ON b.episode_id = s.episode_id AND s.step_index <= b.step_index
  WHERE s.step_index > 0
  GROUP BY s.episode_id
)";

/// Returns the coreset of this program, and the best sequence of each program of the lake, which is
/// the one that leads to the lowest `cost`. Nothing is known of other action spaces than the
/// coreset's. What the lake has of `program` itself is tried first.
///
/// # Errors
///
/// If the lake cannot be read.
pub(super) fn known_sequences(
    environments: &Environments,
    lake: Option<&Lake>,
    space: &ActionSpace,
    cost: &str,
    program: &BenchmarkUri,
) -> Result<Coreset, Error> {
    let mut coreset = Coreset::shipped(space);
    let has_costs = |lake: &&Lake| records(lake.identity(), cost);
    let Some(lake) = lake.filter(has_costs).filter(|_| !coreset.is_empty()) else {
        return Ok(coreset);
    };
    for batch in answers(environments, lake, &best_sequences(cost, program))? {
        let uris = batch["uri"].as_string::<i32>();
        let savings = batch["saving"].as_primitive::<Float64Type>();
        let (features, actions) =
            (batch["features"].as_list::<i32>(), batch["actions"].as_list::<i32>());
        for row in (0..batch.num_rows()).filter(|&row| !features.is_null(row)) {
            let counts = features.value(row);
            let counts = counts.as_primitive::<Int32Type>().values().iter();
            let features =
                ProgramFeatures::of(&counts.map(|&count| f64::from(count)).collect::<Vec<_>>());
            let actions = indices(actions.value(row).as_primitive());
            let is_own = uris.value(row) == program.as_str();
            coreset.add(features, &actions, savings.value(row), is_own);
        }
    }
    Ok(coreset)
}

/// Returns what may make a program fast: first the fastest sequence of the lake for this program
/// and for a few others, of those that were timed on the machine of `stopwatch`. Their seconds are
/// not compared with those of other programs.
///
/// # Errors
///
/// If the lake cannot be read.
pub(super) fn known_fast_sequences(
    environments: &Environments,
    lake: Option<&Lake>,
    space: &ActionSpace,
    program: &BenchmarkUri,
    stopwatch: &Stopwatch,
) -> Result<Coreset, Error> {
    let is_of_here = |lake: &&Lake| lake.identity().environment == crate::compilers::DEFAULT;
    let mut known = Vec::new();
    if let Some(lake) = lake.filter(is_of_here) {
        for batch in answers(environments, lake, &fastest_sequences(program, stopwatch.machine()))?
        {
            let actions = batch["actions"].as_list::<i32>();
            known.extend(
                (0..batch.num_rows()).map(|row| indices(actions.value(row).as_primitive())),
            );
        }
    }
    Ok(Coreset::for_speed(space, &known))
}

/// Reads actions.
fn indices(actions: &PrimitiveArray<Int64Type>) -> Vec<ActionIndex> {
    let index = |action: i64| u32::try_from(action).ok().map(ActionIndex);
    actions.iter().flatten().filter_map(index).collect()
}

/// Returns the question for the fastest sequence of each program, of those that begin at the
/// program itself, that of `program` first.
fn fastest_sequences(program: &BenchmarkUri, machine: &str) -> String {
    let [program, machine] = [program.as_str(), machine].map(|text| text.replace('\'', "''"));
    let (space, code) = (MeasuredSpace::Runtime.as_str(), GENERATION.words());
    format!(
        r"WITH times AS (
  SELECT m.benchmark_uri, m.state_id, min(sample_median(m.samples)) AS seconds
  FROM measurements AS m
  JOIN benchmarks AS p
    ON p.benchmark_uri = m.benchmark_uri AND p.initial_state_id <> m.state_id
  WHERE m.space = '{space}' AND m.machine = '{machine}' AND starts_with(m.compilation, '{code}')
    AND cardinality(m.samples) >= {SAMPLES_MIN}
  GROUP BY m.benchmark_uri, m.state_id
), fastest AS (
  SELECT *, row_number() OVER (PARTITION BY benchmark_uri ORDER BY seconds, state_id) AS place
  FROM times
), reached AS (
  SELECT f.benchmark_uri, s.episode_id, s.step_index,
         row_number() OVER (
           PARTITION BY f.benchmark_uri ORDER BY s.step_index, s.episode_id
         ) AS place
  FROM fastest AS f
  JOIN program_episodes AS b ON b.benchmark_uri = f.benchmark_uri
  JOIN steps AS s ON s.episode_id = b.episode_id AND s.state_id = f.state_id
  WHERE f.place = 1 AND s.step_index > 0
), best AS (
  SELECT * FROM reached WHERE place = 1
  ORDER BY benchmark_uri = '{program}' DESC, benchmark_uri
  LIMIT {FAST_MAX}
), {WAYS}
SELECT w.actions
FROM best AS b
JOIN ways AS w ON w.episode_id = b.episode_id
ORDER BY b.benchmark_uri = '{program}' DESC, b.benchmark_uri"
    )
}

/// Returns whether a lake has what its programs look like and cost.
fn records(identity: &Identity, cost: &str) -> bool {
    let observes = |name| identity.observations.iter().any(|space| space.name == name);
    identity.environment == crate::compilers::DEFAULT
        && identity.baselines.iter().any(|name| name == OZ)
        && observes(cost)
        && observes(COUNT)
        && observes(Coreset::FEATURES)
}

/// Returns the question for the best sequence of each program, of those that begin at the program
/// itself: where a fork leads cannot be reached from there by its actions alone.
fn best_sequences(cost: &str, program: &BenchmarkUri) -> String {
    let program = program.as_str().replace('\'', "''");
    let features = Coreset::FEATURES;
    format!(
        r#"WITH began AS (
  SELECT e.episode_id, p.benchmark_uri, p.initial_state_id, p."{OZ}" AS reference
  FROM program_episodes AS e
  JOIN benchmarks AS p ON p.benchmark_uri = e.benchmark_uri
  WHERE p."{OZ}" > 0
), lowest AS (
  SELECT b.benchmark_uri, min(o."{cost}") AS cost
  FROM began AS b
  JOIN steps AS s ON s.episode_id = b.episode_id
  JOIN observations AS o ON o.state_id = s.state_id
  WHERE o."{cost}" > 0
  GROUP BY b.benchmark_uri
), reached AS (
  SELECT b.*, o."{COUNT}" AS count, s.step_index,
         row_number() OVER (
           PARTITION BY b.benchmark_uri ORDER BY s.step_index, s.episode_id
         ) AS place
  FROM lowest AS l
  JOIN began AS b ON b.benchmark_uri = l.benchmark_uri
  JOIN steps AS s ON s.episode_id = b.episode_id
  JOIN observations AS o ON o.state_id = s.state_id AND o."{cost}" = l.cost
), best AS (
  SELECT *, ln(reference / CAST(count AS DOUBLE)) AS saving
  FROM reached
  WHERE place = 1 AND step_index > 0 AND count > 0
  ORDER BY benchmark_uri = '{program}' DESC, saving DESC, benchmark_uri
  LIMIT {OF_LAKE_MAX}
), {WAYS}
SELECT arrow_cast(b.benchmark_uri, 'Utf8') AS uri, b.saving, arrow_cast(f."{features}", 'List(Int32)') AS features, w.actions
FROM best AS b
JOIN ways AS w ON w.episode_id = b.episode_id
JOIN observations AS f ON f.state_id = b.initial_state_id
ORDER BY b.saving DESC, b.benchmark_uri"#
    )
}

/// Asks a lake, on a thread with enough stack to plan. A lake that is too large for the memory has
/// no answer: the search goes on without it.
fn answers(environments: &Environments, lake: &Lake, sql: &str) -> Result<Vec<RecordBatch>, Error> {
    let snapshot = lake.snapshot()?;
    on_deep_stack(|| {
        let asked = runtime()?.block_on(async {
            let engine = engine::open(environments, snapshot, EngineOptions::default()).await?;
            engine.sql(sql).await?.try_collect::<Vec<_>>().await
        });
        match asked {
            Err(error @ (QueryError::Memory(_) | QueryError::Spill(_))) => {
                tracing::warn!(%error, "the lake's own sequences are not tried");
                Ok(Vec::new())
            }
            other => Ok(other?),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compilers;

    #[test]
    fn the_coreset_of_this_program_is_of_the_default_spaces() {
        let spec = compilers::open(compilers::DEFAULT).unwrap().spec().clone();
        let is_known = |name: &str| {
            !Coreset::shipped(spec.action_space(name).expect("a space of LLVM")).is_empty()
        };
        assert!(["llvm22-v1", "llvm22-v0", "llvm22-param-v0"].iter().all(|name| is_known(name)));
        assert!(!is_known("compilergym-v0") && !is_known("llvm22-pipelines-v0"));
    }
}
