//! A worker process and nothing else: the compilers, without lake and queries.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    steplake_compilers::serve_if_worker().unwrap_or_else(|| {
        let message = "steplake-worker is started by the Python package steplake, as a worker \
                       process; the command-line program is `steplake`";
        let _ = writeln!(std::io::stderr(), "steplake: {message}");
        ExitCode::from(2)
    })
}
