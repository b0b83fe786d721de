//! Texts on standard output.

use std::io::Write;

use indicatif::HumanCount;

use super::failure::CommandError;

/// Writes a text to standard output. It is no error if the reader closes the pipe early.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn print(text: &str) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// Formats a number with its noun: `1 file`, `1,200 files`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", HumanCount(count), if count == 1 { "" } else { "s" })
}
