//! What is said on standard error, beside progress and failures.

use std::fmt;
use std::io::IsTerminal;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::args::Cli;

/// Sends the log to standard error, as loud as was asked for. To those who asked for none, warnings are
/// said as failures are.
pub(super) fn begin(cli: &Cli) {
    let level = match cli.verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let wanted = EnvFilter::try_from_env("STEPLAKE_LOG");
    let plain = wanted.is_err() && cli.verbose == 0;
    let filter = wanted.unwrap_or_else(|_unset| EnvFilter::new(format!("steplake={level}")));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false);
    if plain { log.event_format(Plain).init() } else { log.init() }
}

/// One line, without the time and the place in the program.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str("steplake: ")?;
        if *event.metadata().level() == Level::WARN {
            writer.write_str("warning: ")?;
        }
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
