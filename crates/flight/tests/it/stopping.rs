//! How the server ends.

use arrow::array::RecordBatch;
use futures::TryStreamExt as _;
use nix::sys::signal::Signal;
use tonic::Code;

use crate::served::lake;
use crate::support::{Server, number, status};

const LARGE: &str = "SELECT value, 'a text that makes rows wide' FROM generate_series(1, 4000000)";

#[tokio::test]
async fn a_signal_ends_it_well() {
    let (_folder, lake) = lake();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::start(&lake, &[]);
        let mut client = server.client().await;
        assert_eq!(number(&mut client, "SELECT 1").await, 1);
        server.signal(signal);
        drop(client);
        assert_eq!(server.ended().code(), Some(0), "{signal}");
    }
}

#[tokio::test]
async fn running_queries_have_time_to_end() {
    let (_folder, lake) = lake();
    let mut server = Server::start(&lake, &["--grace", "10m"]);
    let mut client = server.client().await;
    let info = client.execute(LARGE.to_owned(), None).await.unwrap();
    let mut reading = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let first = reading.try_next().await.unwrap().unwrap();
    server.signal(Signal::SIGTERM);
    let rest: Vec<RecordBatch> = reading.try_collect().await.unwrap();
    let rows = first.num_rows() + rest.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows, 4_000_000);
    drop(client);
    assert_eq!(server.ended().code(), Some(0));
}

#[tokio::test]
async fn what_does_not_end_is_ended() {
    let (_folder, lake) = lake();
    let mut server = Server::start(&lake, &["--grace", "100ms"]);
    let mut client = server.client().await;
    let endless = "SELECT count(*) FROM generate_series(1, 900000000000000)";
    let info = client.execute(endless.to_owned(), None).await.unwrap();
    let mut waiting = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    server.until("steplake_queries_running", 1).await;
    server.signal(Signal::SIGTERM);
    let refused = status(waiting.try_next().await.unwrap_err());
    assert_eq!(refused.code(), Code::Unavailable, "{}", refused.message());
    drop((waiting, client));
    assert_eq!(server.ended().code(), Some(0));
}
