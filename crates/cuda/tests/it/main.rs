//! Tests of the code for GPUs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod figures;
mod measured;
mod nvrtc;
mod on_cpu;
mod schedules;

#[path = "../../../../tests/it/fixtures/programs.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod programs;
