//! A lake that grows while it is served.

use arrow::array::RecordBatch;
use futures::TryStreamExt as _;

use crate::support::{Server, lake, number, record, record_hot};

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
    assert_eq!(crate::support::rows(&found), [sealed.to_string()]);
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
    assert_eq!(body, "{\"status\":\"failing\",\"why\":\"the lake is not there\"}\n");
    std::fs::rename(folder.path().join("moved"), &lake).unwrap();
    assert!(server.get("/health").0.contains("200 OK"));
}
