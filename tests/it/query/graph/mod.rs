//! The functions that walk the transition graph, compared with simple models: relaxation until
//! nothing changes, and plain SQL.

mod known;
mod leaving;
mod room;

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt as _;
use proptest::prelude::*;
use steplake::dedup::dedup;
use steplake::lake::{Lake, to_the_end};
use steplake::model::{EpisodeId, RunId};
use steplake::query::{Engine, QueryError};

use crate::fixtures::layered_lake::{Played, pieces_of};
use crate::fixtures::support::engine;
use crate::fixtures::toy_lake::{APART, Author, identity, state};

/// A billionth of the largest possible reward.
const TOLERANCE: f64 = 11e-9;

/// Episodes about three programs among a dozen states. An action may lead to any state, including
/// an earlier one.
fn episodes() -> impl Strategy<Value = Vec<Vec<Played>>> {
    pieces_of(5, 10, 0.2)
}

/// A lake of these episodes, each piece of them sealed and deduplicated on its own. A state's size
/// is its number; the reward `Size` is the decrease of the size in a step, and `SizeNorm` is never
/// negative.
fn record(path: &Path, pieces: &[Vec<Played>]) -> Lake {
    let lake = Lake::create(path, &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let mut author = Author::default();
    let mut ordinal = 0;
    for piece in pieces {
        for (first, path) in piece {
            author.episode(EpisodeId::new(RunId(1), ordinal), *first, path);
            ordinal += 1;
        }
        let mut rows = author.take();
        let mut before = 0.0;
        let sizes: BTreeMap<_, f64> =
            (0..12).map(|number| (state(number), f64::from(number))).collect();
        for step in &mut rows.steps {
            let Some(size) = step.state.and_then(|state| sizes.get(&state)) else { continue };
            if let Some(rewards) = &mut step.rewards {
                rewards[0] = before - size;
                rewards[1] = *size;
            }
            before = *size;
        }
        writer.append(&rows).unwrap();
        writer.seal().unwrap();
        dedup(&mut lake.maintenance().unwrap(), APART, &mut to_the_end).unwrap();
    }
    drop(writer);
    lake
}

/// The rows of a batch as texts.
fn shown(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns = batch.columns().iter();
    let columns: Vec<_> =
        columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect();
    (0..batch.num_rows()).map(row).collect()
}

async fn try_ask(engine: &Engine, sql: &str) -> Result<Vec<Vec<String>>, QueryError> {
    let batches = engine.sql(sql).await?.try_collect::<Vec<_>>().await?;
    Ok(batches.iter().flat_map(shown).collect())
}

async fn ask(engine: &Engine, sql: &str) -> Vec<Vec<String>> {
    try_ask(engine, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// A transition, by the names of its states.
#[derive(Debug, Clone)]
struct Edge {
    from: String,
    action: i32,
    to: String,
    rewards: [f64; 2],
}

/// The model: the transitions as lists.
#[derive(Debug)]
struct Model {
    edges: Vec<Edge>,
    starts: Vec<(String, String)>,
    /// States in which an action failed.
    failing: Vec<String>,
    sizes: BTreeMap<String, i64>,
}

/// The shortest sequence to each state, and the first of several.
type Ways = BTreeMap<String, Vec<i32>>;

impl Model {
    async fn of(engine: &Engine) -> Self {
        let edges = ask(
            engine,
            "SELECT state_id, action, next_state_id, \"reward_Size\", \"reward_SizeNorm\" FROM state_transitions",
        );
        let edges = edges.await.into_iter().map(|row| Edge {
            from: row[0].clone(),
            action: row[1].parse().unwrap(),
            to: row[2].clone(),
            rewards: [row[3].parse().unwrap(), row[4].parse().unwrap()],
        });
        let starts =
            ask(engine, "SELECT benchmark_uri, initial_state_id FROM benchmarks ORDER BY 1");
        let starts = starts.await.into_iter().map(|row| (row[0].clone(), row[1].clone()));
        let sizes = ask(engine, "SELECT state_id, \"Size\" FROM observations").await;
        let sizes = sizes.into_iter().map(|row| (row[0].clone(), row[1].parse().unwrap()));
        let failing = ask(engine, "SELECT state_id FROM failures").await.concat();
        Self { edges: edges.collect(), starts: starts.collect(), failing, sizes: sizes.collect() }
    }

    /// All states of the graph.
    fn states(&self) -> std::collections::BTreeSet<String> {
        let ends = self.edges.iter().flat_map(|edge| [&edge.from, &edge.to]);
        let starts = self.starts.iter().map(|(_, state)| state);
        ends.chain(starts).chain(&self.failing).cloned().collect()
    }

    /// Improves sequences until none can be improved.
    fn ways(&self, from: &str) -> Ways {
        let mut ways = Ways::from([(from.to_owned(), Vec::new())]);
        loop {
            let mut changed = false;
            for edge in &self.edges {
                let Some(way) = ways.get(&edge.from) else { continue };
                let longer = [way.as_slice(), &[edge.action]].concat();
                let better = ways
                    .get(&edge.to)
                    .is_none_or(|known| (longer.len(), &longer) < (known.len(), known));
                if better {
                    ways.insert(edge.to.clone(), longer);
                    changed = true;
                }
            }
            if !changed {
                return ways;
            }
        }
    }

    /// The values after a number of rounds of improvement.
    fn values(&self, reward: usize, gamma: f64, rounds: usize) -> BTreeMap<String, f64> {
        let states: Vec<String> = self.states().into_iter().collect();
        let at = |state: &String| states.binary_search(state).unwrap();
        let edges = self.edges.iter();
        let edges: Vec<(usize, usize, f64)> =
            edges.map(|edge| (at(&edge.from), at(&edge.to), edge.rewards[reward])).collect();
        let mut values = vec![0.0_f64; states.len()];
        for _ in 0..rounds {
            for &(from, to, reward) in &edges {
                values[from] = values[from].max(reward + gamma * values[to]);
            }
        }
        states.into_iter().zip(values).collect()
    }
}

fn actions(list: &[i32]) -> String {
    format!("{list:?}")
}

async fn assert_ways(engine: &Engine, model: &Model) {
    let mut expected = Vec::new();
    for (name, start) in &model.starts {
        let ways = model.ways(start);
        for (state, way) in &ways {
            expected.push(vec![name.clone(), state.clone(), way.len().to_string(), actions(way)]);
        }
        let near = ways.iter().filter(|(_, way)| way.len() <= 2);
        let near: Vec<Vec<String>> =
            near.map(|(state, way)| vec![state.clone(), way.len().to_string()]).collect();
        let sql = format!("SELECT hex(state_id), steps FROM reachable('{start}', 2) ORDER BY 1");
        assert_eq!(ask(engine, &sql).await, near);
    }
    let mut found =
        ask(engine, "SELECT benchmark_uri, hex(state_id), steps, actions FROM sequences()").await;
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    for state in model.states() {
        let to = |row: &&Vec<String>| row[1] == state;
        let expected: Vec<Vec<String>> = expected
            .iter()
            .filter(to)
            .map(|row| vec![row[0].clone(), row[2].clone(), row[3].clone()])
            .collect();
        let sql = format!("SELECT * FROM sequence_to('{state}') ORDER BY benchmark_uri");
        assert_eq!(ask(engine, &sql).await, expected, "to {state}");
        let start = &model.starts[0].1;
        let way = model.ways(start).get(&state).cloned();
        let sql =
            format!("SELECT action FROM shortest_path('{start}', '{state}') ORDER BY step_index");
        let steps: Vec<String> = ask(engine, &sql).await.concat();
        let wanted = way.map(|way| way.iter().map(i32::to_string).collect::<Vec<_>>());
        assert_eq!(steps.get(1..).map(<[String]>::to_vec), wanted, "{start} to {state}");
    }
}

async fn assert_best(engine: &Engine, model: &Model) {
    let mut expected = Vec::new();
    for state in model.states() {
        let ways = model.ways(&state);
        let size = |state: &String| model.sizes[state];
        let (best, way) = ways
            .iter()
            .min_by_key(|(state, way)| (size(state), way.len(), (*way).clone()))
            .unwrap();
        let (cost, lowest) = (size(&state), size(best));
        let row = [cost.to_string(), lowest.to_string(), way.len().to_string(), actions(way)];
        expected.push([vec![state], row.to_vec(), vec![best.clone()]].concat());
    }
    let sql = "SELECT hex(state_id), cost, best_cost, steps, actions, hex(best_state_id) \
               FROM best_cost('Size') ORDER BY 1";
    assert_eq!(ask(engine, sql).await, expected);
    // If rewards are differences of the cost, the best value is the largest possible saving.
    let sql = "SELECT hex(state_id), CAST(value AS BIGINT), steps, actions, hex(best_state_id) \
               FROM best_known('Size') ORDER BY 1";
    let saved = |row: &Vec<String>| -> Vec<String> {
        let [cost, lowest] = [1, 2].map(|at: usize| row[at].parse::<i64>().unwrap());
        [vec![row[0].clone(), (cost - lowest).to_string()], row[3..].to_vec()].concat()
    };
    assert_eq!(ask(engine, sql).await, expected.iter().map(saved).collect::<Vec<_>>());
    for row in &expected {
        let sql = format!(
            "SELECT hex(state_id), cost, best_cost, steps, actions, hex(best_state_id) \
             FROM best_cost('Size') WHERE state_id = '{}'",
            row[0]
        );
        assert_eq!(ask(engine, &sql).await, std::slice::from_ref(row));
    }
}

/// Values and advantages at a discount. After four thousand rounds, the remaining improvements are
/// below the tolerance, even if a cycle pays.
async fn assert_discounted(engine: &Engine, model: &Model, gamma: f64) {
    for (reward, space) in ["Size", "SizeNorm"].into_iter().enumerate() {
        let values = model.values(reward, gamma, 4000);
        let sql = format!("SELECT hex(state_id), value FROM best_known('{space}', {gamma})");
        let found = ask(engine, &sql).await;
        assert_eq!(found.len(), values.len());
        for row in found {
            let value: f64 = row[1].parse().unwrap();
            let wanted = values[&row[0]];
            assert!((value - wanted).abs() < TOLERANCE, "{space} {gamma} {row:?} {wanted}");
        }
        let sql = format!(
            "SELECT hex(state_id), action, q, best_value, advantage FROM advantage('{space}', {gamma})"
        );
        let found = ask(engine, &sql).await;
        assert_eq!(found.len(), model.edges.len());
        for row in found {
            let [q, best, advantage] = [2, 3, 4].map(|at: usize| row[at].parse::<f64>().unwrap());
            let is_it = |edge: &&Edge| edge.from == row[0] && edge.action.to_string() == row[1];
            let edge = model.edges.iter().find(is_it).unwrap();
            let worth = edge.rewards[reward] + gamma * values[&edge.to];
            assert!((q - worth).abs() < TOLERANCE);
            assert!((best - values[&edge.from]).abs() < TOLERANCE);
            assert!((advantage - (q - best)).abs() < TOLERANCE && advantage < TOLERANCE);
        }
    }
}

async fn assert_values(engine: &Engine, model: &Model) {
    for gamma in [0.0, 0.75, 0.99] {
        assert_discounted(engine, model, gamma).await;
    }
    // Without a discount, the second space has no best total if there is a cycle.
    let few = model.values(1, 1.0, 400);
    let is_bounded = few == model.values(1, 1.0, 401);
    match try_ask(engine, "SELECT hex(state_id), value FROM best_known('SizeNorm')").await {
        Ok(rows) => {
            assert!(is_bounded);
            assert!(
                rows.iter().all(|row| (row[1].parse::<f64>().unwrap() - few[&row[0]]).abs() < 1e-9)
            );
        }
        Err(error) => assert!(!is_bounded && error.to_string().contains("pays each time")),
    }
}

/// Each law, computed in SQL.
const LAWS: &str = "WITH t AS (SELECT *, next_state_id <> state_id AS changes FROM state_transitions) \
    SELECT 'idempotent' AS law, a.action, NULL AS other, count(*), \
      sum(CASE WHEN b.next_state_id = a.next_state_id THEN 1 ELSE 0 END) \
    FROM t AS a JOIN t AS b ON b.state_id = a.next_state_id AND b.action = a.action \
    WHERE a.changes GROUP BY a.action \
    UNION ALL SELECT 'inverse', a.action, b.action, count(*), \
      sum(CASE WHEN b.next_state_id = a.state_id THEN 1 ELSE 0 END) \
    FROM t AS a JOIN t AS b ON b.state_id = a.next_state_id AND b.action <> a.action \
    WHERE a.changes GROUP BY a.action, b.action \
    UNION ALL SELECT 'absorbed', a.action, b.action, count(*), \
      sum(CASE WHEN b.next_state_id = c.next_state_id THEN 1 ELSE 0 END) \
    FROM t AS a JOIN t AS b ON b.state_id = a.next_state_id AND b.action <> a.action \
    JOIN t AS c ON c.state_id = a.state_id AND c.action = b.action \
    WHERE a.changes GROUP BY a.action, b.action \
    UNION ALL SELECT 'commuting', a.action, b.action, count(*), \
      sum(CASE WHEN b.next_state_id = d.next_state_id THEN 1 ELSE 0 END) \
    FROM t AS a JOIN t AS b ON b.state_id = a.next_state_id AND b.action > a.action \
    JOIN t AS c ON c.state_id = a.state_id AND c.action = b.action \
    JOIN t AS d ON d.state_id = c.next_state_id AND d.action = a.action \
    WHERE a.changes AND c.changes GROUP BY a.action, b.action \
    UNION ALL SELECT 'equal', a.action, b.action, count(*), \
      sum(CASE WHEN a.next_state_id = b.next_state_id THEN 1 ELSE 0 END) \
    FROM t AS a JOIN t AS b ON b.state_id = a.state_id AND b.action > a.action \
    WHERE a.changes OR b.changes GROUP BY a.action, b.action \
    UNION ALL SELECT 'dominated', a.action, b.action, count(*), \
      sum(CASE WHEN a.\"reward_Size\" <= b.\"reward_Size\" THEN 1 ELSE 0 END) \
    FROM t AS a JOIN t AS b ON b.state_id = a.state_id AND b.action <> a.action \
    WHERE a.changes OR b.changes GROUP BY a.action, b.action ORDER BY 1, 2, 3";

/// The frontier with all actions of each state, computed in SQL.
const FRONTIER: &str = "WITH tried AS (\
      SELECT state_id, action FROM state_transitions UNION SELECT state_id, action FROM failures), \
    every AS (SELECT state_id FROM state_transitions UNION SELECT next_state_id FROM state_transitions \
      UNION SELECT state_id FROM failures UNION SELECT initial_state_id FROM benchmarks), \
    promises AS (SELECT action, avg(\"reward_Size\") AS promise, count(*) AS support \
      FROM state_transitions GROUP BY action) \
    SELECT hex(e.state_id), a.action, p.promise, coalesce(p.support, 0) AS support \
    FROM every AS e CROSS JOIN actions AS a LEFT JOIN promises AS p ON p.action = a.action \
    LEFT JOIN tried AS t ON t.state_id = e.state_id AND t.action = a.action \
    WHERE t.action IS NULL ORDER BY 1, 2";

/// Returns of three steps, and to the end of the episode, computed in SQL.
const RETURNS: &str = "SELECT a.episode_id, a.step_index, CAST(round(1000 * sum(CASE \
      WHEN b.step_index < a.step_index + 3 THEN coalesce(b.\"reward_Size\", 0.0) \
        * power(0.5, b.step_index - a.step_index) ELSE 0 END)) AS BIGINT), \
    CAST(round(1000 * sum(coalesce(b.\"reward_Size\", 0.0))) AS BIGINT) \
    FROM steps AS a JOIN steps AS b ON b.episode_id = a.episode_id AND b.step_index >= a.step_index \
    WHERE a.action IS NOT NULL GROUP BY a.episode_id, a.step_index ORDER BY 1, 2";

async fn assert_as_sql_has_it(engine: &Engine) {
    let laws = "SELECT law, action, other, support, holds FROM algebra('Size') ORDER BY 1, 2, 3";
    assert_eq!(ask(engine, laws).await, ask(engine, LAWS).await);
    let frontier =
        "SELECT hex(state_id), action, promise, support FROM frontier('Size', 100) ORDER BY 1, 2";
    let (found, expected) = (ask(engine, frontier).await, ask(engine, FRONTIER).await);
    assert_eq!(found.len(), expected.len());
    for (one, other) in found.iter().zip(&expected) {
        assert_eq!([&one[..2], &one[3..]], [&other[..2], &other[3..]]);
        let [mean, known] = [one, other].map(|row| row[2].parse::<f64>().ok());
        assert!(mean.is_some() == known.is_some());
        assert!(mean.zip(known).is_none_or(|(mean, known)| (mean - known).abs() < 1e-9));
    }
    let returns = "SELECT n.episode_id, n.step_index, CAST(round(1000 * n.\"return\") AS BIGINT), \
                   CAST(round(1000 * a.\"return\") AS BIGINT) \
                   FROM returns('Size', 3, 0.5) AS n JOIN returns('Size') AS a \
                   ON a.episode_id = n.episode_id AND a.step_index = n.step_index ORDER BY 1, 2";
    assert_eq!(ask(engine, returns).await, ask(engine, RETURNS).await);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_graph_answers_as_its_models_do(pieces in episodes()) {
        let folder = tempfile::tempdir().unwrap();
        let lake = record(&folder.path().join("lake"), &pieces);
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let engine = engine(&lake).await;
            let model = Model::of(&engine).await;
            assert_ways(&engine, &model).await;
            assert_best(&engine, &model).await;
            assert_values(&engine, &model).await;
            assert_as_sql_has_it(&engine).await;
        });
    }
}
