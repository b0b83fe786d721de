//! How many files and connections a program may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Lets this process have as many open as its user may ask for. The number that most systems begin
/// with is made for programs that open few. Where it cannot be raised, it stays what it is.
pub fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, most)| {
        setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
        Ok(most)
    });
    match raised {
        Ok(most) => tracing::debug!(most, "files and connections may be open"),
        Err(error) => tracing::debug!(%error, "the limit on open files stays"),
    }
}
