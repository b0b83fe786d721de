//! The cold start of a worker.

use std::time::{Duration, Instant};

use steplake::env::Environment;
use steplake::env::llvm::{LlvmEnvironment, assemble};
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};

use crate::{heading, line};

const STARTS: usize = 40;

/// Measures from nothing to the first answer of a worker: the process starts, reports that it is
/// ready, sets up LLVM for a session and identifies a state.
fn start(environment: &WorkerEnvironment, state: &[u8]) -> Duration {
    let began = Instant::now();
    let mut session = environment.session().expect("a session without a worker needs nothing");
    session.identify(state).expect("a worker can be started");
    began.elapsed()
}

pub(crate) fn run() {
    heading("Cold start of a worker (median and fastest of 40)");
    let config = WorkerConfig::new(env!("CARGO_BIN_EXE_steplake").into());
    let environment = WorkerEnvironment::new(LlvmEnvironment::new().spec().clone(), config);
    let state = assemble(b"define void @f() { ret void }").expect("it is a module");
    let mut times: Vec<_> = (0..STARTS).map(|_| start(&environment, &state)).collect();
    times.sort();
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    line("start to first answer, median", &ms(times[STARTS / 2]), "15 ms");
    line("start to first answer, fastest", &ms(times[0]), "");
}
