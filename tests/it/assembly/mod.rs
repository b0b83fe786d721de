//! What other programs call in place of commands: the same work, with results as data.

mod program_under_test;
mod runs;
mod sessions;
mod verification;

use std::path::Path;
use std::sync::Once;

use steplake::assembly::worker_program::set_program;

/// Has workers execute the binary: a test cannot serve as one.
fn use_workers() {
    static PROGRAM: Once = Once::new();
    PROGRAM.call_once(|| set_program(Path::new(env!("CARGO_BIN_EXE_steplake"))).unwrap());
}
