//! The threads on which the library works, and how Python waits for them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use tokio::runtime::Runtime;
use tokio::task::spawn_blocking;

use crate::interpreter::errors::{PendingException, raise};
use crate::interpreter::of_process::OfProcess;
use crate::interpreter::progress::Progress;

/// How often a waiting call looks for signals, and shows its progress.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// How long a fork waits for threads that are doing something.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

/// The runtime of this process: threads do not survive a fork.
///
/// Only a thread that is attached to the interpreter locks it, and forks of Python are made by such
/// a thread. So no other thread holds the lock when a process forks.
static RUNTIME: Mutex<Option<OfProcess<Arc<Runtime>>>> = Mutex::new(None);

/// Returns the runtime of this process.
pub(crate) fn runtime(_attached: Python<'_>) -> PyResult<Arc<Runtime>> {
    let mut kept = RUNTIME.lock();
    if let Some(runtime) = kept.as_ref().and_then(OfProcess::get) {
        return Ok(Arc::clone(runtime));
    }
    let runtime = steplake::runtime::runtime();
    let runtime = runtime.map_err(|error| raise(error.into()))?;
    let runtime = Arc::new(runtime);
    *kept = Some(OfProcess::new(Arc::clone(&runtime)));
    Ok(runtime)
}

/// Ends the idle threads of this process, which is about to fork: they park in a table of all
/// threads that the fork would inherit without them. Threads of a query under way stay.
#[pyfunction]
pub(crate) fn before_fork(_py: Python<'_>) {
    let own = RUNTIME.lock().take();
    let Some(runtime) = own.and_then(OfProcess::take) else { return };
    match Arc::try_unwrap(runtime) {
        Ok(runtime) => runtime.shutdown_timeout(SHUTDOWN_MAX),
        Err(runtime) => {
            let mut kept = RUNTIME.lock();
            *kept = Some(OfProcess::new(runtime));
        }
    }
}

/// Waits for `work`, detached from the interpreter. A signal whose handler raises, such as Ctrl-C,
/// ends the work.
///
/// # Errors
///
/// The work's, or the exception of a signal handler.
pub(crate) fn wait_for<T, E>(
    py: Python<'_>,
    progress: &Progress,
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> PyResult<T>
where
    T: Send + 'static,
    E: Into<PendingException> + Send + 'static,
{
    let runtime = runtime(py)?;
    let mut shown = progress.begin(py);
    // Statements are planned on the runtime's threads, whose stacks are deep enough.
    let mut task = runtime.spawn(work);
    let done = py.detach(|| {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    done = &mut task => return Ok(done),
                    () = tokio::time::sleep(TICK) => {
                        let tick = |py: Python<'_>| {
                            shown.show(py);
                            py.check_signals()
                        };
                        if let Err(raised) = Python::attach(tick) {
                            task.abort();
                            return Err(raised);
                        }
                    }
                }
            }
        })
    });
    shown.end(py);
    match done? {
        Ok(done) => done.map_err(|error| raise(error.into())),
        Err(error) => Err(raise(PendingException::defect(&error))),
    }
}

/// Runs `work` on a thread that may wait. Who stops waiting leaves it to end by itself.
///
/// # Errors
///
/// The work's.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, PendingException>
where
    T: Send + 'static,
    E: Into<PendingException> + Send + 'static,
{
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(Into::into),
        Err(error) => Err(PendingException::defect(&error)),
    }
}

/// Runs `work` on another thread, detached from the interpreter, and calls `stop` when a signal's
/// handler raises. Then waits for the end of the work all the same.
///
/// # Errors
///
/// The work's, or the exception of a signal handler.
pub(crate) fn work_for<T, E>(
    py: Python<'_>,
    progress: &Progress,
    stop: impl Fn() + Send + Sync,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T>
where
    T: Send,
    E: Into<PendingException> + Send,
{
    let mut shown = progress.begin(py);
    let (done, raised) = py.detach(|| {
        std::thread::scope(|scope| {
            let waiting = std::thread::current();
            let worker = std::thread::Builder::new()
                .stack_size(steplake::query::STACK_BYTES)
                .spawn_scoped(scope, move || {
                    let done = work();
                    waiting.unpark();
                    done
                });
            let worker = match worker {
                Ok(worker) => worker,
                Err(error) => return (Err(error.into()), None),
            };
            let mut raised = None;
            while !worker.is_finished() {
                std::thread::park_timeout(TICK);
                let tick = Python::attach(|py| {
                    shown.show(py);
                    py.check_signals()
                });
                if let Err(exception) = tick {
                    stop();
                    raised.get_or_insert(exception);
                }
            }
            let done = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (done.map_err(Into::into), raised)
        })
    });
    shown.end(py);
    match raised {
        Some(raised) => Err(raised),
        None => done.map_err(raise),
    }
}
