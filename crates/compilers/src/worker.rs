//! Worker processes: a program, executed again to hold sessions.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use steplake_env::worker::{COMMAND, serve};

/// Serves as a worker if this process was started as one, else returns `None`. Programs whose
/// workers are themselves, executed again, call this before they parse their arguments.
pub fn serve_if_worker() -> Option<ExitCode> {
    let is_worker = std::env::args_os().nth(1).is_some_and(|argument| argument == COMMAND);
    is_worker.then(|| match serve_standard_input() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The supervisor reads it, and tells its user.
            let _ = writeln!(io::stderr(), "steplake: {error}");
            ExitCode::FAILURE
        }
    })
}

/// The supervisor has made standard input a socket.
fn serve_standard_input() -> io::Result<()> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    serve(|name| crate::open(name).map_err(io::Error::other), stream)
}
