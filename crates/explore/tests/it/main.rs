//! The explorer as a browser sees it: a separate process, asked over HTTP.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod explorer;

#[path = "../../../server/tests/fixtures/encrypted.rs"]
mod encrypted;
#[path = "../../../../tests/it/fixtures/programs.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod programs;
#[path = "../../../server/tests/fixtures/served.rs"]
mod served;

mod access;
mod lake;
mod sessions;
