//! The certificate of a server.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steplake::Error;
use steplake::model::line;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tonic::transport::{Identity, Server, ServerTlsConfig};

/// A certificate with its key, in PEM.
pub struct Certificate {
    chain: Vec<u8>,
    key: Vec<u8>,
    paths: (PathBuf, PathBuf),
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("paths", &self.paths).finish_non_exhaustive()
    }
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

    /// Returns what encrypts connections of HTTP.
    ///
    /// # Errors
    ///
    /// If they are not a certificate and its key.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, Error> {
        self.server_config().map(TlsAcceptor::from).map_err(|problem| self.invalid(&problem))
    }

    fn server_config(&self) -> Result<Arc<ServerConfig>, String> {
        let chain = CertificateDer::pem_slice_iter(&self.chain).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| line(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| line(&error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|error| line(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
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
