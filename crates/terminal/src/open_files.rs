//! The limit on open files and connections.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises this process's limit on open files as far as its user may. Most systems start with a
/// limit meant for programs that open few files. If raising fails, the limit stays.
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
