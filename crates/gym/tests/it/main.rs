//! Sessions as clients of the wire see them, and services as `steplake` plays in them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod cache_server;
mod gym_server;

#[path = "../../../server/tests/fixtures/encrypted.rs"]
mod encrypted;
#[path = "../../../../tests/it/fixtures/programs.rs"]
mod programs;
#[path = "../../../server/tests/fixtures/served.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod served;

mod access;
mod cache;
mod cache_killed;
mod client;
mod hostile;
mod refusals;
mod sessions;
