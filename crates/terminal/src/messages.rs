//! Messages on standard error other than progress, from this program and its companions.

use std::fmt;
use std::io::IsTerminal;

use chrono::DateTime;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Sends the log of the library, and of the companion `program`, to standard error: warnings only
/// at `verbose` 0, everything from 3 on, or what `STEPLAKE_LOG` selects. By default, a warning has
/// the form of a failure.
///
/// # Panics
///
/// If called twice.
pub fn begin(verbose: u8, program: Option<&str>) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let wanted = EnvFilter::try_from_env("STEPLAKE_LOG");
    let plain = wanted.is_err() && verbose == 0;
    let filter = wanted.unwrap_or_else(|_unset| {
        let own = program.map(|name| format!(",{name}={level}")).unwrap_or_default();
        EnvFilter::new(format!("steplake={level}{own}"))
    });
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false);
    if plain { log.event_format(Plain).init() } else { log.init() }
}

/// Formats a moment as ISO 8601, in UTC.
pub fn utc(unix_ms: i64) -> String {
    let moment = DateTime::from_timestamp_millis(unix_ms);
    moment.map_or_else(String::new, |at| at.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Formats an event as one line, without the time and the place in the program.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_827_696_000), "2000-02-29T12:34:56Z");
        assert_eq!(utc(1_767_225_599_999), "2025-12-31T23:59:59Z");
    }
}
