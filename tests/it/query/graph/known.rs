//! Small graphs with known answers.

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use steplake::dedup::dedup;
use steplake::lake::{Lake, Table, to_the_end};
use steplake::model::{EpisodeId, RunId};
use steplake::query::Engine;

use super::{APART, Played, ask, record, shown, try_ask};
use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::engine;
use crate::fixtures::support::{err, run, steplake};
use crate::fixtures::toy_lake::{Author, Taken, identity, read, state, uri};

#[tokio::test]
async fn what_a_cycle_pays_for_ever_has_a_value_at_any_discount() {
    let folder = tempfile::tempdir().unwrap();
    // A cycle of three states, a path into it, and a state with a paying edge to itself.
    let circle = vec![(2, Some(1)), (0, Some(4)), (0, Some(7)), (0, Some(1)), (3, Some(0))];
    let lake = record(&folder.path().join("lake"), &[vec![(2, circle), (3, vec![(1, Some(3))])]]);
    let engine = engine(&lake).await;
    for gamma in [0.0, 0.5, 0.99, 0.999_999, 0.999_999_999_999] {
        let sql =
            format!("SELECT hex(state_id), value, steps FROM best_known('SizeNorm', {gamma})");
        let rows: BTreeMap<String, (f64, String)> = ask(&engine, &sql)
            .await
            .into_iter()
            .map(|row| (row[0].clone(), (row[1].parse().unwrap(), row[2].clone())))
            .collect();
        let once = 4.0 + gamma * (7.0 + gamma);
        let cycle = once / ((1.0 - gamma) * (1.0 + gamma + gamma * gamma));
        let into = 1.0 + gamma * cycle;
        for (number, wanted) in [(1, cycle), (2, into), (3, 3.0 / (1.0 - gamma)), (0, 0.0)] {
            let (value, steps) = &rows[&state(number).to_string()];
            assert!((value - wanted).abs() <= 1e-12 * wanted, "{number} {gamma} {value} {wanted}");
            // A path that earns for ever has no end.
            assert_eq!(steps == "NULL", wanted > 0.0, "{number} {gamma} {steps}");
        }
    }
    let error = try_ask(&engine, "SELECT * FROM best_known('SizeNorm')").await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("pays each time") && error.contains("scaled program by program"),
        "{error}"
    );
}

#[tokio::test]
async fn a_retracted_action_leads_nowhere_and_is_not_proposed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    let lake =
        record(&path, &[vec![(9, vec![(1, Some(5)), (2, Some(3))]), (9, vec![(2, Some(4))])]]);
    let reached = format!("SELECT count(*) FROM reachable('{}')", state(9));
    assert_eq!(ask(&engine(&lake).await, &reached).await, [["4"]]);
    let proposed = "SELECT count(*) FROM frontier('Size', 100) WHERE action = 2";
    assert_eq!(ask(&engine(&lake).await, proposed).await, [["2"]]);
    let mut maintenance = lake.maintenance().unwrap();
    maintenance.retract_action("a2", "a test").unwrap();
    let error = try_ask(&engine(&lake).await, &reached).await.unwrap_err();
    assert!(error.to_string().contains("not counted yet"), "{error}");
    dedup(&mut maintenance, APART, &mut to_the_end).unwrap();
    assert_eq!(ask(&engine(&lake).await, &reached).await, [["2"]]);
    assert_eq!(ask(&engine(&lake).await, proposed).await, [["0"]]);
}

#[tokio::test]
async fn a_state_is_fanned_out_when_every_action_was_tried_or_failed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    let leads = |action: u32| match action {
        7 => None,
        6 => Some(9),
        other => Some(other),
    };
    let played = (0..8).map(|action| (9, vec![(action, leads(action)), (0, Some(1))]));
    let played = played.map(|(first, mut path): (u32, Vec<Taken>)| {
        path.truncate(if path[0].1.is_none() { 1 } else { 2 });
        (first, path)
    });
    let lake = record(&path, &[played.collect()]);
    let engine = engine(&lake).await;
    let rows =
        engine.named("full_fan_out", &[]).await.unwrap().try_collect::<Vec<_>>().await.unwrap();
    let shown = arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string();
    let row = format!("| {} | 8       | 6        | 1       |", state(9));
    assert!(shown.contains(&row) && shown.lines().count() == 5, "{shown}");
}

