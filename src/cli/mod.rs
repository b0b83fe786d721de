//! The binary's commands.

use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["worker", environment, flight, memory] => {
            let environment = crate::env::open(environment).expect("the supervisor knows it");
            let stdin = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned();
            let stream = UnixStream::from(stdin.expect("a worker has a standard input"));
            let memory = memory.parse().expect("the supervisor says how much memory");
            let served =
                crate::env::worker::serve(environment.as_ref(), stream, flight.as_ref(), memory);
            if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        _ => ExitCode::FAILURE,
    }
}
