//! Many clients at once. `benches/load.rs` is the same for a minute.

use crate::support::{Server, lake, load};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_clients_see_no_error() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut rounds = vec![12; 32];
    // Everything that is kept for later is there after a first round.
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
