//! Thirty-two clients for a minute, while the lake grows and readers leave: no errors, and no more
//! memory at the end than in the middle.
//!
//! `STEPLAKE_BENCH_SECONDS` sets another time, `STEPLAKE_BENCH_CLIENTS` another number.

#[path = "../tests/it/support.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
#[expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]
mod support;
#[path = "../../../tests/it/fixtures/programs.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
#[expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]
mod programs;
#[path = "../../server/tests/fixtures/served.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
#[expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]
mod served;

use std::io::Write as _;
use std::time::{Duration, Instant};

use served::{lake, record_hot};
use support::{Server, leave, load};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let seconds = setting("STEPLAKE_BENCH_SECONDS", 60);
    let clients = usize::try_from(setting("STEPLAKE_BENCH_CLIENTS", 32)).expect("few clients");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("threads start").block_on(run(Duration::from_secs(seconds), clients));
}

async fn run(time: Duration, clients: usize) {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let round = vec![4; clients];
    let mib = |bytes: u64| bytes >> 20;
    let start = server.resident_bytes();
    // After this, everything that is kept for later exists.
    load(&server, &round).await;
    let (begun, asked) = (Instant::now(), server.metric("steplake_queries_total"));
    let mut middle = None;
    let mut runs = 0;
    while begun.elapsed() < time {
        // The lake grows and some readers leave, while the others ask.
        let (_, ()) = tokio::join!(leave(&server, 2), load(&server, &round));
        if runs < 20 {
            runs += 1;
            record_hot(&lake, 100 + runs);
        }
        if begun.elapsed() > time / 2 {
            middle.get_or_insert_with(|| server.resident_bytes());
        }
    }
    let (end, elapsed) = (server.resident_bytes(), begun.elapsed());
    let middle = middle.unwrap_or(end);
    let queries = server.metric("steplake_queries_total") - asked;
    let failed = server.metric("steplake_queries_failed_total");
    let said = format!(
        "{clients} clients, {elapsed:.0?}: {queries} queries ({}/s), {failed} failed; resident MiB: {} at the \
         start, {} in the middle, {} at the end\n",
        queries / elapsed.as_secs().max(1),
        mib(start),
        mib(middle),
        mib(end)
    );
    std::io::stdout().write_all(said.as_bytes()).expect("somebody reads it");
    assert_eq!(failed, 0, "a query failed");
    assert!(end < middle + middle / 4 + (32 << 20), "memory grows");
}
