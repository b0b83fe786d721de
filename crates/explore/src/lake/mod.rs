//! The calls about the lake.

mod best;
mod exact;
mod graph;
mod paths;
mod progress;
mod questions;
pub(super) mod reader;
pub(super) mod routes;
mod spaces;
mod states;
mod recent_progress;
