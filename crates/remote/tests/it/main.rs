//! Publishing and fetching on stores in memory and with faults.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod contexts;
mod credentials;
mod delta_tables;
mod fetching;
mod gc;
mod new_bytes;
mod publishing;
mod races;
mod recorders;
mod resuming;
mod support;

#[path = "../../../../tests/it/fixtures/programs.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod programs;
