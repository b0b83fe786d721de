//! The command line.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Parser, ValueHint};
use steplake::Error;
use steplake_server::{Limit, QueryArguments, Span};
use steplake_terminal::arguments::GlobalArgs;

/// Serve the lake to Arrow clients over Flight SQL, read-only.
///
/// A statement reads what the lake holds when it is sent, including unsealed rows; the server
/// follows a growing lake. docs/SERVING.md shows how to connect.
#[derive(Debug, Parser)]
#[command(
    name = "steplake serve",
    bin_name = "steplake serve",
    version,
    after_help = "\
A token is read from --token-file or STEPLAKE_TOKEN, never from the command line, where everybody on the
machine could see it. Without one, everybody who reaches the address may read the lake.

Exit codes: 0 stopped by SIGINT or SIGTERM; 1 it failed; 2 the command line is wrong; 3 the lake cannot
be used."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,

    /// The address to listen on; port 0 takes a free port. An address that other machines can reach
    /// requires a token and TLS, or --insecure.
    #[arg(long, default_value = "127.0.0.1:31337", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,

    /// The address of `/health` and `/metrics` over HTTP. They reveal nothing of the lake's
    /// contents.
    #[arg(long, default_value = "127.0.0.1:31338", value_name = "ADDRESS")]
    pub(crate) health: SocketAddr,

    /// Do not serve `/health` and `/metrics`.
    #[arg(long)]
    pub(crate) no_health: bool,

    /// A file with the bearer token that clients must send.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,

    /// The server's certificate, and those that lead to its issuer, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Listen on any address without a token or TLS.
    #[arg(long)]
    pub(crate) insecure: bool,

    /// Serve only snapshot N (`steplake snapshots` lists them), as long as the server runs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) snapshot: Option<i64>,

    #[command(flatten)]
    pub(crate) queries: QueryArguments,

    /// The maximum number of rows of an answer, or `none`. A larger answer fails; it is not cut.
    #[arg(long, default_value = "none", value_name = "N")]
    pub(crate) query_rows: Limit<NonZeroU64>,

    /// The time that running queries have to finish when the server stops.
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub(crate) grace: Span,
}

impl Arguments {
    /// Refuses to expose the lake to the network by accident.
    ///
    /// # Errors
    ///
    /// If other machines can reach the address, and a token or TLS is missing.
    pub(crate) fn demand_safety(&self, has_token: bool) -> Result<(), Error> {
        if self.listen.ip().is_loopback() || self.insecure {
            return Ok(());
        }
        let lacks = match (has_token, self.tls_cert.is_some()) {
            (true, true) => return Ok(()),
            (true, false) => "TLS (--tls-cert and --tls-key)",
            (false, true) => "a token (--token-file)",
            (false, false) => "a token (--token-file) and TLS (--tls-cert and --tls-key)",
        };
        Err(Error::usage(format!(
            "{} can be reached from other machines, and this server lacks {lacks}: add that, listen on \
             127.0.0.1, or say --insecure",
            self.listen
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Arguments {
        Arguments::try_parse_from(["serve"].into_iter().chain(line.split_whitespace())).unwrap()
    }

    #[test]
    fn answers_have_a_largest_number_of_rows_or_none() {
        assert_eq!(arguments("--query-rows 10").query_rows, Limit(NonZeroU64::new(10)));
        assert_eq!(arguments("").query_rows, Limit(None));
        assert!(Arguments::try_parse_from(["serve", "--query-rows", "0"]).is_err());
    }

    #[test]
    fn the_network_sees_no_lake_by_accident() {
        let safe = |line: &str, token| arguments(line).demand_safety(token).is_ok();
        assert!(safe("", false));
        assert!(safe("--listen [::1]:0", false));
        assert!(!safe("--listen 0.0.0.0:1", false));
        assert!(!safe("--listen 0.0.0.0:1", true));
        assert!(!safe("--listen 192.0.2.1:1 --tls-cert a --tls-key b", false));
        assert!(safe("--listen 192.0.2.1:1 --tls-cert a --tls-key b", true));
        assert!(safe("--listen 0.0.0.0:1 --insecure", false));
    }
}
