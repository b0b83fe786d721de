//! Limits of a query, and readers that are slow or leave.

use arrow::array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use futures::TryStreamExt as _;
use tonic::Code;

use crate::served::{lake, rows};
use crate::support::{Client, Server, ask, fetch, number, refusal, status};

/// An answer larger than all buffers on the way.
const LARGE: &str = "SELECT value, 'a text that makes rows wide' FROM generate_series(1, 4000000)";
const LARGE_ROWS: usize = 4_000_000;

/// A query that does not end while anybody waits, and returns no row before.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 900000000000000)";

/// Begins to fetch an answer.
async fn begin(client: &mut Client, sql: &str) -> FlightRecordBatchStream {
    let info = client.execute(sql.to_owned(), None).await.unwrap();
    client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap()
}

#[tokio::test]
async fn time_is_limited() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &["--query-timeout", "3s"]);
    let mut client = server.client().await;
    let refused = refusal(&mut client, ENDLESS).await;
    assert_eq!(refused.code(), Code::DeadlineExceeded);
    assert!(refused.message().contains("longer than 3s"), "{}", refused.message());
    server.until("steplake_queries_running", 0).await;
    assert_eq!(server.metric("steplake_queries_failed_total"), 1);
    // The limit includes the time of the reader.
    let mut slow = begin(&mut client, LARGE).await;
    assert!(slow.try_next().await.unwrap().is_some());
    server.until("steplake_queries_running", 0).await;
    let rest: Result<Vec<RecordBatch>, _> = slow.try_collect().await;
    assert_eq!(status(rest.unwrap_err()).code(), Code::DeadlineExceeded);
}

/// An answer that fits completely into what waits for a reader.
const SMALL: &str = "SELECT repeat('x', 1000) FROM generate_series(1, 8000)";

#[tokio::test]
async fn an_answer_that_nobody_reads_has_a_place_and_a_time() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &["--query-timeout", "5s", "--queries", "1"]);
    let mut client = server.client().await;
    let unread = begin(&mut client, SMALL).await;
    // The answer is completely computed, and occupies memory.
    server.until("steplake_rows_total", 8000).await;
    let refused = refusal(&mut server.client().await, "SELECT 1").await;
    assert_eq!(refused.code(), Code::ResourceExhausted, "{}", refused.message());
    server.until("steplake_queries_running", 0).await;
    let rest: Result<Vec<RecordBatch>, _> = unread.try_collect().await;
    assert_eq!(status(rest.unwrap_err()).code(), Code::DeadlineExceeded);
    assert_eq!(number(&mut client, "SELECT 1").await, 1);
}

#[tokio::test]
async fn a_statement_that_nests_without_end_is_refused_and_nobody_else_is_hurt() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let (mut client, mut other) = (server.client().await, server.client().await);
    let mut waiting = other.prepare("SELECT 7".to_owned(), None).await.unwrap();
    for (first, more) in [("SELECT 1", " + 1"), ("SELECT step_index", " + step_index")] {
        let sum = |terms: usize| format!("{first}{} FROM steps LIMIT 1", more.repeat(terms - 1));
        let found = ask(&mut client, &sum(300)).await.unwrap();
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
        for terms in [5000, 100_000] {
            let refused = refusal(&mut client, &sum(terms)).await;
            assert_eq!(refused.code(), Code::InvalidArgument);
            let said = refused.message();
            assert!(said.contains("nested too deeply"), "{said}");
        }
    }
    let ors =
        format!("SELECT count(*) FROM steps WHERE action = 0{}", " OR action = 1".repeat(999));
    assert!(ask(&mut client, &ors).await.is_ok());
    let info = waiting.execute().await.unwrap();
    assert_eq!(rows(&fetch(&mut other, info).await.unwrap()), ["7"]);
}

#[tokio::test]
async fn a_value_without_end_is_refused() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let before = server.resident_bytes();
    for (sql, function) in [
        ("SELECT range(1, 2000000000)", "range"),
        ("SELECT repeat('x', 2000000000)", "repeat"),
        ("SELECT array_repeat(step_index, 1000000) FROM steps", "array_repeat"),
    ] {
        let refused = refusal(&mut client, sql).await;
        assert_eq!(refused.code(), Code::ResourceExhausted, "{}", refused.message());
        let said = refused.message();
        assert!(said.contains(&format!("{function}() would make ")), "{said}");
    }
    let held = server.resident_bytes().saturating_sub(before);
    assert!(held < 256 << 20, "{held} bytes are held for values that are refused");
}

