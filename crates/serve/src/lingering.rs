//! Connections that end without cutting off what is still on its way.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// How long a client has to close its side.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// A connection that is closed only when the client has closed its side, too. A socket that is closed while
/// something lies in it unread, be it a window update, is reset, and takes with it what the client has not
/// received yet.
pub(crate) struct Lingering {
    stream: TcpStream,
    /// Set once our side is closed.
    end: Option<Pin<Box<Sleep>>>,
}

impl Lingering {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, end: None }
    }
}

impl Connected for Lingering {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Lingering {
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
        let end = this.end.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER_MAX)));
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
