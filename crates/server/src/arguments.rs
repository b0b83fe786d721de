//! The options that servers share.

use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueHint};
use steplake::Error;
use steplake::query::{EngineOptions, GraphCache, SpillSpace};
use steplake_terminal::arguments::Bytes;

use crate::access::Access;
use crate::queries::QueryLimits;
use crate::tls::Certificate;

/// The fewest bytes of files for each part of an answer.
const PART_BYTES_MIN: NonZeroU64 = NonZeroU64::new(4 << 20).expect("it is some bytes");

/// Who may ask, and how the answers travel.
#[derive(Debug, Args)]
pub struct AccessArguments {
    /// A file with the token that clients must send, or with lines of a name, its rights (`read`,
    /// `step`, `record`, `admin`) and its token. It is read again when it changes. Without it, the
    /// variable `STEPLAKE_TOKEN` may have a token.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,

    /// The server's certificate, and those that lead to its issuer, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    pub tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub tls_key: Option<PathBuf>,

    /// Listen on an address that other machines can reach all the same, without TLS or a token.
    #[arg(long)]
    pub insecure: bool,
}

impl AccessArguments {
    /// Reads the tokens, if there are any, and returns the text of the token too, if it is the only
    /// one.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are invalid.
    pub fn tokens(&self) -> Result<Option<(Access, Option<String>)>, Error> {
        Access::open(self.token_file.as_deref())
    }

    /// Refuses to expose something to the network by accident.
    ///
    /// # Errors
    ///
    /// If other machines can reach one of `addresses`, and a token or TLS is missing.
    pub fn demand_safety(&self, addresses: &[SocketAddr], has_token: bool) -> Result<(), Error> {
        let mut addresses = addresses.iter();
        let reachable = addresses.find(|address| !address.ip().is_loopback());
        let Some(reachable) = reachable.filter(|_| !self.insecure) else { return Ok(()) };
        let lacks = match (has_token, self.tls_cert.is_some()) {
            (true, true) => return Ok(()),
            (true, false) => "TLS (--tls-cert and --tls-key)",
            (false, true) => "a token (--token-file)",
            (false, false) => "a token (--token-file) and TLS (--tls-cert and --tls-key)",
        };
        Err(Error::usage(format!(
            "{reachable} can be reached from other machines, and this server lacks {lacks}: add that, listen on \
             127.0.0.1, or say --insecure"
        )))
    }

    /// Reads the certificate and its key, if there are any.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn certificate(&self) -> Result<Option<Certificate>, Error> {
        let files = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        files.map(|(chain, key)| Certificate::read(chain, key)).transpose()
    }
}

/// The limits of queries.
#[derive(Debug, Args)]
pub struct QueryArguments {
    /// The time limit of a query, until its last row is sent: 30s, 5m, 1h, or `none`.
    #[arg(long, default_value = "5m", value_name = "TIME")]
    pub query_timeout: Limit<Span>,

    /// The memory for the sorts, joins and groups of one query, before they spill to temporary
    /// files: 512MiB, 1GiB, or `none`.
    #[arg(long, default_value = "1GiB", value_name = "BYTES")]
    pub query_memory: Limit<Bytes>,

    /// The memory for the transition graph, which is kept from one query to the next: 4GiB, or
    /// `none`.
    #[arg(long, default_value = "4GiB", value_name = "BYTES")]
    pub graph_memory: Limit<Bytes>,

    /// The disk space for temporary files of all queries together, in $TMPDIR or /tmp: 64GiB, for
    /// example. By default a quarter of what is free there, at most 64GiB.
    #[arg(long, value_name = "BYTES")]
    pub spill: Option<Bytes>,

    /// The maximum number of concurrent queries; further ones are refused.
    #[arg(long, default_value = "64", value_name = "N")]
    pub queries: NonZeroUsize,
}

impl QueryArguments {
    /// Returns the options of the engines.
    pub fn engine_options(&self) -> EngineOptions {
        let graphs = |bytes: Bytes| GraphCache::within_bytes(bytes.of_memory().get());
        let spill = |bytes: Bytes| SpillSpace::of(bytes.0);
        EngineOptions {
            graphs: self.graph_memory.0.map(graphs).unwrap_or_default(),
            spill: self.spill.map(spill).unwrap_or_default(),
            reads_apart: true,
            ..EngineOptions::default()
        }
    }

    /// Returns the limits, with the most rows of an answer.
    pub fn limits(&self, rows: Option<NonZeroU64>) -> QueryLimits {
        QueryLimits {
            time: self.query_timeout.0.map(|span| span.0),
            memory_bytes: self.query_memory.0.map(Bytes::of_memory),
            rows,
            queries: self.queries,
            part_bytes_min: PART_BYTES_MIN,
        }
    }
}

/// A limit, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<T>(pub Option<T>);

impl<T: FromStr<Err: fmt::Display>> FromStr for Limit<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        text.parse().map(|limit| Self(Some(limit))).map_err(|error| format!("{error}; or `none`"))
    }
}

/// A duration such as `30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
        let number = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
        let unit = units.iter().find(|(name, _)| *name == &text[number.len()..]);
        let millis = unit.and_then(|(_, worth)| number.parse::<u64>().ok()?.checked_mul(*worth));
        let millis = millis.filter(|millis| *millis > 0);
        Ok(Self(Duration::from_millis(millis.ok_or("write a time as in 500ms, 30s, 5m or 1h")?)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        queries: QueryArguments,
        #[command(flatten)]
        access: AccessArguments,
    }

    #[test]
    fn the_network_sees_nothing_by_accident() {
        let is_safe = |address: &str, line: &str, has_token| {
            let line = ["serve"].into_iter().chain(line.split_whitespace());
            let addresses = ["127.0.0.1:1", address].map(|address| address.parse().unwrap());
            let line = Line::try_parse_from(line).unwrap();
            line.access.demand_safety(&addresses, has_token).is_ok()
        };
        let tls = "--tls-cert a --tls-key b";
        assert!(is_safe("[::1]:0", "", false) && is_safe("127.0.0.1:1", "", true));
        assert!(!is_safe("0.0.0.0:1", "", false) && !is_safe("0.0.0.0:1", "", true));
        assert!(!is_safe("192.0.2.1:1", tls, false) && is_safe("192.0.2.1:1", tls, true));
        assert!(is_safe("0.0.0.0:1", "--insecure", false));
    }

    fn arguments(line: &str) -> Result<QueryArguments, clap::Error> {
        let line = ["serve"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(line).map(|line| line.queries)
    }

    #[test]
    fn limits_are_read_with_their_units() {
        let read = arguments("--query-timeout 90s --query-memory 64MiB").unwrap();
        assert_eq!(read.graph_memory, Limit(Some(Bytes(4 << 30))));
        assert_eq!(read.query_timeout, Limit(Some(Span(Duration::from_secs(90)))));
        assert_eq!(read.query_memory, Limit(Some(Bytes(64 << 20))));
        let none = arguments("--query-timeout none --query-memory none").unwrap();
        assert_eq!((none.query_timeout, none.query_memory), (Limit(None), Limit(None)));
        for wrong in ["--query-timeout 5", "--query-timeout 0s", "--query-memory 1XB"] {
            assert!(arguments(wrong).is_err(), "{wrong}");
        }
    }
}