#[tokio::test]
async fn rows_are_limited_and_never_cut() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &["--query-rows", "100"]);
    let mut client = server.client().await;
    let hundred = ask(&mut client, "SELECT * FROM generate_series(1, 100)").await.unwrap();
    assert_eq!(hundred.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
    let refused = refusal(&mut client, "SELECT * FROM generate_series(1, 101)").await;
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("more than 100 rows"), "{}", refused.message());
}

#[tokio::test]
async fn memory_is_limited_for_each_query() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &["--query-memory", "8MiB"]);
    let mut client = server.client().await;
    let large = "SELECT count(*) FROM generate_series(1, 2000000) a JOIN generate_series(1, 2000000) b \
                 ON a.value = b.value + 1";
    let refused = refusal(&mut client, large).await;
    assert_eq!(refused.code(), Code::ResourceExhausted, "{}", refused.message());
    assert!(refused.message().contains("more memory than it may have"), "{}", refused.message());
    // Sorted data goes to temporary files, and the next query has all its memory again.
    let sorted =
        "SELECT count(*) FROM (SELECT value FROM generate_series(1, 300000) ORDER BY value DESC)";
    assert_eq!(number(&mut client, sorted).await, 300_000);
}

#[tokio::test]
async fn so_many_queries_run_at_once_and_no_more() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &["--queries", "1"]);
    let mut client = server.client().await;
    let mut slow = begin(&mut client, LARGE).await;
    assert!(slow.try_next().await.unwrap().is_some());
    let mut other = server.client().await;
    let refused = refusal(&mut other, "SELECT 1").await;
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("ask again later"), "{}", refused.message());
    drop(slow);
    server.until("steplake_queries_running", 0).await;
    assert_eq!(number(&mut other, "SELECT 1").await, 1);
}

#[tokio::test]
async fn a_query_ends_when_its_reader_leaves() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let waiting = begin(&mut client, ENDLESS).await;
    let mut reading = begin(&mut client, LARGE).await;
    assert!(reading.try_next().await.unwrap().is_some());
    server.until("steplake_queries_running", 2).await;
    drop((waiting, reading));
    server.until("steplake_queries_running", 0).await;
    assert_eq!(server.metric("steplake_queries_left_total"), 2);
}

#[tokio::test]
async fn a_slow_reader_holds_back_its_own_stream_alone() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    assert_eq!(number(&mut client, "SELECT 1").await, 1);
    let before = server.resident_bytes();
    let mut slow = begin(&mut client, LARGE).await;
    let first = slow.try_next().await.unwrap().unwrap();
    let mut other = server.client().await;
    for _ in 0..20 {
        assert_eq!(number(&mut other, "SELECT count(*) FROM generate_series(1, 1000)").await, 1000);
    }
    // Meanwhile the answer of the slow reader was not computed to wait in memory.
    let held = server.resident_bytes().saturating_sub(before);
    let sent = server.metric("steplake_rows_total");
    assert!(sent < LARGE_ROWS as u64, "all {sent} rows were worked out");
    assert!(held < 100 << 20, "{held} bytes are held for a reader that does not read");
    let rest: Vec<RecordBatch> = slow.try_collect().await.unwrap();
    let rows = first.num_rows() + rest.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows, LARGE_ROWS);
}

#[tokio::test]
async fn health_is_told_however_much_is_computed() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let mut heavy = Vec::new();
    for _ in 0..6 {
        heavy.push(begin(&mut client, ENDLESS).await);
    }
    server.until("steplake_queries_running", 6).await;
    let (line, body) = server.get("/health");
    assert!(line.contains("200 OK"), "{line}");
    assert!(body.contains("\"status\":\"ok\"") && body.contains("\"queries\":6"), "{body}");
    let mut other = server.client().await;
    assert_eq!(number(&mut other, "SELECT 1").await, 1);
}
