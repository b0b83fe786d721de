//! Queries over segments whose key ranges overlap or do not.

use std::num::NonZeroUsize;
use std::path::Path;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt as _;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Lake, to_the_end};
use steplake::model::{EpisodeId, RunId};
use steplake::query::{Engine, EngineOptions};

use crate::fixtures::support::renderer;
use crate::fixtures::toy_lake::{Author, identity};

/// A lake with the episodes of each list in a segment of its own.
fn record(path: &Path, segments: &[&[u32]]) -> Lake {
    let lake = Lake::create(path, &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let mut author = Author::default();
    for segment in segments {
        for &ordinal in *segment {
            let path = (0..20).map(|at| ((at % 5), Some((ordinal * ordinal + 3 * at) % 40)));
            let path = path.collect::<Vec<_>>();
            author.episode(EpisodeId::new(RunId(1), ordinal), ordinal % 4, &path);
        }
        writer.append(&author.take()).unwrap();
        writer.seal().unwrap();
    }
    drop(writer);
    dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end).unwrap();
    lake
}

async fn engine(lake: &Lake, threads: usize) -> Engine {
    let options = EngineOptions { threads: NonZeroUsize::new(threads), ..EngineOptions::default() };
    Engine::new(lake.snapshot().unwrap(), renderer(), &options).await.unwrap()
}

async fn ask(engine: &Engine, sql: &str) -> Vec<String> {
    let options = FormatOptions::default();
    let mut lines = Vec::new();
    for batch in engine.sql(sql).await.unwrap().try_collect::<Vec<_>>().await.unwrap() {
        let columns = batch.columns().iter();
        let columns = columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns = columns.collect::<Vec<_>>();
        lines.extend((0..batch.num_rows()).map(|row| {
            let values = columns.iter().map(|column| column.value(row).to_string());
            values.collect::<Vec<_>>().join(" ")
        }));
    }
    lines
}

/// Queries that group or sort by episode.
const QUESTIONS: [&str; 4] = [
    "SELECT episode_id, count(*), count(DISTINCT state_key) FROM steps GROUP BY episode_id ORDER BY 1",
    "SELECT episode_id, sum(CASE WHEN changed THEN 1 ELSE 0 END) FROM transitions_taken \
     GROUP BY episode_id ORDER BY 1",
    "SELECT e.ordinal, max(s.step_index) FROM steps AS s JOIN episodes AS e ON e.episode_id = s.episode_id \
     GROUP BY e.ordinal ORDER BY 1",
    "SELECT episode_id, step_index, state_key FROM steps ORDER BY episode_id, step_index",
];

#[tokio::test]
async fn the_answers_do_not_depend_on_how_segments_lie() {
    let folder = tempfile::tempdir().unwrap();
    let in_order = record(&folder.path().join("a"), &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]]);
    let mixed = record(&folder.path().join("b"), &[&[1, 6], &[0, 3], &[4, 7], &[2, 5]]);
    for question in QUESTIONS {
        let expected = ask(&engine(&mixed, 1).await, question).await;
        assert!(expected.len() >= 8, "{expected:?}");
        for threads in 1..=5 {
            let found = ask(&engine(&in_order, threads).await, question).await;
            assert_eq!(found, expected, "{threads} threads: {question}");
            let found = ask(&engine(&mixed, threads).await, question).await;
            assert_eq!(found, expected, "{threads} threads, out of order: {question}");
        }
    }
}

#[tokio::test]
async fn episodes_in_order_are_neither_sorted_nor_brought_together_again() {
    let folder = tempfile::tempdir().unwrap();
    let in_order = record(&folder.path().join("a"), &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]]);
    let mixed = record(&folder.path().join("b"), &[&[1, 6], &[0, 3], &[4, 7], &[2, 5]]);
    let window =
        "EXPLAIN SELECT lag(action) OVER (PARTITION BY episode_id ORDER BY step_index) FROM steps";
    let group = "EXPLAIN SELECT episode_id, state_key, count(*) FROM steps GROUP BY 1, 2";
    for question in [window, group] {
        let plan = ask(&engine(&in_order, 2).await, question).await.join("\n");
        assert!(!plan.contains("RepartitionExec") && !plan.contains("SortExec"), "{plan}");
        let plan = ask(&engine(&mixed, 2).await, question).await.join("\n");
        assert!(plan.contains("MergedScan") && !plan.contains("RepartitionExec"), "{plan}");
        // A merged scan is in the order of episodes, and not of steps.
        assert_eq!(plan.contains("SortExec"), question == window, "{plan}");
    }
}

/// A lake whose state transitions have a layer for each list, many of the same states in each.
fn in_layers(path: &Path, layers: &[&[u32]]) -> Lake {
    let lake = record(path, &[]);
    let apart = DedupOptions { one_layer_rows_max: 0, tier: 0, lag: 0, ..DedupOptions::default() };
    let mut author = Author::default();
    for layer in layers {
        let mut writer = lake.writer().unwrap();
        for &ordinal in *layer {
            let path = (0..20).map(|at| ((at % 5), Some((ordinal * ordinal + 3 * at) % 40)));
            let path = path.collect::<Vec<_>>();
            author.episode(EpisodeId::new(RunId(1), ordinal), ordinal % 4, &path);
        }
        writer.append(&author.take()).unwrap();
        writer.seal().unwrap();
        drop(writer);
        dedup(&mut lake.maintenance().unwrap(), apart, &mut to_the_end).unwrap();
    }
    lake
}

