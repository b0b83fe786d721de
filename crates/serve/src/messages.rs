//! What is said on standard error while the server runs.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::arguments::Arguments;

/// Sends the log to standard error, as loud as was asked for; `STEPLAKE_LOG` says it in detail.
pub(crate) fn begin(arguments: &Arguments) {
    let level = match (arguments.quiet, arguments.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    let wanted = EnvFilter::try_from_env("STEPLAKE_LOG").unwrap_or_else(|_unset| {
        EnvFilter::new(format!("steplake={level},steplake_serve={level}"))
    });
    tracing_subscriber::fmt()
        .with_env_filter(wanted)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false)
        .init();
}
