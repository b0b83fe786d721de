//! Messages on standard error other than progress, from this program and its companions.

use std::error::Error;
use std::fmt;
use std::io::IsTerminal;

use arrow::temporal_conversions::timestamp_ms_to_datetime;
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
    begin_as(verbose, program, None);
}

/// A function that words messages otherwise.
pub type Wording = fn(&str) -> String;

/// Begins as [`begin`] does, with other words for messages in the form of a failure.
///
/// # Panics
///
/// If called twice, or after [`begin`].
pub fn begin_as(verbose: u8, program: Option<&str>, wording: Option<Wording>) {
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
    if plain { log.event_format(Plain { wording }).init() } else { log.init() }
}

/// Formats an error and all its causes in one line, without repetitions.
pub fn line(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        // Some errors repeat the message of their cause.
        if !line.contains(&said) {
            line.push_str(": ");
            line.push_str(&said);
        }
        source = cause.source();
    }
    if line.contains('\n') {
        line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    line
}

/// Formats a moment as ISO 8601, in UTC.
pub fn utc(unix_ms: i64) -> String {
    let moment = timestamp_ms_to_datetime(unix_ms);
    moment.map_or_else(String::new, |at| at.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Formats an event as one line, without the time and the place in the program.
struct Plain {
    wording: Option<Wording>,
}

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
        match self.wording {
            None => context.format_fields(writer.by_ref(), event)?,
            Some(wording) => {
                let mut message = String::new();
                context.format_fields(Writer::new(&mut message), event)?;
                writer.write_str(&wording(&message))?;
            }
        }
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

    #[derive(Debug, thiserror::Error)]
    #[error("{said}")]
    struct Said {
        said: &'static str,
        source: Option<Box<Said>>,
    }

    fn chain(said: &[&'static str]) -> Said {
        let (first, causes) = said.split_first().expect("something was said");
        let source = (!causes.is_empty()).then(|| Box::new(chain(causes)));
        Said { said: first, source }
    }

    #[test]
    fn a_failure_is_one_line_that_says_each_thing_once() {
        let error = chain(&["cannot read it", "no such bucket: lakes", "lakes", "ask\n  another"]);
        assert_eq!(line(&error), "cannot read it: no such bucket: lakes: ask another");
    }
}
