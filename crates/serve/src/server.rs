//! The server, from start to stop.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use steplake::assembly::command_error::{Code, CommandError};
use steplake::assembly::messages::line;
use steplake::assembly::signals::ignores_interrupts;
use steplake::lake::Lake;
use steplake::query::STACK_BYTES;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Identity, Server, ServerTlsConfig};

use crate::arguments::{Arguments, read_token};
use crate::flight::Flight;
use crate::health;
use crate::incoming::incoming;
use crate::newest::Newest;
use crate::queries::Queries;
use crate::service::FlightSqlServer;
use crate::tickets::TicketSigner;
use crate::token::{Guard, Token};

/// Threads that talk to clients, and compute nothing that takes long.
const TALKING_THREADS: usize = 2;

/// The maximum number of threads on which queries read files, merge layers or walk the graph. No
/// thread is held while it waits for a client or another query.
const READING_THREADS_MAX: usize = 256;

/// The maximum number of concurrent requests on one connection; further ones wait. The connection
/// may buffer some MB of each.
const STREAMS_MAX: u32 = 128;

/// How long to wait for the server and its queries to end.
const ENDING_MAX: Duration = Duration::from_secs(1);

/// How long a connection may be silent before the server sends a keepalive request, and the time to
/// answer it. A client that only reads slowly does answer.
pub(crate) const KEEPALIVE: (Duration, Duration) =
    (Duration::from_secs(30), Duration::from_secs(20));

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
///
/// If it cannot start, or a listener fails.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let token = read_token(arguments.token_file.as_deref())?.map(|(token, _text)| token);
    arguments.demand_safety(token.is_some())?;
    let lake = Lake::open(&arguments.global.lake)?;
    let talking = runtime("talk", Builder::new_multi_thread().worker_threads(TALKING_THREADS))?;
    let (working, planners) = query_threads()?;
    let served = talking.block_on(serve(arguments, token, lake, &working, planners));
    // Queries that are still running have used up their time; their temporary files go with them.
    working.shutdown_timeout(ENDING_MAX);
    talking.shutdown_background();
    served
}

/// Starts the threads of queries. Returns them with the number of statements that may be planned at
/// a time.
///
/// # Errors
///
/// If the system starts no threads.
pub(crate) fn query_threads() -> Result<(Runtime, usize), CommandError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // As many statements may be planned as there are cores, and the same number of threads is left
    // for other work.
    let planners = cores.max(2);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(planners + cores).max_blocking_threads(READING_THREADS_MAX);
    Ok((runtime("query", builder.thread_stack_size(STACK_BYTES))?, planners))
}

pub(crate) fn runtime(name: &str, builder: &mut Builder) -> Result<Runtime, CommandError> {
    let runtime = builder.thread_name(name).enable_all().build();
    runtime.map_err(|error| failed("threads cannot be started", &error))
}

