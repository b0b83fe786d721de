//! Limits of a single statement: its nesting, the size of its values, and work that outlives it.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::TryStreamExt;
use steplake::query::{Engine, EngineOptions, QueryError, STACK_BYTES, Statement};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::fixtures::programs::{InTime as _, PATIENCE, program};
use crate::fixtures::small_lake::{self, Kept};
use crate::fixtures::support::{engine, renderer};

/// The deepest allowed nesting.
const DEPTH_MAX: usize = 1000;

/// Half of the documented stack must be enough.
fn deep_runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().thread_stack_size(STACK_BYTES / 2).build().unwrap()
}

async fn small_engine(folder: &tempfile::TempDir) -> Engine {
    engine(&small_lake::record(&folder.path().join("lake"), Kept::Sealed)).await
}

async fn rows(engine: &Engine, sql: &str) -> Result<usize, QueryError> {
    let batches: Vec<RecordBatch> = engine.sql(sql).await?.try_collect().await?;
    Ok(batches.iter().map(RecordBatch::num_rows).sum())
}

/// Statements of several shapes, each with this depth.
fn shapes(depth: usize) -> Vec<(&'static str, String)> {
    let chain = |first: &str, more: &str, count: usize| format!("{first}{}", more.repeat(count));
    let mut with = "WITH w0 AS (SELECT 1 AS x)".to_owned();
    for number in 1..depth.div_ceil(2) {
        let from = number - 1;
        write!(with, ", w{number} AS (SELECT x + 1 AS x FROM w{from})").unwrap();
    }
    vec![
        ("columns", chain("SELECT step_index", " + step_index", depth) + " FROM steps"),
        ("ors", chain("SELECT 1 FROM steps WHERE action = 0", " OR action = 1", depth - 1)),
        ("casts", chain("SELECT step_index", "::BIGINT", depth) + " FROM steps"),
        ("tests", chain("SELECT step_index", " IS NULL", depth) + " FROM steps"),
        ("unions", chain("SELECT 1", " UNION ALL SELECT 1", depth)),
        ("with", format!("{with} SELECT x FROM w{}", depth.div_ceil(2) - 1)),
    ]
}

#[test]
fn a_statement_nests_so_deeply_and_no_deeper() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = deep_runtime();
    let asked = runtime.spawn(async move {
        let engine = small_engine(&folder).await;
        for (shape, sql) in shapes(DEPTH_MAX) {
            let found = rows(&engine, &sql).await;
            assert!(found.is_ok(), "{shape}: {found:?}");
        }
        for depth in [DEPTH_MAX + 50, 5000, 100_000] {
            for (shape, sql) in shapes(depth) {
                let error = rows(&engine, &sql).await.unwrap_err();
                assert!(matches!(error, QueryError::Sql { .. }), "{shape}: {error:?}");
                let said = error.to_string();
                assert!(said.contains("nested too deeply"), "{shape} of {depth}: {said}");
            }
        }
        // The parser itself would walk these by recursion.
        for sql in [
            format!("SELECT {}1{}", "(".repeat(50_000), ")".repeat(50_000)),
            format!("{}SELECT 1", "EXPLAIN ".repeat(50_000)),
            format!("SELECT CAST(1 AS {}INT{})", "ARRAY<".repeat(50_000), ">".repeat(50_000)),
            format!("SELECT {}1", "- ".repeat(50_000)),
            format!("SELECT {}1", "NOT ".repeat(50_000)),
            format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(9000), " END".repeat(9000)),
        ] {
            let said = rows(&engine, &sql).await.unwrap_err().to_string();
            assert!(said.contains("nested too deeply"), "{}: {said}", &sql[..60]);
        }
        assert_eq!(rows(&engine, "SELECT 1").await.unwrap(), 1);
    });
    runtime.block_on(asked).unwrap();
}

