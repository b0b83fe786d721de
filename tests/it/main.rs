//! The integration tests, as one binary.

mod dedup;
mod query;
mod small_lake;
mod sql;
mod store;
mod store_faults;
mod toy_lake;
