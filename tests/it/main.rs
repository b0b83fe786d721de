//! The integration tests, in one binary: a crate is linked once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod cli;
mod datasets;
mod dedup;
mod env;
mod execution;
mod fixtures;
mod lake;
mod load;
mod query;
mod record;
mod requests;
mod replay;
mod semantics;
