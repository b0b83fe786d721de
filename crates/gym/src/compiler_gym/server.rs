//! The server of sessions, from start to stop.

use std::io::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use steplake::compilers::DEFAULT;
use steplake::contexts::recorded_by;
use steplake::env::worker::WorkerConfig;
use steplake::env::{Environment, llvm};
use steplake::environments::catalogue::Catalogue;
use steplake::environments::{Environments, environment_of_lake, live};
use steplake::lake::{Identity, Lake};
use steplake::model::EnvironmentSpec;
use steplake::model::line;
use steplake::recording::{Keyframes, SessionOptions, record_sessions};
use steplake::sandbox::Interrupt;
use steplake::{Error, ErrorKind};
use steplake_server::{
    Guard, KEEPALIVE, ParkingEnvironment, Right, Stopped, failed, incoming, listen,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

use super::arguments::{ManagedArguments, ServerArguments, Serving, SessionArguments};
use super::managed;
use super::recording::{Keeping, RecordedEnvironment};
use super::service::{FileAccess, Rpc, Service};
use crate::cache::{self, Cache};
use crate::proto::compiler_gym_service_server::CompilerGymServiceServer;

/// Threads that talk to clients. One is enough: with two, they wake each other for every call.
const TALKING_THREADS: usize = 1;

/// The most requests that compute, or wait for a session, at a time. Further ones wait.
const REQUESTS_MAX: usize = 1024;

/// The stack of their threads.
const STACK_BYTES: usize = 4 << 20;

/// The largest message of a client: a program, above all.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// The most calls of a client at a time. Further ones wait at the client.
const STREAMS_MAX: u32 = 256;

/// What a client may send before it hears that some was read.
const WINDOW_BYTES: u32 = 4 << 20;

/// How long requests have to end when the service stops. Workers are interrupted at once.
const ENDING_MAX: Duration = Duration::from_secs(2);

/// How long sessions at work have to end. A managed client kills its service after 30 s.
const SESSIONS_END_MAX: Duration = Duration::from_secs(20);

/// The usual distance of keyframes.
const KEYFRAMES: NonZeroU32 = NonZeroU32::new(16).expect("it is more than 0");

/// The action space that clients of CompilerGym know.
pub(super) const ACTION_SPACE: &str = "compilergym-v0";

/// Serves clients that connect, until SIGINT or SIGTERM.
///
/// # Errors
///
/// If the service cannot start, or what was recorded cannot be made durable.
pub(crate) fn run(arguments: ServerArguments) -> Result<(), Error> {
    serve(&arguments.serving()?)
}

/// Serves the client that started this process, until it ends the service or is gone.
///
/// # Errors
///
/// If the service cannot start, or what was recorded cannot be made durable.
pub(crate) fn run_managed(arguments: ManagedArguments) -> Result<(), Error> {
    serve(&arguments.serving())
}

fn serve(serving: &Serving) -> Result<(), Error> {
    let client = std::os::unix::process::parent_id();
    let is_stopping = Arc::new(AtomicBool::new(false));
    let interrupt = Interrupt::new({
        let is_stopping = Arc::clone(&is_stopping);
        move || is_stopping.load(Ordering::Relaxed)
    });
    let recorded = recorded(serving, &interrupt)?;
    // The folder of a service that nobody gave one goes with it.
    let own = || tempfile::Builder::new().prefix("steplake-compiler-gym-").tempdir();
    let own = serving.folder.is_none().then(own).transpose()?;
    let folder =
        serving.folder.as_deref().or(own.as_ref().map(TempDir::path)).unwrap_or(Path::new("."));
    // A token's rights are none to the files of whoever runs the server: the tokens are one.
    let allows_all = serving.access.as_ref().is_none_or(|access| access.allows_all());
    let reads = serving.listen.ip().is_loopback() && allows_all;
    // The client that starts a service has it write what it could write itself.
    let writes = serving.folder.is_some();
    let files = FileAccess { reads, writes };
    let service = Arc::new(Service::new(recorded, folder.to_owned(), files, interrupt));
    let runtime = Builder::new_multi_thread()
        .worker_threads(TALKING_THREADS)
        .max_blocking_threads(REQUESTS_MAX)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .map_err(|error| failed("threads cannot be started", &error))?;
    let served = runtime.block_on(answer(serving, client, Arc::clone(&service), &is_stopping));
    // Sessions whose requests are still under way are interrupted, and leave.
    is_stopping.store(true, Ordering::Relaxed);
    let finished = service.finish(SESSIONS_END_MAX);
    runtime.shutdown_timeout(ENDING_MAX);
    served.and(finished)
}

/// Returns the environment: in workers, parked when idle, and recorded if there is a lake.
fn recorded(serving: &Serving, interrupt: &Interrupt) -> Result<RecordedEnvironment, Error> {
    let arguments = &serving.sessions;
    let SessionArguments { step_cpu_seconds, worker_memory_mib, .. } = *arguments;
    let environments = Environments::default();
    let limits = environments.limited_worker_config(step_cpu_seconds, worker_memory_mib)?;
    let config = WorkerConfig { interrupt: interrupt.clone(), ..limits };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let live_max = arguments.live_sessions.map_or((4 * cores).max(16), usize::from);
    let of_cache = serving.cache.and(arguments.lake.as_deref());
    let environment = match (&arguments.env, of_cache.filter(|lake| Lake::open(lake).is_ok())) {
        (None, Some(lake)) => environment_of_lake(Lake::open_one(lake, None)?.identity())?,
        (name, _) => environments.open(name.as_deref().unwrap_or(DEFAULT))?,
    };
    let cached = match of_cache {
        Some(lake) => Lake::open(recorded_by(lake, environment.spec(), None)?).ok(),
        None => None,
    };
    let cached = cached.as_ref().map(Lake::identity);
    let workers: Arc<dyn Environment> = Arc::from(live(environment, config.clone()));
    let catalogue = Arc::new(Catalogue::of(workers.as_ref(), &config)?);
    let parking: Arc<dyn Environment> = Arc::new(ParkingEnvironment::new(workers, live_max));
    let keeping = match &arguments.lake {
        None => Keeping::Nothing,
        Some(lake) => {
            let options = options(serving, parking.spec(), cached);
            if serving.cache.is_some() {
                let (live, programs) = (Arc::clone(&parking), Arc::clone(&catalogue));
                let cache = Cache::open(lake, live, programs, &options)?;
                Keeping::Misses(Arc::new(cache))
            } else {
                Keeping::sessions(record_sessions(lake, parking.as_ref(), &options)?)
            }
        }
    };
    Ok(RecordedEnvironment::new(parking, catalogue, keeping))
}

/// Returns what to record. A cache serves and records what its lake has, if there is one.
fn options(serving: &Serving, spec: &EnvironmentSpec, cached: Option<&Identity>) -> SessionOptions {
    let arguments = &serving.sessions;
    let is_llvm = spec.name == llvm::NAME && cached.is_none();
    // What is on request is recorded only if it is named.
    let observed = cached.map(|lake| {
        let names = lake.observations.iter().map(|space| &space.name);
        names.filter(|name| spec.observation_index(name).is_some()).cloned().collect()
    });
    let rewarded = cached.map(|lake| {
        let names = lake.rewards.iter().map(|space| &space.name);
        let is_known = |name: &str| spec.reward_spaces.iter().any(|space| space.name == name);
        names.filter(|name| is_known(name)).cloned().collect()
    });
    let usual = if serving.cache.is_some() { NonZeroU32::MIN } else { KEYFRAMES };
    let of_cache = cached.map(|lake| lake.action_space.name.clone());
    SessionOptions {
        action_space: is_llvm.then(|| ACTION_SPACE.to_owned()).or(of_cache),
        keyframes: Some(arguments.ir.unwrap_or(Keyframes(Some(usual)))),
        observe: arguments.observe.clone().or(observed),
        rewards: arguments.rewards.clone().or(rewarded),
        step_cpu_seconds: arguments.step_cpu_seconds,
        worker_memory_mib: arguments.worker_memory_mib,
        ..SessionOptions::default()
    }
}

async fn answer(
    serving: &Serving,
    client: u32,
    service: Arc<Service>,
    is_stopping: &AtomicBool,
) -> Result<(), Error> {
    let listener = listen(serving.listen, "--listen").await?;
    // Listen for signals before the service announces itself, so that no signal is lost.
    let mut stopped = Stopped::new()?;
    let address =
        listener.local_addr().map_err(|error| failed("the address is not known", &error))?;
    let (name, cache) = (service.name().to_owned(), service.cache());
    let rpc =
        CompilerGymServiceServer::new(Rpc(service)).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let right = if serving.sessions.lake.is_some() { Right::Record } else { Right::Step };
    let guard = Guard { access: serving.access.clone(), right };
    let mut server = Server::builder();
    if let Some(certificate) = &serving.certificate {
        server = certificate.of_grpc(server)?;
    }
    let server = server
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1))
        .add_service(InterceptedService::new(rpc, guard))
        .serve_with_incoming(incoming(listener));
    let mut server = tokio::spawn(server);
    let http = match serving.cache {
        Some(address) => Some(listen(address, "--http").await?),
        None => None,
    };
    let at = |listener: &TcpListener| listener.local_addr().ok();
    announce(serving, &name, address, http.as_ref().and_then(at))?;
    if let (Some(http), Some(cache)) = (http, cache) {
        cache::serve(http, cache, serving.access.clone(), serving.certificate.as_ref())?;
    }
    let is_managed = serving.folder.is_some();
    let gone = async {
        if is_managed {
            managed::client_is_gone(client).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        ended = &mut server => {
            let ended = ended.map_err(|error| failed("the service stopped", &error))?;
            ended.map_err(|error| failed("the service stopped", &error))?;
        }
        () = stopped.wait() => {}
        () = gone => tracing::info!("the client is gone"),
    }
    is_stopping.store(true, Ordering::Relaxed);
    server.abort();
    Ok(())
}

/// Says where the service is, now that it answers there.
fn announce(
    serving: &Serving,
    name: &str,
    address: SocketAddr,
    http: Option<SocketAddr>,
) -> Result<(), Error> {
    if let Some(folder) = &serving.folder {
        return managed::announce(folder, address.port()).map_err(|error| {
            let problem = format!("{} cannot be written to: {}", folder.display(), line(&error));
            Error::new(ErrorKind::Failed, problem)
        });
    }
    let recorded =
        serving.sessions.lake.as_ref().map_or_else(String::new, |lake: &PathBuf| {
            format!(", recording into {}", lake.display())
        });
    let (grpc, web) = match serving.certificate {
        Some(_) => ("grpc+tls", "https"),
        None => ("grpc", "http"),
    };
    let http = http.map_or_else(String::new, |http| format!(", {web}://{http}/step"));
    // Standard error may be closed.
    let said =
        format!("steplake: serving sessions of {name} at {grpc}://{address}{http}{recorded}");
    let _ = writeln!(std::io::stderr(), "{said}");
    Ok(())
}
