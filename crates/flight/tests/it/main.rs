//! The server as its clients see it: a separate process, asked over the network.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod support;

#[path = "../../../server/tests/fixtures/encrypted.rs"]
#[expect(dead_code, reason = "it speaks no HTTP")]
mod encrypted;
#[path = "../../../../tests/it/fixtures/programs.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod programs;
#[path = "../../../server/tests/fixtures/served.rs"]
mod served;

mod access;
mod answers;
mod growth;
mod limits;
mod load;
mod metadata;
mod prepared;
mod stopping;
