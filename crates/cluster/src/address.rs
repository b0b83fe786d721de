//! Addresses of the processes of a cluster.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use datafusion::common::{DataFusionError, Result};
use steplake::query::QueryError;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The time that a scheduler has to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// A host and a port; `ballista://` before them may be omitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted =
            || format!("`{text}` is not an address: write HOST:PORT, e.g. 127.0.0.1:50050");
        let plain = text.strip_prefix("ballista://").unwrap_or(text);
        let (host, port) = plain.rsplit_once(':').ok_or_else(wanted)?;
        let port = port.parse().map_err(|_not_a_number| wanted())?;
        if host.is_empty() || host.contains('/') {
            return Err(wanted());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Address {
    /// Fails if no scheduler accepts connections.
    pub(crate) async fn demand_reachable(&self) -> Result<()> {
        let what = match timeout(CONNECT_MAX, TcpStream::connect(self.to_string())).await {
            Ok(Ok(_connection)) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_elapsed) => "it does not answer".to_owned(),
        };
        let what = format!(
            "there is no scheduler at {self} ({what}): start one with `steplake cluster scheduler`, or \
             give another address"
        );
        Err(DataFusionError::External(Box::new(QueryError::Failed(what))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for text in ["localhost:50050", "ballista://localhost:50050"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), "localhost:50050");
        }
        for text in ["", "localhost", ":1", "localhost:x", "http://localhost:1", "a:99999"] {
            assert!(text.parse::<Address>().unwrap_err().contains("HOST:PORT"), "{text}");
        }
    }
}
