//! The integration tests, one binary.
#![allow(clippy::unwrap_used)]

mod query;
mod small_lake;
mod sql;
