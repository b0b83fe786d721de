//! The integration tests, as one binary.

mod query;
mod small_lake;
mod sql;
mod store;
