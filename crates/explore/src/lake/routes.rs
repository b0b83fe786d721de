//! The calls by their addresses.

use axum::Router;
use axum::routing::{get, post};

use super::reader::LakeReader;
use super::{best, graph, paths, progress, questions, states};

/// The calls.
pub(crate) fn routes(lake: LakeReader) -> Router {
    Router::new()
        .route("/api/lake/benchmarks", get(best::benchmarks))
        .route("/api/lake/best", get(best::best))
        .route("/api/lake/frontier", get(best::frontier))
        .route("/api/lake/states/{id}", get(states::state))
        .route("/api/lake/states/{id}/neighbours", get(states::neighbours))
        .route("/api/lake/states/{id}/path", get(paths::path))
        .route("/api/lake/states/{id}/ir", get(states::ir))
        .route("/api/lake/diff", get(states::diff))
        .route("/api/lake/diff/text", get(states::diff_text))
        .route("/api/lake/graph", get(graph::graph))
        .route("/api/lake/queries", get(questions::list))
        .route("/api/lake/query", post(questions::query))
        .route("/api/lake/progress", get(progress::progress))
        .with_state(lake)
}
