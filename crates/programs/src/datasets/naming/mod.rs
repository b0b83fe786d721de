//! What users write for benchmarks: patterns and paths, and the URIs that
//! these stand for.

pub(super) mod among;
pub(super) mod named;
pub(super) mod pattern;
