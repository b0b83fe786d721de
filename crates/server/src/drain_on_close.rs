//! Connections that do not cut off data when they close, and do not wait forever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// The time that a client has to close its side.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// The time that a client has to send the preface of HTTP/2.
const PREFACE_MAX: Duration = Duration::from_secs(10);
const PREFACE_BYTES: usize = 24;

/// The longest silence of a client. A live client answers keepalive requests, which are more
/// frequent than this.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// A connection that is closed only after the client has closed its side. If a socket is closed
/// with unread data, even a window update, the connection is reset, and the client loses what it
/// has not received yet.
#[derive(Debug)]
pub struct DrainOnClose {
    stream: TcpStream,
    /// The permit for one of the allowed connections.
    _permit: OwnedSemaphorePermit,
    /// Bytes of the preface that have not arrived yet.
    preface_bytes: usize,
    /// Expires when the client has been silent for too long.
    silence: Pin<Box<Sleep>>,
    /// The time left to the client, once our side is closed.
    end: Option<Pin<Box<Sleep>>>,
}

impl DrainOnClose {
    pub(crate) fn new(stream: TcpStream, permit: OwnedSemaphorePermit) -> Self {
        let silence = Box::pin(tokio::time::sleep(PREFACE_MAX));
        Self { stream, _permit: permit, preface_bytes: PREFACE_BYTES, silence, end: None }
    }
}

impl Connected for DrainOnClose {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for DrainOnClose {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        let bytes = into.filled().len() - before;
        self.preface_bytes = self.preface_bytes.saturating_sub(bytes);
        if bytes > 0 && self.preface_bytes == 0 {
            self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
        }
        if read.is_ready() {
            return read;
        }
        ready!(self.silence.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client is silent")))
    }
}

impl AsyncWrite for DrainOnClose {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.end.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let end = this.end.get_or_insert_with(|| Box::pin(tokio::time::sleep(DRAIN_MAX)));
        loop {
            let mut bytes = [0; 4096];
            let mut unread = ReadBuf::new(&mut bytes);
            match Pin::new(&mut this.stream).poll_read(context, &mut unread) {
                Poll::Ready(Ok(())) if !unread.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => return end.as_mut().poll(context).map(Ok),
            }
        }
    }
}
