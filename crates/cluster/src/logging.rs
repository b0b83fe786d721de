//! The log of Ballista and DataFusion, on standard error.

use std::io::Write as _;

use log::{Level, LevelFilter, Log, Metadata, Record};

/// Writes each record as a line to standard error.
struct StderrLog;

impl Log for StderrLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let own = ["ballista", "datafusion"].iter().any(|name| metadata.target().starts_with(name));
        // Of the network libraries, only warnings and errors.
        own || metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // Standard error may be closed.
            let _ = writeln!(
                std::io::stderr(),
                "{} {}: {}",
                record.level(),
                record.target(),
                record.args()
            );
        }
    }

    fn flush(&self) {}
}

/// Starts the log at the level of `-v`. Without `-v` there is none: the commands report errors
/// themselves.
pub(crate) fn begin(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::Off,
        1 => LevelFilter::Info,
        2 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    if log::set_logger(&StderrLog).is_ok() {
        log::set_max_level(level);
    }
}