/// Adds an episode to a lake, neither sealed nor counted.
pub(super) fn add(lake: &Lake, ordinal: u32, first: u32, path: &[Taken]) {
    let rows = read(lake);
    let known = rows.observations.iter().map(|row| row.state).collect();
    let has = |number: &u32| rows.benchmarks.iter().any(|row| row.uri == uri(*number));
    let benchmarks = (0..12).filter(has).collect();
    let mut author = Author { known, benchmarks, ..Author::default() };
    author.episode(EpisodeId::new(RunId(1), ordinal), first, path);
    lake.writer().unwrap().append(&author.take()).unwrap();
}

#[tokio::test]
async fn steps_without_transitions_are_no_empty_graph() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let sql = "SELECT * FROM sequences()";
    assert!(ask(&engine(&lake).await, sql).await.is_empty(), "nothing is known of an empty lake");
    let mut author = Author::default();
    author.reset(EpisodeId::new(RunId(1), 0), 1);
    author.steps(EpisodeId::new(RunId(1), 0), 1, 1, &[(1, Some(2))]);
    lake.writer().unwrap().append(&author.take()).unwrap();
    assert!(lake.snapshot().unwrap().rows(Table::Steps) > 0);
    let engine_now = engine(&lake).await;
    assert_eq!(ask(&engine_now, sql).await.len(), 1, "an open episode is not counted yet");
    assert!(ask(&engine_now, "SELECT * FROM state_transitions").await.is_empty());
    add(&lake, 1, 1, &[(1, Some(2))]);
    let engine = engine(&lake).await;
    for sql in [sql, "SELECT * FROM state_transitions"] {
        let error = try_ask(&engine, sql).await.unwrap_err();
        assert!(error.to_string().contains("not counted yet"), "{error}");
    }
    assert_eq!(ask(&engine, "SELECT * FROM returns('Size')").await.len(), 2);
}

#[test]
fn a_graph_that_lacks_newer_steps_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    let lake = record(&path, &[vec![(9, vec![(1, Some(5))])]]);
    let asked = |sql: &str| {
        let output = steplake(&path).args(["sql", sql]).output_in_time();
        assert!(output.status.success(), "{sql}");
        err(&output)
    };
    let sql = "SELECT count(*) FROM sequences() AS a JOIN state_transitions AS b ON a.state_id = b.state_id";
    assert_eq!(asked(sql), "");
    add(&lake, 7, 9, &[(1, Some(5)), (2, Some(4))]);
    let said = asked(sql);
    assert!(said.contains("does not count all steps: 2 are newer than the last dedup"), "{said}");
    assert_eq!(said.lines().count(), 1, "it is said once: {said}");
    assert_eq!(asked("SELECT count(*) FROM returns('Size')"), "", "these are all there");
}

#[test]
fn costs_and_rewards_that_no_run_recorded_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    let generate = |space: &str, seed: &str| {
        let program = "generator://toy-v0/1";
        let arguments = ["generate", "--benchmark", program, "--observe", space, "--steps", "40"];
        run(&path, &[&arguments[..], &["--env", "toy-v0", "--seed", seed]].concat());
        run(&path, &["dedup"]);
    };
    let asked = |sql: &str| {
        let output = steplake(&path).args(["sql", sql]).output_in_time();
        assert!(output.status.success(), "{sql}: {}", err(&output));
        err(&output)
    };
    generate("Cost", "1");
    let costs = "SELECT * FROM best_sequences('Cost')";
    let values = "SELECT * FROM best_known('Cost', 0.9)";
    assert_eq!([asked(costs), asked(values)], ["", ""]);
    generate("Bits", "2");
    let said =
        asked(&format!("{costs} AS a JOIN best_sequences('Cost') AS b USING (benchmark_uri)"));
    assert!(said.contains(" states have no cost `Cost`: "), "{said}");
    assert!(said.contains("a backfill of Cost"), "{said}");
    assert_eq!(said.lines().count(), 1, "it is said once: {said}");
    run(&path, &["backfill", "--space", "Cost"]);
    run(&path, &["dedup"]);
    assert_eq!(asked(costs), "");
}

async fn named(engine: &Engine, name: &str) -> Vec<Vec<String>> {
    let rows = engine.named(name, &[]).await.unwrap().try_collect::<Vec<_>>().await.unwrap();
    rows.iter().flat_map(shown).collect()
}

/// From 9, action 1 leads twice to 5 and once to 3, which a longer path reaches too; from 8 it
/// leads once to 2, which no other path reaches. Action 4 stays at 7 twice, and leads away once.
fn conflicting() -> Vec<Vec<Played>> {
    vec![vec![
        (9, vec![(1, Some(5))]),
        (9, vec![(1, Some(5))]),
        (9, vec![(1, Some(3))]),
        (9, vec![(2, Some(6)), (2, Some(3))]),
        (8, vec![(1, Some(4))]),
        (8, vec![(1, Some(4))]),
        (8, vec![(0, Some(8)), (1, Some(2))]),
        (7, vec![(4, Some(7))]),
        (7, vec![(4, Some(7))]),
        (7, vec![(4, Some(1))]),
    ]]
}

