//! The server, from start to stop.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use steplake::Error;
use steplake::environments::Environments;
use steplake::lake::Lake;
use steplake_server::{
    Access, Guard, KEEPALIVE, NewestEngine, Queries, Right, ServedContexts, Stopped, failed,
    incoming, listen, query_threads, runtime,
};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

use crate::arguments::Arguments;
use crate::flight::Flight;
use crate::health;
use crate::service::FlightSqlServer;
use crate::tickets::TicketSigner;

/// Threads that talk to clients, and compute nothing that takes long.
const TALKING_THREADS: usize = 2;

/// The maximum number of concurrent requests on one connection; further ones wait. The connection
/// may buffer some MB of each.
const STREAMS_MAX: u32 = 128;

/// How long to wait for the server and its queries to end.
const ENDING_MAX: Duration = Duration::from_secs(1);

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
///
/// If it cannot start, or a listener fails.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let access = arguments.access.tokens()?.map(|(access, _text)| access);
    arguments.access.demand_safety(&[arguments.listen], access.is_some())?;
    let global = &arguments.global;
    // The number of a snapshot is that of one context.
    let (lake, contexts) = if global.context.is_some() || arguments.snapshot.is_some() {
        (Lake::open_one(&global.lake, global.context.as_deref())?, ServedContexts::First)
    } else {
        (Lake::open(&global.lake)?, ServedContexts::All)
    };
    let talking = runtime("talk", Builder::new_multi_thread().worker_threads(TALKING_THREADS))?;
    let (working, planners) = query_threads()?;
    let served = talking.block_on(serve(arguments, access, (lake, contexts), &working, planners));
    // Queries that are still running have used up their time; their temporary files go with them.
    working.shutdown_timeout(ENDING_MAX);
    talking.shutdown_background();
    served
}

async fn serve(
    arguments: &Arguments,
    access: Option<Access>,
    (lake, contexts): (Lake, ServedContexts),
    working: &Runtime,
    planners: usize,
) -> Result<(), Error> {
    let listener = listen(arguments.listen, "--listen").await?;
    let health =
        if arguments.no_health { None } else { Some(listen(arguments.health, "--health").await?) };
    // Listen for signals before the server announces itself, so that no signal of a reader is lost.
    let mut stopped = Stopped::new()?;
    let options = arguments.queries.engine_options();
    let newest = NewestEngine::open(
        Environments::default(),
        lake,
        contexts,
        arguments.snapshot,
        options,
        Handle::current(),
    );
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
    let guard = Guard { access: access.map(Arc::new), right: Right::Read };
    let flight = InterceptedService::new(FlightServiceServer::new(flight), guard);

    let mut server = Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1));
    if let Some(certificate) = arguments.access.certificate()? {
        server = certificate.of_grpc(server)?;
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
) -> Result<(), Error> {
    let stopped = "the server stopped";
    served.map_err(|error| failed(stopped, &error))?.map_err(|error| failed(stopped, &error))
}

/// Announces the server's addresses, now that it answers there.
fn announce(
    arguments: &Arguments,
    listener: &TcpListener,
    health: Option<&TcpListener>,
) -> Result<(), Error> {
    let address = |listener: &TcpListener| {
        listener.local_addr().map_err(|error| failed("the address is not known", &error))
    };
    let scheme = if arguments.access.tls_cert.is_some() { "grpc+tls" } else { "grpc" };
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
