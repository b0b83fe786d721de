//! The command line of `steplake explore`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use clap::Parser;
use steplake::Error;
use steplake::environments::{STEP_CPU_SECONDS, WORKER_MEMORY_MIB};
use steplake_terminal::arguments::GlobalArgs;

use steplake_server::{Access, AccessArguments, QueryArguments, Span};

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
    /// requires a token, and TLS or --insecure.
    #[arg(long, default_value = "127.0.0.1:31340", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,

    #[command(flatten)]
    pub(crate) access: AccessArguments,

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
    /// Reads the tokens, and refuses to expose the compiler and the lake to the network by
    /// accident.
    ///
    /// # Errors
    ///
    /// If the tokens cannot be read; or if other machines can reach the address, and a token is
    /// missing, or TLS without --insecure.
    pub(crate) fn tokens(&self) -> Result<Option<(Access, Option<String>)>, Error> {
        let access = self.access.tokens()?;
        self.demand_safety(access.is_some())?;
        Ok(access)
    }

    fn demand_safety(&self, has_token: bool) -> Result<(), Error> {
        if has_token || self.listen.ip().is_loopback() {
            return self.access.demand_safety(&[self.listen], has_token);
        }
        // Pages of others could ask in the name of a browser that reaches the address.
        Err(Error::usage(format!(
            "{} can be reached from other machines, and this server lacks a token (--token-file): add that, or \
             listen on 127.0.0.1 and forward the port with `ssh -L`",
            self.listen
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_sees_nothing_by_accident() {
        let is_safe = |line: &str, has_token| {
            let line = ["explore"].into_iter().chain(line.split_whitespace());
            ExploreArguments::try_parse_from(line).unwrap().demand_safety(has_token).is_ok()
        };
        assert!(is_safe("", false) && is_safe("--listen [::1]:0", false));
        assert!(!is_safe("--listen 0.0.0.0:1", false));
        assert!(!is_safe("--listen 0.0.0.0:1", true));
        assert!(!is_safe("--listen 0.0.0.0:1 --insecure", false));
        assert!(is_safe("--listen 0.0.0.0:1 --insecure", true));
        assert!(is_safe("--listen 0.0.0.0:1 --tls-cert a --tls-key b", true));
    }
}