#[tokio::test]
async fn episodes_keep_what_the_rarer_result_of_a_conflict_gave_them() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record(&folder.path().join("lake"), &conflicting());
    let engine = engine(&lake).await;
    // The number of the episode, its steps, the steps of the shortest sequence, the steps that it
    // saves, and the sequence.
    let minimised = named(&engine, "minimised").await;
    let row = |ordinal: u32| {
        let id = EpisodeId::new(RunId(1), ordinal).0.to_string();
        let row = minimised.iter().find(|row| row[1] == id).unwrap();
        [&row[2..5], &row[6..7]].concat().join(" ")
    };
    assert_eq!(minimised.len(), 10);
    assert_eq!(row(0), "1 1 0 [1]");
    assert_eq!(row(2), "1 1 0 [1]", "the graph knows a longer way");
    assert_eq!(row(3), "2 2 0 [2, 2]");
    assert_eq!(row(6), "2 2 0 [0, 1]", "the graph knows none");
    assert!(named(&engine, "absorbing").await.is_empty());
    let lost = format!("SELECT * FROM sequence_to('{}')", state(2));
    let error = try_ask(&engine, &lost).await.unwrap_err().to_string();
    assert!(error.contains("neither the rarer results of a conflict"), "{error}");
}

#[tokio::test]
async fn coverage_counts_failed_starts_and_no_retracted_action() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    let lake = record(&path, &[vec![(9, vec![(1, Some(5)), (2, Some(3))])]]);
    let mut author = Author::default();
    author.close(EpisodeId::new(RunId(1), 1), 4, 0, false);
    lake.writer().unwrap().append(&author.take()).unwrap();
    lake.maintenance().unwrap().retract_action("a2", "a test").unwrap();
    let rows = named(&engine(&lake).await, "coverage").await;
    let row = |number: u32, rest: &str| [vec![uri(number).to_string()], words(rest)].concat();
    assert_eq!(rows, [row(4, "1 0 0 0 0 7 NULL"), row(9, "1 2 3 1 1 7 2")]);
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[tokio::test]
async fn each_law_holds_where_it_was_made_to() {
    let folder = tempfile::tempdir().unwrap();
    let played = vec![
        (1, vec![(0, Some(2)), (0, Some(2))]),
        (3, vec![(3, Some(4)), (4, Some(3))]),
        (5, vec![(1, Some(6)), (2, Some(8))]),
        (5, vec![(2, Some(7)), (1, Some(8))]),
        (9, vec![(5, Some(10)), (6, Some(11))]),
        (9, vec![(6, Some(11))]),
        (9, vec![(7, Some(11))]),
    ];
    let lake = record(&folder.path().join("lake"), &[played]);
    let laws = "SELECT * FROM algebra() WHERE holds > 0 ORDER BY law, action, other";
    let wanted = [
        "absorbed 5 6 1 1",
        "commuting 1 2 1 1",
        "equal 6 7 1 1",
        "idempotent 0 NULL 1 1",
        "inverse 3 4 1 1",
        "inverse 4 3 1 1",
    ];
    assert_eq!(ask(&engine(&lake).await, laws).await, wanted.map(words));
}

#[tokio::test]
async fn a_program_of_small_rewards_is_not_measured_by_one_of_large_ones() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let mut author = Author::default();
    author.episode(EpisodeId::new(RunId(1), 0), 1, &[(1, Some(2)), (2, Some(1))]);
    author.episode(EpisodeId::new(RunId(1), 1), 3, &[(1, Some(4))]);
    let mut rows = author.take();
    let rewards = [None, Some(2.5e-5), Some(-2.5e-5), None, Some(-50_000.0)];
    for (step, reward) in rows.steps.iter_mut().zip(rewards) {
        step.rewards = reward.map(|reward| vec![reward, 0.0].into());
    }
    let mut writer = lake.writer().unwrap();
    writer.append(&rows).unwrap();
    writer.seal().unwrap();
    dedup(&mut lake.maintenance().unwrap(), APART, &mut to_the_end).unwrap();
    let sql = format!(
        "SELECT CAST(round(value * 1000000) AS BIGINT), steps, actions FROM best_known('Size') WHERE state_id = '{}'",
        state(1)
    );
    assert_eq!(ask(&engine(&lake).await, &sql).await, [["25", "1", "[1]"]]);
}