#[tokio::test]
async fn queries_that_use_one_another_are_not_worked_out_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let engine = small_engine(&folder).await;
    let doubled = |times: usize| {
        let mut text = "WITH w0 AS (SELECT 1 AS x)".to_owned();
        for number in 1..=times {
            let from = number - 1;
            write!(text, ", w{number} AS (SELECT a.x FROM w{from} a JOIN w{from} b ON a.x = b.x)")
                .unwrap();
        }
        format!("{text} SELECT x FROM w{times}")
    };
    assert_eq!(rows(&engine, &doubled(4)).await.unwrap(), 1);
    let error = rows(&engine, &doubled(40)).await.unwrap_err();
    assert!(matches!(error, QueryError::Sql { .. }), "{error:?}");
    assert!(error.to_string().contains("use one another again and again"), "{error}");
}

/// The stack of a program's first thread depends on the user's limits.
#[test]
fn the_command_line_plans_on_a_stack_that_is_large_enough() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    small_lake::record(&lake, Kept::Sealed);
    let sum = format!("SELECT 1{} AS n", " + 1".repeat(DEPTH_MAX));
    let mut shell = program("sh");
    shell.args(["-c", "ulimit -s 1024 && exec \"$0\" --quiet sql --format csv \"$1\""]);
    shell.args([env!("CARGO_BIN_EXE_steplake"), &sum]).env("STEPLAKE_LAKE", &lake);
    let done = shell.output_in_time();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout), format!("n\n{}\n", DEPTH_MAX + 1));
}

/// Constants stand in the names of columns, also while the statement is planned.
#[test]
fn what_constants_make_of_a_statement_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    small_lake::record(&lake, Kept::Sealed);
    let mut text = "repeat('x', 1000000)".to_owned();
    for _ in 0..10 {
        text = format!("concat({text}, {text})");
    }
    let mut shell = program("sh");
    let limited = "ulimit -v 3145728 && exec \"$0\" --quiet sql --memory 1G \"$1\"";
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_steplake")]);
    shell.arg(format!("SELECT length({text}) AS n")).env("STEPLAKE_LAKE", &lake);
    let said = String::from_utf8(shell.output_in_time().stderr).unwrap();
    assert!(said.contains("the query needs more memory than it may have"), "{said}");
}

#[tokio::test]
async fn a_value_without_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = small_engine(&folder).await;
    for (sql, said) in [
        ("SELECT range(1, 2000000000)", "range() would make 16000000"),
        ("SELECT repeat('x', 2000000000)", "repeat() would make 2000000000 bytes"),
        ("SELECT rpad(benchmark_uri, 2000000000) FROM steps", "rpad() would make "),
    ] {
        let error = rows(&engine, sql).await.unwrap_err();
        assert!(matches!(error, QueryError::TooLarge(_)), "{sql}: {error:?}");
        assert!(error.to_string().contains(said), "{sql}: {error}");
    }
    // The table function streams its rows.
    assert_eq!(
        rows(&engine, "SELECT value FROM generate_series(1, 100000)").await.unwrap(),
        100_000
    );
}

#[tokio::test]
async fn a_statement_has_a_bound_on_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let engine = small_engine(&folder).await;
    let list = |items: usize| {
        let items: Vec<String> = (0..items).map(|item| item.to_string()).collect();
        format!("SELECT count(*) FROM steps WHERE action IN ({})", items.join(","))
    };
    assert_eq!(rows(&engine, &list(15_000)).await.unwrap(), 1);
    for (sql, said) in [
        (list(100_000), "the statement has more than 20000 expressions and tables"),
        (format!("SELECT {}", vec!["1"; 20_001].join(",")), "more than 20000 expressions"),
        (format!("VALUES {}", vec!["(1)"; 20_001].join(",")), "more than 20000 expressions"),
        (format!("SELECT '{}'", "x".repeat(2 << 20)), "bytes, and 1048576 may"),
    ] {
        let error = rows(&engine, &sql).await.unwrap_err();
        assert!(matches!(error, QueryError::Sql { .. }), "{error:?}");
        assert!(error.to_string().contains(said), "{error}");
        assert!(error.to_string().contains("in several statements"), "{error}");
    }
}

