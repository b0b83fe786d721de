//! The command line.

use std::net::SocketAddr;
use std::num::NonZeroU64;

use clap::Parser;
use steplake_server::{AccessArguments, Limit, QueryArguments, Span};
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

    #[command(flatten)]
    pub(crate) access: AccessArguments,

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
}
