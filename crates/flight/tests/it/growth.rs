//! A lake that grows while it is served.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use futures::TryStreamExt as _;

use crate::served::{lake, record, record_hot};
use crate::support::{Client, Server, number, refusal};

const STEPS: &str = "SELECT count(*) FROM steps";

#[tokio::test]
async fn a_statement_sees_what_is_there_when_it_is_asked() {
    let (_folder, lake) = lake();
    let (server, pinned) = (Server::start(&lake, &[]), Server::start(&lake, &["--snapshot", "2"]));
    let (mut client, mut at_two) = (server.client().await, pinned.client().await);
    let before = number(&mut client, STEPS).await;
    assert_eq!(number(&mut at_two, STEPS).await, before);

    // Every row occurs many times, so that the reader lags while the lake grows.
    let many = "SELECT s.* FROM steps s CROSS JOIN generate_series(1, 3000)";
    let info = client.execute(many.to_owned(), None).await.unwrap();
    let mut slow = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let first = slow.try_next().await.unwrap().unwrap();
    let mut prepared = client.prepare(STEPS.to_owned(), None).await.unwrap();

    record_hot(&lake, 8);
    let mut other = server.client().await;
    let hot = number(&mut other, STEPS).await;
    assert!(hot > before, "{hot} steps after {before}");
    record(&lake, 9);
    let sealed = number(&mut other, STEPS).await;
    assert!(sealed > hot, "{sealed} steps after {hot}");
    assert_eq!(number(&mut at_two, STEPS).await, before);

    let rest: Vec<RecordBatch> = slow.try_collect().await.unwrap();
    let rows = first.num_rows() + rest.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(i64::try_from(rows).unwrap(), before * 3000);
    let info = prepared.execute().await.unwrap();
    let found = crate::support::fetch(&mut client, info).await.unwrap();
    assert_eq!(crate::served::rows(&found), [sealed.to_string()]);
}

/// What a client is told beside the columns of an answer: before it comes, and with it.
async fn told(client: &mut Client, sql: &str) -> [HashMap<String, String>; 2] {
    let info = client.execute(sql.to_owned(), None).await.unwrap();
    let announced = info.clone().try_decode_schema().unwrap().metadata;
    let found = crate::support::fetch(client, info).await.unwrap();
    [announced, found[0].schema().metadata.clone()]
}

#[tokio::test]
async fn a_client_is_told_what_derived_tables_do_not_count() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let lag = "SELECT uncounted_steps FROM lake";
    let derived = [
        "SELECT count(*) FROM state_transitions",
        "SELECT count(*) FROM steps WHERE state_id IN (SELECT state_id FROM conflicts)",
        "SELECT count(*) FROM best_sequences('Cost')",
        "WITH f AS (SELECT * FROM failures) SELECT count(*) FROM f",
    ];
    let others = [
        STEPS,
        lag,
        "SELECT count(*) FROM transitions_taken",
        "SELECT 1",
        "SELECT count(*) FROM returns('Cost')",
    ];
    assert_eq!(number(&mut client, lag).await, 0);
    for sql in derived.iter().chain(&others) {
        assert!(told(&mut client, sql).await.iter().all(HashMap::is_empty), "{sql}");
    }
    record_hot(&lake, 8);
    let missing = number(&mut client, lag).await;
    assert!(missing > 0);
    for sql in derived {
        for metadata in told(&mut client, sql).await {
            assert_eq!(metadata["steplake.uncounted_steps"], missing.to_string(), "{sql}");
            let warning = &metadata["steplake.warning"];
            assert!(
                warning.contains(&format!("{missing} are newer than the last dedup")),
                "{warning}"
            );
        }
    }
    for sql in others {
        assert!(told(&mut client, sql).await.iter().all(HashMap::is_empty), "{sql}");
    }
    let prepared = client.prepare(derived[0].to_owned(), None).await.unwrap();
    assert!(prepared.dataset_schema().unwrap().metadata.contains_key("steplake.warning"));
    record(&lake, 9);
    assert_eq!(number(&mut client, lag).await, 0);
    assert!(told(&mut client, derived[0]).await.iter().all(HashMap::is_empty));
}

#[tokio::test]
async fn a_graph_is_not_made_again_for_hot_rows() {
    const WAYS: &str = "SELECT count(*) FROM sequences()";
    let (_folder, lake) = lake();
    // How much a graph takes while it is made. Where there is little more, there is no room for
    // another one beside it.
    let poor = Server::start(&lake, &["--graph-memory", "1KiB"]);
    let refused = refusal(&mut poor.client().await, WAYS).await;
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    let (_, said) = refused.message().split_once("while it is made, takes ").unwrap();
    let bytes: usize = said.split(' ').next().unwrap().parse().unwrap();
    let server = Server::start(&lake, &["--graph-memory", &format!("{}KiB", bytes / 1024 + 1)]);
    let mut client = server.client().await;
    let many = "SELECT s.*, value FROM sequences() s CROSS JOIN generate_series(1, 100000)";
    let info = client.execute(many.to_owned(), None).await.unwrap();
    let mut slow = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    assert!(slow.try_next().await.unwrap().is_some());
    let mut other = server.client().await;
    let (ways, steps) = (number(&mut other, WAYS).await, number(&mut other, STEPS).await);
    for seed in [8, 9] {
        record_hot(&lake, seed);
        assert!(number(&mut other, STEPS).await > steps, "the new rows are seen");
        assert_eq!(number(&mut other, WAYS).await, ways);
    }
    assert!(slow.try_next().await.unwrap().is_some(), "the first reader is still there");
}

#[tokio::test]
async fn health_says_when_the_lake_is_gone() {
    let (folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    assert!(server.get("/health").0.contains("200 OK"));
    std::fs::rename(&lake, folder.path().join("moved")).unwrap();
    let (line, body) = server.get("/health");
    assert!(line.contains("503"), "{line}");
    // The message does not say where the lake was: everybody may ask.
    assert_eq!(body, "{\"status\":\"failing\",\"why\":\"the lake is missing\"}\n");
    std::fs::rename(folder.path().join("moved"), &lake).unwrap();
    assert!(server.get("/health").0.contains("200 OK"));
}
