//! The command line of `steplake explore`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Parser, ValueHint};
use steplake::Error;
use steplake::environments::{STEP_CPU_SECONDS, WORKER_MEMORY_MIB};
use steplake_terminal::arguments::GlobalArgs;

use steplake_server::{QueryArguments, Span};

/// Open a page in the browser to explore the lake and the compiler.
///
/// The page has live sessions of the compiler as trees, the code before and after each action, and
/// the lake: its graph, best sequences, questions in SQL, and the progress of a run. It needs no
/// lake for live sessions, and follows a growing one. docs/EXPLORING.md describes it and the REST
/// interface under it.
#[derive(Debug, Parser)]
#[command(
    name = "steplake explore",
    bin_name = "steplake explore",
    version,
    after_help = "\
A token is read from --token-file or STEPLAKE_TOKEN, never from the command line, where everybody on the
machine could see it. Without one, everybody on this machine may use the compiler and read the lake.

Exit codes: 0 stopped by SIGINT or SIGTERM; 1 it failed; 2 the command line is wrong; 3 the lake cannot
be used."
)]
pub(crate) struct ExploreArguments {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,

    /// The address to listen on; port 0 takes a free port. An address that other machines can reach
    /// requires a token and --insecure.
    #[arg(long, default_value = "127.0.0.1:31340", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,

    /// A file with the bearer token that the page must send.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,

    /// Listen on an address that other machines can reach, without TLS: who can read the network
    /// can read the token.
    #[arg(long)]
    pub(crate) insecure: bool,

    /// Show only snapshot N of the lake (`steplake snapshots` lists them).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) snapshot: Option<i64>,

    /// Do not open the browser.
    #[arg(long)]
    pub(crate) no_open: bool,

    /// The environment of live sessions.
    #[arg(long, default_value = "llvm-v0", value_name = "NAME")]
    pub(crate) env: String,

    /// The number of live sessions at a time. When there are more, the one that nobody has used in
    /// the longest time ends.
    #[arg(long, default_value = "64", value_name = "N")]
    pub(crate) sessions: NonZeroUsize,

    /// The time after which a live session that nobody uses ends: 30m, 1h.
    #[arg(long, default_value = "1h", value_name = "TIME")]
    pub(crate) session_timeout: Span,

    /// The CPU seconds that a step may take before it counts as a failure.
    #[arg(long, default_value_t = STEP_CPU_SECONDS, value_name = "SECONDS")]
    pub(crate) step_cpu_seconds: u64,

    /// The address space of a compiler's process in MiB.
    #[arg(long, default_value_t = WORKER_MEMORY_MIB, value_name = "MIB")]
    pub(crate) worker_memory_mib: u64,

    #[command(flatten)]
    pub(crate) queries: QueryArguments,
}

impl ExploreArguments {
    /// Refuses to expose the compiler and the lake to the network by accident.
    ///
    /// # Errors
    ///
    /// If other machines can reach the address, and a token or --insecure is missing.
    pub(crate) fn demand_safety(&self, has_token: bool) -> Result<(), Error> {
        if self.listen.ip().is_loopback() || (has_token && self.insecure) {
            return Ok(());
        }
        let lacks = match (has_token, self.insecure) {
            (true, _) => "--insecure, since it does not encrypt",
            (false, true) => "a token (--token-file)",
            (false, false) => "a token (--token-file) and --insecure, since it does not encrypt",
        };
        Err(Error::usage(format!(
            "{} can be reached from other machines, and this server lacks {lacks}: add that, or listen on \
             127.0.0.1 and forward the port with `ssh -L`",
            self.listen
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_sees_nothing_by_accident() {
        let safe = |line: &str, token| {
            let line = ["explore"].into_iter().chain(line.split_whitespace());
            ExploreArguments::try_parse_from(line).unwrap().demand_safety(token).is_ok()
        };
        assert!(safe("", false) && safe("--listen [::1]:0", false));
        assert!(!safe("--listen 0.0.0.0:1", false));
        assert!(!safe("--listen 0.0.0.0:1", true));
        assert!(!safe("--listen 0.0.0.0:1 --insecure", false));
        assert!(safe("--listen 0.0.0.0:1 --insecure", true));
    }
}
