//! Tests of the code for GPUs.

mod nvrtc;
mod on_cpu;
mod schedules;
