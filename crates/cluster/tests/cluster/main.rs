//! A scheduler and two executors, as processes of their own, against the engine in one process.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod answers;
mod lakes;
mod losses;
mod processes;

#[path = "../../../../tests/it/fixtures/programs.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod programs;
// What goes into lakes: the same as in steplake's own tests.
#[path = "../../../../tests/it/fixtures/small_lake.rs"]
mod small_lake;
#[path = "../../../../tests/it/fixtures/toy_lake.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod toy_lake;
