//! Readers that pause do not hold a thread that another query needs.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt as _;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Lake, to_the_end};
use steplake::model::{EpisodeId, RunId};
use steplake::query::{Answer, Engine, EngineOptions, STACK_BYTES};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::fixtures::support::renderer;
use crate::fixtures::toy_lake::{Author, identity};

/// Threads for work that blocks.
const BLOCKING_THREADS: usize = 4;

/// Concurrent queries.
const QUERIES: usize = 4 * BLOCKING_THREADS;

/// Transitions of the lake: more than the buffers for readers hold.
const TRANSITIONS: usize = 80_000;

fn few_threads() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).max_blocking_threads(BLOCKING_THREADS);
    builder.thread_stack_size(STACK_BYTES).enable_all().build().unwrap()
}

/// A lake of one long chain of transitions, and a second layer with a few of them.
fn record(path: &Path) -> Lake {
    let lake = Lake::create(path, &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let mut author = Author::default();
    let apart = DedupOptions { one_layer_rows_max: 0, tier: 0, ..DedupOptions::default() };
    for (ordinal, transitions) in [(0, TRANSITIONS), (1, 10)] {
        let to = 1..=u32::try_from(transitions).unwrap();
        let path: Vec<_> = to.map(|to| (1, Some(to))).collect();
        author.episode(EpisodeId::new(RunId(1), ordinal), 0, &path);
        writer.append(&author.take()).unwrap();
        writer.seal().unwrap();
        dedup(&mut lake.maintenance().unwrap(), apart, &mut to_the_end).unwrap();
    }
    assert_eq!(lake.snapshot().unwrap().layers().len(), 2);
    lake
}

async fn engine(lake: &Lake, threads: usize) -> Arc<Engine> {
    let options = EngineOptions { threads: NonZeroUsize::new(threads), ..EngineOptions::default() };
    Arc::new(Engine::new(lake.snapshot().unwrap(), renderer(), &options).await.unwrap())
}

async fn rows(answer: Answer) -> usize {
    let batches: Vec<_> = answer.try_collect().await.unwrap();
    batches.iter().map(arrow::array::RecordBatch::num_rows).sum()
}

async fn ask(engine: &Engine, sql: &str) -> usize {
    rows(engine.sql(sql).await.unwrap()).await
}

/// Reads the first rows of every query, then answers others completely, then reads the rest.
async fn read_slowly(engine: &Engine, queries: &[(&str, usize)]) {
    let mut slow = Vec::new();
    for (sql, wanted) in queries.iter().cycle().take(QUERIES) {
        let mut answer = engine.sql(sql).await.unwrap();
        let first = answer.try_next().await.unwrap().unwrap().num_rows();
        slow.push((sql, first, answer, *wanted));
    }
    assert_eq!(ask(engine, "SELECT episode_id FROM episodes").await, 2);
    for (sql, wanted) in queries {
        assert_eq!(ask(engine, sql).await, *wanted, "{sql}");
    }
    for (sql, first, answer, wanted) in slow {
        assert_eq!(first + rows(answer).await, wanted, "{sql}");
    }
}

#[test]
fn readers_of_layers_that_do_not_read_hold_no_thread() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record(&folder.path().join("lake"));
    few_threads().block_on(async {
        for threads in [1, 4] {
            let engine = engine(&lake, threads).await;
            let all = ("SELECT * FROM state_transitions", TRANSITIONS);
            read_slowly(&engine, &[all]).await;
        }
    });
}

#[test]
fn readers_of_graph_functions_that_do_not_read_hold_no_thread() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record(&folder.path().join("lake"));
    few_threads().block_on(async {
        let engine = engine(&lake, 4).await;
        let steps = TRANSITIONS + 10;
        let many = vec!["SELECT * FROM returns('Size')"; 2 * QUERIES].join(" UNION ALL ");
        read_slowly(
            &engine,
            &[
                ("SELECT * FROM returns('Size')", steps),
                ("SELECT state_id, steps FROM sequences()", TRANSITIONS + 1),
                ("SELECT state_id, cost FROM best_cost('Size')", TRANSITIONS + 1),
                ("SELECT state_id, value FROM best_known('Size', 0.5)", TRANSITIONS + 1),
                ("SELECT * FROM advantage('Size', 0.5)", TRANSITIONS),
                ("SELECT * FROM frontier('Size')", TRANSITIONS + 1),
                (many.as_str(), 2 * QUERIES * steps),
            ],
        )
        .await;
    });
}

#[test]
fn joins_of_layers_wait_for_no_thread_that_waits_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record(&folder.path().join("lake"));
    few_threads().block_on(async {
        for threads in [1, 4] {
            let engine = engine(&lake, threads).await;
            let mut joins = JoinSet::new();
            let layers = "SELECT a.state_id FROM state_transitions AS a \
                          JOIN state_transitions AS b ON a.next_state_id = b.state_id \
                          JOIN state_transitions AS c ON b.next_state_id = c.state_id";
            let files = "SELECT o.state_id FROM observations AS o \
                         JOIN state_transitions AS t ON o.state_id = t.state_id";
            for number in 0..QUERIES {
                let (sql, wanted) =
                    if number % 2 == 0 { (layers, TRANSITIONS - 2) } else { (files, TRANSITIONS) };
                let engine = Arc::clone(&engine);
                joins.spawn(async move { (ask(&engine, sql).await, wanted) });
            }
            while let Some(joined) = joins.join_next().await {
                let (found, wanted) = joined.unwrap();
                assert_eq!(found, wanted);
            }
        }
    });
}