fn divide_small_files(engine: &Engine) {
    let state = engine.context().state_ref();
    let mut state = state.write();
    state.config_mut().options_mut().optimizer.repartition_file_min_size = 0;
}

#[tokio::test]
async fn layers_are_merged_by_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let lake = in_layers(&folder.path().join("a"), &[&[0, 1], &[2, 3], &[4, 5], &[6]]);
    let whole = record(&folder.path().join("b"), &[&[0, 1], &[2, 3], &[4, 5], &[6]]);
    let questions = [
        "SELECT state_key, count(*), sum(count) FROM state_transitions GROUP BY 1 ORDER BY 1",
        "SELECT t.action, count(*), sum(t.count * m.total) FROM state_transitions AS t JOIN \
         (SELECT state_key, sum(count) AS total FROM state_transitions GROUP BY 1) AS m \
         ON m.state_key = t.state_key GROUP BY 1 ORDER BY 1",
        "SELECT state_key, action, next_state_key FROM state_transitions ORDER BY 1, 2",
        "SELECT state_key, action FROM state_transitions WHERE action > 2 ORDER BY 1, 2",
        "SELECT a.state_key, count(*) FROM state_transitions AS a JOIN state_transitions AS b \
         ON b.state_key = a.next_state_key GROUP BY 1 ORDER BY 1",
        "SELECT state_key FROM state_transitions ORDER BY 1 LIMIT 7",
        "SELECT state_key, count(*) FROM observations GROUP BY 1 ORDER BY 1",
    ];
    for question in questions {
        let expected = ask(&engine(&whole, 1).await, question).await;
        assert!(expected.len() >= 5, "{expected:?}");
        for threads in 1..=4 {
            let options = EngineOptions {
                threads: NonZeroUsize::new(threads),
                batch_rows: Some(NonZeroUsize::MIN),
                ..EngineOptions::default()
            };
            let engine = Engine::new(lake.snapshot().unwrap(), renderer(), &options).await.unwrap();
            // DataFusion divides large files of many batches among its threads.
            divide_small_files(&engine);
            let found = ask(&engine, question).await;
            assert_eq!(found, expected, "{threads} threads: {question}");
            let plan = ask(&engine, &format!("EXPLAIN {question}")).await.join("\n");
            let merged = plan.split_once("MergedScan").map_or("", |(_, scans)| scans);
            assert_eq!(
                merged.matches("file_groups={1 group").count(),
                merged.matches("file_groups").count()
            );
        }
    }
    // A look-up reads the row groups with its state, and of these the live rows.
    let counted = engine(&lake, 2).await;
    let keys = ask(&counted, "SELECT DISTINCT state_key FROM state_transitions ORDER BY 1").await;
    assert!(keys.len() > 20, "{keys:?}");
    let engine_of_whole = engine(&whole, 2).await;
    for key in keys {
        let question = format!(
            "SELECT action, next_state_key, count FROM state_transitions WHERE state_key = {key} ORDER BY 1"
        );
        assert_eq!(ask(&counted, &question).await, ask(&engine_of_whole, &question).await);
    }
    for question in &questions[..2] {
        let question = format!("EXPLAIN {question}");
        let plan = ask(&engine(&lake, 1).await, &question).await.join("\n");
        assert!(plan.contains("MergedScan") && plan.contains("scans=4"), "{plan}");
        assert!(plan.contains("ordering_mode=Sorted"), "{plan}");
    }
}

#[tokio::test]
async fn a_look_up_opens_the_segment_that_has_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record(&folder.path().join("lake"), &[&[0], &[1], &[2], &[3], &[4], &[5]]);
    let engine = engine(&lake, 1).await;
    let states = ask(&engine, "SELECT hex(state_id) FROM observations ORDER BY 1").await;
    assert!(states.len() > 20, "{states:?}");
    let mut opened = 0;
    for state in &states {
        let look_up = format!("FROM observations WHERE state_id = '{state}'");
        assert_eq!(ask(&engine, &format!("SELECT count(*) {look_up}")).await, ["1"], "{state}");
        let plan = ask(&engine, &format!("EXPLAIN SELECT * {look_up}")).await.join("\n");
        opened += plan.matches(".parquet").count();
    }
    // At one of a hundred, a filter is wrong.
    assert!((states.len()..states.len() + states.len() / 4).contains(&opened), "{opened}");
    let list = states.iter().map(|state| format!("'{state}'")).collect::<Vec<_>>().join(", ");
    let all = format!("SELECT count(*) FROM observations WHERE state_id IN ({list})");
    assert_eq!(ask(&engine, &all).await, [states.len().to_string()]);
    let missing = "SELECT count(*) FROM observations WHERE state_id = \
                   '0123456789abcdef0123456789abcdef01234567'";
    assert_eq!(ask(&engine, missing).await, ["0"]);
}