async fn serve(
    arguments: &Arguments,
    token: Option<Token>,
    lake: Lake,
    working: &Runtime,
    planners: usize,
) -> Result<(), CommandError> {
    let listener = listen(arguments.listen, "--listen").await?;
    let health =
        if arguments.no_health { None } else { Some(listen(arguments.health, "--health").await?) };
    // Listen for signals before the server announces itself, so that no signal of a reader is lost.
    let mut stopped = Stopped::new()?;
    let options = arguments.queries.engine_options();
    let newest = Newest::open(lake, arguments.snapshot, options, Handle::current());
    // Opening may take long, so it runs on the threads of queries.
    let newest = working.spawn(newest).await;
    let newest = newest.map_err(|error| failed("the lake cannot be opened", &error))?;
    let newest = Arc::new(newest?);
    let idle = Arc::clone(&newest);
    working.spawn(async move { idle.release_when_idle().await });
    let (stop, stopping) = watch::channel(false);
    let limits = arguments.queries.limits(arguments.query_rows.0);
    let queries = Queries::new(working.handle().clone(), planners, newest, limits, stopping);
    let signer =
        TicketSigner::new().map_err(|error| failed("the system has no random numbers", &error))?;
    let flight = Flight(FlightSqlServer::new(queries.clone(), signer));
    let flight = InterceptedService::new(FlightServiceServer::new(flight), Guard(token));

    let mut server = Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1));
    if let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) {
        let identity = Identity::from_pem(read(certificate)?, read(key)?);
        let tls = ServerTlsConfig::new().identity(identity);
        server = server.tls_config(tls).map_err(|error| {
            CommandError::usage(format!(
                "{} and {} are not a certificate and its key: {}",
                certificate.display(),
                key.display(),
                line(&error)
            ))
        })?;
    }
    announce(arguments, &listener, health.as_ref())?;
    if let Some(health) = health {
        tokio::spawn(health::serve(health, queries));
    }
    let (drain, draining) = watch::channel(false);
    let mut closing = draining.clone();
    let connections = incoming(listener);
    let serving =
        server.add_service(flight).serve_with_incoming_shutdown(connections, async move {
            let _ = closing.wait_for(|drain| *drain).await;
        });
    let mut serving = tokio::spawn(serving);
    tokio::select! {
        served = &mut serving => return ended(served),
        () = stopped.wait() => {}
    }
    tracing::info!("stopping: running queries have {:?} to end", arguments.grace.0);
    drain.send_replace(true);
    tokio::select! {
        served = &mut serving => return ended(served),
        () = tokio::time::sleep(arguments.grace.0) => {}
        () = stopped.wait() => {}
    }
    stop.send_replace(true);
    // Only clients that do not read why their query ended are left now.
    let _ = tokio::time::timeout(ENDING_MAX, serving).await;
    Ok(())
}

fn ended(
    served: Result<Result<(), tonic::transport::Error>, tokio::task::JoinError>,
) -> Result<(), CommandError> {
    let stopped = "the server stopped";
    served.map_err(|error| failed(stopped, &error))?.map_err(|error| failed(stopped, &error))
}

/// Listens at an address that an option of the command gives.
pub(crate) async fn listen(address: SocketAddr, option: &str) -> Result<TcpListener, CommandError> {
    TcpListener::bind(address).await.map_err(|error| {
        CommandError::usage(format!(
            "cannot listen on {address}: {error}; give another address with {option}, port 0 for a free one"
        ))
    })
}

fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    fs::read(path)
        .map_err(|error| CommandError::usage(format!("{} cannot be read: {error}", path.display())))
}

/// Announces the server's addresses, now that it answers there.
fn announce(
    arguments: &Arguments,
    listener: &TcpListener,
    health: Option<&TcpListener>,
) -> Result<(), CommandError> {
    let address = |listener: &TcpListener| {
        listener.local_addr().map_err(|error| failed("the address is not known", &error))
    };
    let scheme = if arguments.tls_cert.is_some() { "grpc+tls" } else { "grpc" };
    let lake = arguments.global.lake.display();
    let mut said = format!("steplake: serving {lake} at {scheme}://{}", address(listener)?);
    if let Some(health) = health {
        let address = address(health)?;
        let _ = write!(said, ", health at http://{address}/health");
    }
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "{said}");
    Ok(())
}

pub(crate) fn failed(what: &str, error: &dyn std::error::Error) -> CommandError {
    CommandError::new(Code::Failed, format!("{what}: {}", line(error)))
}

/// SIGINT, unless the process was started with it ignored, and SIGTERM.
pub(crate) struct Stopped {
    interrupt: Option<tokio::signal::unix::Signal>,
    terminate: tokio::signal::unix::Signal,
}

impl Stopped {
    pub(crate) fn new() -> Result<Self, CommandError> {
        let listen =
            |kind| signal(kind).map_err(|error| failed("signals cannot be waited for", &error));
        let interrupt = || listen(SignalKind::interrupt());
        Ok(Self {
            interrupt: (!ignores_interrupts()).then(interrupt).transpose()?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn wait(&mut self) {
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
