//! The command line.

use std::env::VarError;
use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, ValueHint};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use steplake::assembly::arguments::{Bytes, GlobalArgs};
use steplake::assembly::command_error::CommandError;
use steplake::query::{EngineOptions, Graphs, SpillSpace};

use crate::queries::Limits;
use crate::token::Token;

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

/// The limits of queries.
#[derive(Debug, Args)]
pub(crate) struct QueryArguments {
    /// The time limit of a query, until its last row is sent: 30s, 5m, 1h, or `none`.
    #[arg(long, default_value = "5m", value_name = "TIME")]
    pub(crate) query_timeout: Limit<Span>,

    /// The memory for the sorts, joins and groups of one query, before they spill to temporary
    /// files: 512MiB, 1GiB, or `none`.
    #[arg(long, default_value = "1GiB", value_name = "BYTES")]
    pub(crate) query_memory: Limit<Bytes>,

    /// The memory for the transition graph, which is kept from one query to the next: 4GiB, or
    /// `none`.
    #[arg(long, default_value = "4GiB", value_name = "BYTES")]
    pub(crate) graph_memory: Limit<Bytes>,

    /// The disk space for temporary files of all queries together, in $TMPDIR or /tmp: 64GiB, for
    /// example. By default a quarter of what is free there, at most 64GiB.
    #[arg(long, value_name = "BYTES")]
    pub(crate) spill: Option<Bytes>,

    /// The maximum number of concurrent queries; further ones are refused.
    #[arg(long, default_value = "64", value_name = "N")]
    pub(crate) queries: NonZeroUsize,
}

impl QueryArguments {
    pub(crate) fn engine_options(&self) -> EngineOptions {
        let graphs =
            |bytes: Bytes| Graphs::within(Arc::new(GreedyMemoryPool::new(bytes.of_memory().get())));
        let spill = |bytes: Bytes| SpillSpace::of(bytes.0);
        EngineOptions {
            graphs: self.graph_memory.0.map(graphs).unwrap_or_default(),
            spill: self.spill.map(spill).unwrap_or_default(),
            reads_apart: true,
            ..EngineOptions::default()
        }
    }

    /// Returns the limits, with the most rows of an answer.
    pub(crate) fn limits(&self, rows: Option<NonZeroU64>) -> Limits {
        Limits {
            time: self.query_timeout.0.map(|span| span.0),
            memory_bytes: self.query_memory.0.map(Bytes::of_memory),
            rows,
            queries: self.queries,
        }
    }
}

impl Arguments {
    /// Refuses to expose the lake to the network by accident.
    ///
    /// # Errors
    ///
    /// If other machines can reach the address, and a token or TLS is missing.
    pub(crate) fn demand_safety(&self, has_token: bool) -> Result<(), CommandError> {
        if self.listen.ip().is_loopback() || self.insecure {
            return Ok(());
        }
        let lacks = match (has_token, self.tls_cert.is_some()) {
            (true, true) => return Ok(()),
            (true, false) => "TLS (--tls-cert and --tls-key)",
            (false, true) => "a token (--token-file)",
            (false, false) => "a token (--token-file) and TLS (--tls-cert and --tls-key)",
        };
        Err(CommandError::usage(format!(
            "{} can be reached from other machines, and this server lacks {lacks}: add that, listen on \
             127.0.0.1, or say --insecure",
            self.listen
        )))
    }
}

/// Returns the token that clients must send, if any, and its text: that of the file, or that of
/// `STEPLAKE_TOKEN`.
///
/// # Errors
///
/// If it cannot be read, or is invalid.
pub(crate) fn read_token(file: Option<&Path>) -> Result<Option<(Token, String)>, CommandError> {
    let (text, from) = match file {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                CommandError::usage(format!(
                    "the token cannot be read from {}: {error}",
                    path.display()
                ))
            })?;
            (text, path.display().to_string())
        }
        None => match std::env::var("STEPLAKE_TOKEN") {
            Ok(text) => (text, "STEPLAKE_TOKEN".to_owned()),
            Err(VarError::NotPresent) => return Ok(None),
            // The user meant to set a token: without it, everybody could read the lake.
            Err(VarError::NotUnicode(_)) => {
                return Err(CommandError::usage(
                    "STEPLAKE_TOKEN is not text: write one line of visible characters, or unset it",
                ));
            }
        },
    };
    let token = Token::new(&text).ok_or_else(|| {
        CommandError::usage(format!(
            "{from} has no valid token: write one line of visible characters, e.g. from `openssl rand -hex 32`"
        ))
    })?;
    Ok(Some((token, text.trim().to_owned())))
}

/// A limit, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit<T>(pub(crate) Option<T>);

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
pub(crate) struct Span(pub(crate) Duration);

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
    use super::*;

    fn arguments(line: &str) -> Arguments {
        Arguments::try_parse_from(["serve"].into_iter().chain(line.split_whitespace())).unwrap()
    }

    #[test]
    fn limits_are_read_with_their_units() {
        let read = arguments("--query-timeout 90s --query-memory 64MiB --query-rows 10");
        assert_eq!(read.queries.graph_memory, Limit(Some(Bytes(4 << 30))));
        assert_eq!(read.queries.query_timeout, Limit(Some(Span(Duration::from_secs(90)))));
        assert_eq!(read.queries.query_memory, Limit(Some(Bytes(64 << 20))));
        assert_eq!(read.query_rows, Limit(NonZeroU64::new(10)));
        let none = arguments("--query-timeout none --query-memory none");
        assert_eq!(
            (none.queries.query_timeout, none.queries.query_memory),
            (Limit(None), Limit(None))
        );
        for wrong in
            ["--query-timeout 5", "--query-timeout 0s", "--query-memory 1XB", "--query-rows 0"]
        {
            let line = ["serve"].into_iter().chain(wrong.split_whitespace());
            assert!(Arguments::try_parse_from(line).is_err(), "{wrong}");
        }
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
