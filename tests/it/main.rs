//! The integration tests, in one binary: a crate is linked once.
#![expect(clippy::disallowed_methods, reason = "tests start the binary as its users do")]

mod record;
mod store;
mod support;
mod worker;
