//! TLS for servers that speak gRPC, and for those that speak HTTP.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use steplake::Error;
use steplake::model::line;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;
use tonic::transport::{Identity, Server, ServerTlsConfig};

use crate::incoming::accept;

/// How long a client may take to agree on keys.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The connections that have agreed on keys, and wait for the server.
const READY_MAX: usize = 16;

/// A certificate with its key, in PEM.
#[derive(Debug)]
pub struct Certificate {
    chain: Vec<u8>,
    key: Vec<u8>,
    paths: (PathBuf, PathBuf),
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// If one cannot be read.
    pub(crate) fn read(chain: &Path, key: &Path) -> Result<Self, Error> {
        let read = |path: &Path| {
            fs::read(path).map_err(|error| {
                Error::usage(format!("{} cannot be read: {error}", path.display()))
            })
        };
        let paths = (chain.to_owned(), key.to_owned());
        Ok(Self { chain: read(chain)?, key: read(key)?, paths })
    }

    /// Has a server of gRPC encrypt.
    ///
    /// # Errors
    ///
    /// If they are not a certificate and its key.
    pub fn of_grpc(&self, server: Server) -> Result<Server, Error> {
        let identity = Identity::from_pem(&self.chain, &self.key);
        let config = ServerTlsConfig::new().identity(identity);
        server.tls_config(config).map_err(|error| self.invalid(&line(&error)))
    }

    /// Has connections of HTTP encrypted.
    ///
    /// # Errors
    ///
    /// If they are not a certificate and its key.
    pub fn of_http(&self, listener: TcpListener) -> Result<TlsListener, Error> {
        let acceptor = self.acceptor().map_err(|problem| self.invalid(&problem))?;
        TlsListener::start(listener, acceptor)
    }

    fn acceptor(&self) -> Result<TlsAcceptor, String> {
        let chain = CertificateDer::pem_slice_iter(&self.chain).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| line(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| line(&error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|error| line(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn invalid(&self, problem: &str) -> Error {
        let (chain, key) = &self.paths;
        Error::usage(format!(
            "{} and {} are not a certificate and its key: {problem}",
            chain.display(),
            key.display()
        ))
    }
}

/// A listener whose connections are encrypted. A client that is slow to agree on keys holds up
/// nobody else.
#[derive(Debug)]
pub struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl TlsListener {
    fn start(listener: TcpListener, acceptor: TlsAcceptor) -> Result<Self, Error> {
        let address = listener.local_addr();
        let address = address.map_err(|error| crate::failed("the address is not known", &error))?;
        let (sender, ready) = mpsc::channel(READY_MAX);
        tokio::spawn(async move {
            while !sender.is_closed() {
                let stream = accept(&listener).await;
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                tokio::spawn(async move {
                    let Ok(peer) = stream.peer_addr() else { return };
                    match tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
                        // The server is gone if nobody receives.
                        Ok(Ok(stream)) => drop(sender.send((stream, peer)).await),
                        Ok(Err(error)) => tracing::debug!(%error, %peer, "no keys were agreed on"),
                        Err(_elapsed) => {
                            tracing::debug!(%peer, "a client was slow to agree on keys")
                        }
                    }
                });
            }
        });
        Ok(Self { address, ready })
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // Its task ends with the runtime alone.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
