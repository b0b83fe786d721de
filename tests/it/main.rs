//! The integration tests, in one binary: a crate is linked once.
#![expect(clippy::disallowed_methods, reason = "tests start the binary as its users do")]

mod query;
mod small_lake;
mod sql;
mod record;
mod store;
mod support;
mod worker;
