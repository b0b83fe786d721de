//! A server as a process: its threads, the signals that end it, and why it fails.

use steplake::model::line;
use steplake::query::STACK_BYTES;
use steplake::{Error, ErrorKind};
use steplake_terminal::messages;
use steplake_terminal::open_files;
use steplake_terminal::signals::ignores_interrupts;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// The maximum number of threads on which queries read files or walk the graph. No
/// thread is held while it waits for a client or another query.
const READING_THREADS_MAX: usize = 256;

/// Sends the log of the library, and of the server `program`, to standard error, and lets the
/// process open as many files as it may.
///
/// # Panics
///
/// If called twice.
pub fn begin(verbose: u8, program: &str) {
    messages::begin(verbose, Some(program));
    open_files::raise_limit();
}

/// Starts the threads of queries. Returns them with the number of statements that may be planned at
/// a time.
///
/// # Errors
///
/// If the system starts no threads.
pub fn query_threads() -> Result<(Runtime, usize), Error> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // As many statements may be planned as there are cores, and the same number of threads is left
    // for other work.
    let planners = cores.max(2);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(planners + cores).max_blocking_threads(READING_THREADS_MAX);
    Ok((runtime("query", builder.thread_stack_size(STACK_BYTES))?, planners))
}

/// Starts the threads of `builder`, with this name.
///
/// # Errors
///
/// If the system starts no threads.
pub fn runtime(name: &str, builder: &mut Builder) -> Result<Runtime, Error> {
    let runtime = builder.thread_name(name).enable_all().build();
    runtime.map_err(|error| failed("threads cannot be started", &error))
}

/// The error of a server that cannot go on, with its causes.
pub fn failed(what: &str, error: &dyn std::error::Error) -> Error {
    Error::new(ErrorKind::Failed, format!("{what}: {}", line(error)))
}

/// The signals that end a server: SIGTERM, and SIGINT unless the process was started with it
/// ignored.
#[derive(Debug)]
pub struct Stopped {
    interrupt: Option<tokio::signal::unix::Signal>,
    terminate: tokio::signal::unix::Signal,
}

impl Stopped {
    /// Listens for the signals from now on.
    ///
    /// # Errors
    ///
    /// If the system cannot.
    pub fn new() -> Result<Self, Error> {
        let listen =
            |kind| signal(kind).map_err(|error| failed("signals cannot be waited for", &error));
        let interrupt = || listen(SignalKind::interrupt());
        Ok(Self {
            interrupt: (!ignores_interrupts()).then(interrupt).transpose()?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub async fn wait(&mut self) {
        let Self { interrupt, terminate } = self;
        let interrupted = async {
            match interrupt {
                Some(interrupt) => interrupt.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupted => {}
            _ = terminate.recv() => {}
        }
    }
}
