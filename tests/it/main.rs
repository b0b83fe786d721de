//! The integration tests, as one binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod dedup;
mod query;
mod small_lake;
mod sql;
mod store;
mod store_faults;
mod toy_lake;
