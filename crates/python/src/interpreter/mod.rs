//! What a Python process asks of the library: errors, signals, threads, forks.

pub(crate) mod errors;
pub(crate) mod of_process;
pub(crate) mod progress;
pub(crate) mod runtime;
