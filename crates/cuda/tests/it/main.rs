//! Tests of the code for GPUs.

mod on_cpu;
mod schedules;
