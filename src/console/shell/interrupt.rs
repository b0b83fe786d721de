//! Ctrl-C while a question is being answered.

use std::io;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinError, JoinHandle};

/// Waits for the end of `task` or, if `is_shell`, for Ctrl-C. In that case aborts the task, waits
/// `stop_wait` at most for it to stop, and returns nothing.
///
/// The wait has a runtime of its own: functions that take long, as `ir()` does, may hold all
/// threads of the other one, and none of them would notice a signal.
///
/// # Errors
///
/// If the system grants no runtime, or no signals.
pub(super) fn ended<T>(
    task: JoinHandle<T>,
    is_shell: bool,
    stop_wait: Duration,
) -> io::Result<Option<Result<T, JoinError>>> {
    let waiting = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    waiting.block_on(async {
        if !is_shell {
            // The signal ends the process, unless it was started with Ctrl-C ignored.
            return Ok(Some(task.await));
        }
        let mut interrupts = signal(SignalKind::interrupt())?;
        match select(task, std::pin::pin!(interrupts.recv())).await {
            Either::Left((outcome, _)) => Ok(Some(outcome)),
            Either::Right((_, task)) => {
                task.abort();
                let _ = tokio::time::timeout(stop_wait, task).await;
                Ok(None)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{TryRecvError, channel};

    use signal_hook::consts::SIGINT;

    use super::*;

    /// When a test gives up.
    const LONG: Duration = Duration::from_mins(10);

    #[test]
    fn ctrl_c_is_noticed_while_a_question_holds_every_thread() {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        let threads = threads.worker_threads(1).enable_all().build().unwrap();
        // From here on, as in a shell, the signal does not end the process.
        threads.block_on(async { signal(SignalKind::interrupt()).map(drop) }).unwrap();
        let (begin, is_begun) = channel();
        let (let_go, is_let_go) = channel::<()>();
        let task = threads.spawn(async move {
            begin.send(()).unwrap();
            let _ = is_let_go.recv();
        });
        is_begun.recv_timeout(LONG).unwrap();
        let (over, is_over) = channel();
        // The first signals may come before anybody waits for them.
        let pressing = std::thread::spawn(move || {
            while is_over.try_recv() == Err(TryRecvError::Empty) {
                signal_hook::low_level::raise(SIGINT).unwrap();
                std::thread::yield_now();
            }
        });
        let outcome = ended(task, true, Duration::ZERO).unwrap();
        over.send(()).unwrap();
        pressing.join().unwrap();
        assert!(outcome.is_none(), "it was still at work");
        drop(let_go);
    }
}
