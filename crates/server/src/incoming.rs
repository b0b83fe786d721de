//! Incoming connections.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use steplake::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::drain_on_close::DrainOnClose;

/// The maximum number of concurrent connections. Further ones wait until one is closed.
pub(crate) const CONNECTIONS_MAX: usize = 1024;

/// The pause if the system has no resources for a connection. The listener stays ready, so retrying
/// at once would spin.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a connection may be silent before the server sends a keepalive request, and the time to
/// answer it. A client that only reads slowly does answer.
pub const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// Listens at an address that an option of the command gives.
///
/// # Errors
///
/// If it cannot, with advice about the option.
pub async fn listen(address: SocketAddr, option: &str) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|error| {
        Error::usage(format!(
            "cannot listen on {address}: {error}; give another address with {option}, port 0 for a free one"
        ))
    })
}

/// Returns the stream of clients' connections. It does not end, and does not fail.
pub fn incoming(listener: TcpListener) -> impl Stream<Item = io::Result<DrainOnClose>> {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    futures::stream::unfold((listener, permits), async |(listener, permits)| {
        let permit = Arc::clone(&permits).acquire_owned().await.ok()?;
        let stream = accept(&listener).await;
        Some((Ok(DrainOnClose::new(stream, permit)), (listener, permits)))
    })
}

pub(crate) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are whole messages: waiting for more gains nothing.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                tracing::warn!(
                    "a connection cannot be accepted, and the server tries again: {error}"
                );
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Returns whether a client had gone before its connection was accepted.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Whether `HOST` or `HOST:PORT` is a name or an address of this machine that no other machine can
/// reach.
pub fn is_of_this_machine(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => authority.split_at(authority.rfind(':').unwrap_or(authority.len())),
    };
    let is_port = port.strip_prefix(':').unwrap_or(port).bytes().all(|byte| byte.is_ascii_digit());
    let is_local = host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_port && is_local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        for own in ["localhost", "LOCALHOST:1", "localhost:80", "127.0.0.1:31340", "127.0.0.1:9"] {
            assert!(is_of_this_machine(own), "{own}");
        }
        for own in ["127.0.0.2", "127.9.9.9", "[::1]:5", "[::1]:9", "[::1]"] {
            assert!(is_of_this_machine(own), "{own}");
        }
        for other in ["", "evil.test", "evil.example:80", "localhost.evil.test:80", "10.0.0.1:80"] {
            assert!(!is_of_this_machine(other), "{other}");
        }
        for other in ["localhost.evil:1", "10.0.0.1", "[fe80::1]:1", "[", "::1", "localhost:x"] {
            assert!(!is_of_this_machine(other), "{other}");
        }
    }
}
