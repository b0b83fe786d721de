//! What Ballista and DataFusion say of themselves, on standard error.

use std::io::Write as _;

use log::{Level, LevelFilter, Log, Metadata, Record};

/// Lines of text on standard error.
struct Lines;

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let own = ["ballista", "datafusion"].iter().any(|name| metadata.target().starts_with(name));
        // Of the network below them only what goes wrong.
        own || metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // Nobody may be left to read it.
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

/// Sends them, as loud as was asked for. Unasked only errors: a client says in its own words what
/// went wrong.
pub(crate) fn begin(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::Off,
        1 => LevelFilter::Info,
        2 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    if log::set_logger(&Lines).is_ok() {
        log::set_max_level(level);
    }
}
