//! The explorer, from start to stop.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use steplake::Error;
use steplake::env::Environment;
use steplake::env::worker::WorkerConfig;
use steplake::environments::catalogue::Catalogue;
use steplake::environments::{Environments, live};
use steplake::sandbox::Interrupt;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::access::{Guard, check};
use super::answers::Problem;
use super::arguments::ExploreArguments;
use super::describe::{self, Describer};
use super::lake::reader::{LakeOpening, LakeReader, is_missing};
use super::lake::routes::routes as lake_routes;
use super::live::{self, LiveSessions};
use super::programs::ProgramSource;
use super::sessions::{self, Sessions};
use super::{assets, browser, peer};
use steplake_server::{
    Access, HttpListener, ParkingEnvironment, Stopped, failed, listen, query_threads, runtime,
};

/// Threads that talk to clients.
const TALKING_THREADS: usize = 2;

/// The most requests that compute, or wait for a compiler, at a time. Further ones wait.
const REQUESTS_MAX: usize = 128;

/// The stack of their threads.
const STACK_BYTES: usize = 4 << 20;

/// The largest body of a request: a source, above all.
const BODY_BYTES_MAX: usize = 8 << 20;

/// How long requests have to end when the server stops. Compilers are interrupted at once.
const ENDING_MAX: Duration = Duration::from_secs(1);

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
///
/// If it cannot start, or the listener fails.
pub(crate) fn run(arguments: &ExploreArguments) -> Result<(), Error> {
    let access = arguments.tokens()?;
    let is_stopping = Arc::new(AtomicBool::new(false));
    let environments = Environments::default();
    let allows_all = access.as_ref().is_none_or(|(access, _text)| access.allows_all());
    let live = live_sessions(&environments, arguments, allows_all, &is_stopping)?;
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(TALKING_THREADS).max_blocking_threads(REQUESTS_MAX);
    let talking = runtime("talk", builder.thread_stack_size(STACK_BYTES))?;
    let (working, planners) = query_threads()?;
    let (stop, stopping) = watch::channel(false);
    let opening = LakeOpening {
        environments,
        path: arguments.global.lake.clone(),
        context: arguments.global.context.clone(),
        snapshot: arguments.snapshot,
        options: arguments.queries.engine_options(),
        limits: arguments.queries.limits(None),
        threads: working.handle().clone(),
        planners,
        stop: stopping,
    };
    let lake = LakeReader::new(opening, Arc::clone(&live.code));
    let sessions = Arc::clone(&live.sessions);
    let served = talking.block_on(serve(arguments, access, live, lake));
    is_stopping.store(true, Ordering::Relaxed);
    stop.send_replace(true);
    end(talking, working, &sessions);
    served
}

/// Ends what is under way.
fn end(talking: Runtime, working: Runtime, sessions: &Sessions) {
    talking.shutdown_timeout(ENDING_MAX);
    working.shutdown_timeout(ENDING_MAX);
    sessions.end_all();
}

/// Returns what live sessions share. `allows_all`: whoever may ask may do everything.
fn live_sessions(
    environments: &Environments,
    arguments: &ExploreArguments,
    allows_all: bool,
    is_stopping: &Arc<AtomicBool>,
) -> Result<LiveSessions, Error> {
    let (seconds, mib) = (arguments.step_cpu_seconds, arguments.worker_memory_mib);
    let limits = environments.limited_worker_config(seconds, mib)?;
    let is_stopping = Arc::clone(is_stopping);
    let interrupt = Interrupt::new(move || is_stopping.load(Ordering::Relaxed));
    let config = WorkerConfig { interrupt, ..limits };
    let here = environments.open(&arguments.env)?;
    // Its own datasets are those of the environment itself, not of its workers.
    let catalogue = Catalogue::of(here.as_ref(), &config)?;
    let workers: Arc<dyn Environment> = Arc::from(live(here, config));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let idle_max = arguments.session_timeout.0;
    // A token's rights are none to the files of whoever runs the server: the tokens are one.
    let reads = arguments.listen.ip().is_loopback() && allows_all;
    Ok(LiveSessions {
        environment: Arc::new(ParkingEnvironment::new(workers, (4 * cores).max(16))),
        programs: Arc::new(ProgramSource::new(catalogue, reads)),
        sessions: Arc::new(Sessions::new(arguments.sessions, idle_max)),
        code: Arc::default(),
    })
}

async fn serve(
    arguments: &ExploreArguments,
    access: Option<(Access, Option<String>)>,
    live: LiveSessions,
    lake: LakeReader,
) -> Result<(), Error> {
    let listener = listen(arguments.listen, "--listen").await?;
    // Listen for signals before the server announces itself, so that no signal is lost.
    let mut stopped = Stopped::new()?;
    let has_lake = match lake.open().await {
        Ok(_queries) => true,
        Err(error) if is_missing(&error) => false,
        Err(error) => return Err(error),
    };
    let certificate = arguments.access.certificate()?;
    let (access, token) = access.unzip();
    let token = token.flatten();
    let link = link(&listener, certificate.is_some(), token.as_deref())?;
    let listener = HttpListener::start(listener, certificate.as_ref())?;
    tokio::spawn(sessions::end_idle(Arc::clone(&live.sessions)));
    let routes = routes(live, lake, Guard(access.map(Arc::new)));
    announce(arguments, &link, has_lake);
    let way_there = if arguments.no_open { None } else { browser::open(&link, token.is_some()) };
    let serving = axum::serve(listener, routes).into_future();
    tokio::select! {
        served = serving => served.map_err(|error| failed("the server stopped", &error))?,
        () = stopped.wait() => {}
    }
    drop(way_there);
    Ok(())
}

fn routes(live: LiveSessions, lake: LakeReader, guard: Guard) -> Router {
    let describer = Describer { live: live.clone(), lake: lake.clone() };
    Router::new()
        .merge(describe::routes(describer))
        .merge(peer::routes(live.clone()))
        .merge(live::routes(live))
        .merge(lake_routes(lake))
        .fallback(assets::file)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(guard, check))
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let message = format!(
        "{} is no {method} call: the header `Allow` names its methods, and docs/EXPLORING.md lists the calls",
        uri.path()
    );
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, message)
}

/// Returns the link to the page, with the token where servers do not see it.
fn link(listener: &TcpListener, is_encrypted: bool, token: Option<&str>) -> Result<String, Error> {
    let address =
        listener.local_addr().map_err(|error| failed("the address is not known", &error))?;
    // A browser cannot ask for any address.
    let reachable = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], address.port()))
        }
        _ => address,
    };
    let token = token.map(|token| format!("#token={}", percent_encoded(token)));
    let scheme = if is_encrypted { "https" } else { "http" };
    Ok(format!("{scheme}://{reachable}/{}", token.unwrap_or_default()))
}

/// Writes the characters of a token that mean something in an address as numbers.
fn percent_encoded(token: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let written = token.bytes().map(|byte| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    });
    written.collect()
}

/// Says where the page is, now that it answers there.
fn announce(arguments: &ExploreArguments, link: &str, has_lake: bool) {
    let lake = arguments.global.lake.display();
    let of = if has_lake {
        format!("{lake} and live sessions")
    } else {
        format!("live sessions, and {lake} once there is a lake,")
    };
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "steplake: exploring {of} at {link}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_one_in_a_link() {
        assert_eq!(percent_encoded("aZ9-._~"), "aZ9-._~");
        assert_eq!(percent_encoded("a&b=c#%/+"), "a%26b%3Dc%23%25%2F%2B");
    }
}