/// Statements whose values double from one subquery to the next, or are many and large.
fn growing() -> Vec<String> {
    let doubled = |value: &str, first: &str| {
        let from = |inner: String, _| format!("SELECT {value} AS a FROM ({inner})");
        (0..12).fold(format!("SELECT {first} AS a FROM steps"), from)
    };
    let text = "repeat(benchmark_uri, 500)";
    let columns: Vec<String> =
        (0..500).map(|column| format!("repeat('{column:08}', 100000)")).collect();
    vec![
        format!("SELECT length(a) FROM ({})", doubled("concat(a, a)", text)),
        format!("SELECT length(a) FROM ({})", doubled("a || a", text)),
        format!("SELECT length(a) FROM ({})", doubled("encode(a, 'hex')", text)),
        format!("SELECT array_length(a) FROM ({})", doubled("array_concat(a, a)", "range(5000)")),
        format!("SELECT array_length(a) FROM ({})", doubled("[a, a]", "range(5000)")),
        format!("SELECT {}", columns.join(", ")),
        format!("SELECT {} FROM steps", columns.join(", ")),
    ]
}

#[tokio::test]
async fn what_expressions_make_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::Sealed);
    let memory_bytes_max = NonZeroUsize::new(32 << 20);
    let options = EngineOptions { memory_bytes_max, ..EngineOptions::default() };
    let engine = Engine::new(lake.snapshot().unwrap(), renderer(), &options).await.unwrap();
    for sql in growing() {
        let error = rows(&engine, &sql).await.unwrap_err();
        let is_expected = matches!(error, QueryError::Memory(_) | QueryError::TooLarge(_));
        assert!(is_expected, "{}: {error:?}", &sql[..80.min(sql.len())]);
    }
    // What was counted is given back.
    let fits = "SELECT length(concat(repeat(benchmark_uri, 500), 'x')) FROM steps";
    for _ in 0..100 {
        assert!(rows(&engine, fits).await.unwrap() > 0);
    }
}

#[tokio::test]
async fn a_constant_is_repeated_in_few_rows_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let engine = small_engine(&folder).await;
    let sql = "SELECT repeat('x', 1000000) AS text FROM generate_series(1, 500)";
    let batches: Vec<RecordBatch> = engine.sql(sql).await.unwrap().try_collect().await.unwrap();
    let most = batches.iter().map(RecordBatch::get_array_memory_size).max().unwrap();
    assert!(most <= 72 << 20, "{most} bytes in a batch");
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 500);
}

/// Sends a message when it is dropped.
struct Told(Option<oneshot::Sender<()>>);

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(());
        }
    }
}

/// Work that cannot be cancelled. It sends a message when it starts, and runs until it receives
/// one.
#[derive(Debug)]
struct Endless {
    schema: SchemaRef,
    channels: Mutex<Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>>,
}

impl PartitionStream for Endless {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), 1);
        let (begun, let_go) = self.channels.lock().unwrap().take().unwrap();
        stream.spawn_blocking(move || {
            begun.send(()).unwrap();
            let_go.blocking_recv().unwrap();
            drop(context);
            Ok(())
        });
        stream.build()
    }
}

#[tokio::test]
async fn what_is_kept_for_a_statement_is_kept_until_its_work_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let engine = small_engine(&folder).await;
    let ask = |text: &str| {
        let (sender, gone) = oneshot::channel();
        let kept = Some(Arc::new(Told(Some(sender))) as Arc<_>);
        (Statement { text: text.to_owned(), kept, ..Statement::default() }, gone)
    };
    let (statement, gone) = ask("SELECT count(*) FROM steps");
    let answer = engine.ask(&statement).await.unwrap();
    drop((statement, answer));
    timeout(PATIENCE, gone).await.expect("what was kept is gone").unwrap();

    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let ((begun, has_begun), (let_go, is_let_go)) = (oneshot::channel(), oneshot::channel());
    let endless =
        Endless { schema: Arc::clone(&schema), channels: Mutex::new(Some((begun, is_let_go))) };
    let table = StreamingTable::try_new(schema, vec![Arc::new(endless)]).unwrap();
    engine.context().register_table("endless", Arc::new(table)).unwrap();
    let (statement, mut gone) = ask("SELECT n FROM endless");
    let answer = engine.ask(&statement).await.unwrap();
    timeout(PATIENCE, has_begun).await.expect("the work has begun").unwrap();
    drop((statement, answer));
    assert!(gone.try_recv().is_err(), "it is gone, and the work goes on");
    let_go.send(()).unwrap();
    timeout(PATIENCE, gone).await.expect("what was kept is gone").unwrap();
}
