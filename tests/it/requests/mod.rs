//! What other programs call in place of commands: the same work, with results as data.

mod program_under_test;
mod runs;
mod sessions;
mod verification;

use std::path::Path;

use steplake::environments::Environments;

/// Returns environments whose workers execute the binary: a test cannot serve as one.
fn environments() -> Environments {
    Environments::with_worker_program(Path::new(env!("CARGO_BIN_EXE_steplake"))).unwrap()
}
