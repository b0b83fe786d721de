//! The integration tests, as one binary.

mod dedup;
mod store;
mod store_faults;
mod toy_lake;
