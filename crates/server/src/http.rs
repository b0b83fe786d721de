//! Connections of HTTP, encrypted or not.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use steplake::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, Sleep};

use crate::incoming::{CONNECTIONS_MAX, accept};
use crate::process::failed;
use crate::tls::Certificate;

/// How long a client may take to agree on keys.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// How long nothing may go either way. A client that waits for an answer is silent too, so this is
/// longer than an answer takes.
const IDLE_MAX: Duration = Duration::from_mins(15);

/// The connections that wait for the server.
const READY_MAX: usize = 16;

/// A listener with a limit on connections. A client that is slow to agree on keys holds up nobody
/// else.
#[derive(Debug)]
pub struct HttpListener {
    address: SocketAddr,
    ready: mpsc::Receiver<(HttpStream, SocketAddr)>,
}

/// A connection to a client.
pub type HttpStream = Box<dyn ByteStream>;

/// What can be read from and written to.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

impl HttpListener {
    /// Accepts connections on a task of its own; encrypted ones, if there is a certificate.
    ///
    /// # Errors
    ///
    /// If the certificate and its key are none.
    pub fn start(listener: TcpListener, certificate: Option<&Certificate>) -> Result<Self, Error> {
        let address = listener.local_addr();
        let address = address.map_err(|error| failed("the address is not known", &error))?;
        let acceptor = certificate.map(Certificate::acceptor).transpose()?;
        let (sender, ready) = mpsc::channel(READY_MAX);
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        tokio::spawn(async move {
            while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
                let stream = accept(&listener).await;
                let Ok(peer) = stream.peer_addr() else { continue };
                let (stream, sender) = (Connection::new(stream, permit), sender.clone());
                let Some(acceptor) = acceptor.clone() else {
                    if sender.send((Box::new(stream) as HttpStream, peer)).await.is_err() {
                        return;
                    }
                    continue;
                };
                tokio::spawn(async move {
                    match tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
                        // The server is gone if nobody receives.
                        Ok(Ok(stream)) => {
                            drop(sender.send((Box::new(stream) as HttpStream, peer)).await);
                        }
                        Ok(Err(error)) => tracing::debug!(%error, %peer, "no keys were agreed on"),
                        Err(_elapsed) => tracing::debug!(%peer, "slow to agree on keys"),
                    }
                });
            }
        });
        Ok(Self { address, ready })
    }
}

impl axum::serve::Listener for HttpListener {
    type Io = HttpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The other task ends with the runtime alone.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// A connection that ends when nothing has gone either way for too long.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// The permit for one of the allowed connections.
    _permit: OwnedSemaphorePermit,
    idle: Pin<Box<Sleep>>,
}

impl Connection {
    fn new(stream: TcpStream, permit: OwnedSemaphorePermit) -> Self {
        Self { stream, _permit: permit, idle: Box::pin(tokio::time::sleep(IDLE_MAX)) }
    }

    fn is_in_use(&mut self) {
        self.idle.as_mut().reset(Instant::now() + IDLE_MAX);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if read.is_ready() {
            self.is_in_use();
            return read;
        }
        ready!(self.idle.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client is silent")))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.is_in_use();
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
