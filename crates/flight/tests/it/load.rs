//! Many concurrent clients. `benches/load.rs` does the same for a minute.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::served::{lake, record, record_hot};
use crate::support::{Server, leave, load};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_clients_see_no_error() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut rounds = vec![12; 32];
    // After a first round, everything that is kept for later exists.
    load(&server, &[4; 32]).await;
    let settled = server.resident_bytes();
    load(&server, &rounds).await;
    rounds.fill(1);
    load(&server, &rounds).await;
    let (asked, failed) =
        (server.metric("steplake_queries_total"), server.metric("steplake_queries_failed_total"));
    assert_eq!((asked, failed), (32 * 17, 0));
    assert_eq!(server.metric("steplake_queries_running"), 0);
    let grown = server.resident_bytes().saturating_sub(settled);
    assert!(grown < 128 << 20, "{grown} bytes more are held than after the first queries");
}

/// Others record, some read a batch and leave, and all the others still see no error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_sees_no_error_while_the_lake_grows_and_readers_leave() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let (growing, ended) = (lake.clone(), std::sync::Arc::new(AtomicBool::new(false)));
    let seen = std::sync::Arc::clone(&ended);
    let recorder = std::thread::spawn(move || {
        let mut runs = 0;
        while runs < 2 || !seen.load(Ordering::Relaxed) && runs < 20 {
            let record = if runs % 2 == 0 { record_hot } else { record };
            record(&growing, 100 + runs);
            runs += 1;
        }
        runs
    });
    let (left, ()) = tokio::join!(leave(&server, 8), load(&server, &[6; 16]));
    ended.store(true, Ordering::Relaxed);
    let runs = recorder.join().unwrap();
    assert!(runs >= 2);
    server.until("steplake_queries_running", 0).await;
    assert_eq!(server.metric("steplake_queries_left_total"), left);
    assert_eq!(server.metric("steplake_queries_failed_total"), 0);
    assert_eq!(server.metric("steplake_queries_total"), 16 * 6 + left);
    // What was recorded meanwhile is there.
    let mut client = server.client().await;
    let counted = crate::support::number(&mut client, "SELECT count(*) FROM runs").await;
    assert_eq!(counted, 1 + runs);
}
