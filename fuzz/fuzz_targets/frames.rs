//! Frames of the hot log, and messages between a worker and its supervisor.
#![no_main]

#[path = "../targets.rs"]
mod targets;

// The lake catches panics of Arrow and Parquet; the fuzzer's own hook would end the process.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| ())),
    |content: &[u8]| targets::frames(content)
);
