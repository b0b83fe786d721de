//! `/health` and `/metrics` over HTTP, for monitoring.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use steplake_server::Queries;

/// Serves until dropped.
///
/// # Errors
///
/// If the listener fails.
pub(crate) async fn serve(listener: TcpListener, queries: Queries) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .with_state(queries);
    axum::serve(listener, routes).await
}

/// Reports whether the lake can be read: 200 and the number of its newest snapshot, or 503 and the
/// reason.
async fn health(State(queries): State<Queries>) -> impl IntoResponse {
    let (code, text) = match queries.health() {
        Ok(snapshot) => (
            StatusCode::OK,
            format!(
                "{{\"status\":\"ok\",\"snapshot\":{snapshot},\"queries\":{}}}\n",
                queries.running()
            ),
        ),
        // The reasons are fixed texts of this program: they need no escaping, and reveal nothing of
        // the lake.
        Err(why) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{{\"status\":\"failing\",\"why\":\"{why}\"}}\n"),
        ),
    };
    (code, [(header::CONTENT_TYPE, "application/json")], text)
}

/// Returns the counters in the text format of Prometheus.
async fn metrics(State(queries): State<Queries>) -> impl IntoResponse {
    let counters = queries.counters();
    let mut text = String::new();
    let mut line = |name: &str, kind: &str, about: &str, value: u64| {
        let name = format!("steplake_{name}");
        let _ = writeln!(text, "# HELP {name} {about}\n# TYPE {name} {kind}\n{name} {value}");
    };
    let total = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    line("queries_running", "gauge", "Queries that run.", queries.running() as u64);
    line("queries_total", "counter", "Queries that were begun.", total(&counters.begun));
    line("queries_failed_total", "counter", "Queries that failed.", total(&counters.failed));
    let about = "Queries whose reader left before the end.";
    line("queries_left_total", "counter", about, total(&counters.left));
    line("rows_total", "counter", "Rows of answers.", total(&counters.rows));
    line("bytes_total", "counter", "Bytes of answers.", total(&counters.bytes));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}
