//! Connections as they come in.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::lingering::Lingering;

/// Connections at once. One more waits until another one is closed.
const CONNECTIONS_MAX: usize = 1024;

/// How long is waited where the system has no more room for a connection: it stays ready to be
/// taken, and would be tried for again and again.
const PAUSE: Duration = Duration::from_millis(500);

/// The connections that clients make. It does not end, and does not fail.
pub(crate) fn incoming(listener: TcpListener) -> impl Stream<Item = io::Result<Lingering>> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    futures::stream::unfold((listener, places), async |(listener, places)| {
        let place = Arc::clone(&places).acquire_owned().await.ok()?;
        let stream = accept(&listener).await;
        Some((Ok(Lingering::new(stream, place)), (listener, places)))
    })
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are whole messages: nothing is won by waiting for more.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                tracing::warn!("no connection can be taken, and it is tried again: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Whether a client was gone before its connection was taken.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
