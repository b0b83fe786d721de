//! Threads with enough stack to plan statements.

use tokio::runtime::{Builder, Runtime};

use crate::Error;
use crate::query::STACK_BYTES;

/// Runs `work` on a thread with enough stack: the stack of the first thread depends on the user's
/// limits.
///
/// # Errors
///
/// Those of `work`, or if the system grants no thread.
pub fn on_deep_stack<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, work)?.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Creates the runtime of a program that plans and answers statements.
///
/// # Errors
///
/// If the system grants no threads.
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()
}
