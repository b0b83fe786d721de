//! Texts on standard output, and progress bars on standard error.

use std::io::Write;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::arguments::GlobalArgs;
use steplake_model::Error;

/// The interval at which a progress bar is redrawn.
pub const DRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Writes a text to standard output. It is no error if the reader closes the pipe early.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn print(text: &str) -> Result<(), Error> {
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

/// Formats a number with its noun and verb: `1 file is`, `1,200 files are`.
pub fn counted_are(count: u64, noun: &str) -> String {
    format!("{} {}", counted(count, noun), if count == 1 { "is" } else { "are" })
}

/// Returns a bar of `length`, shown if standard error is a terminal and the user did not ask for
/// quiet. It disappears when it is dropped.
///
/// # Panics
///
/// If the template is invalid.
pub fn bar(global: &GlobalArgs, length: u64, template: &str) -> ProgressBar {
    let target =
        if global.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template(template).expect("the templates are ours");
    let bar = ProgressBar::with_draw_target(Some(length), target);
    bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    bar.enable_steady_tick(DRAW_INTERVAL);
    bar
}

/// Runs `work` behind a bar that shows how much of how much it reports as done.
pub fn with_bar<T>(
    global: &GlobalArgs,
    template: &str,
    work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T,
) -> T {
    let bar = bar(global, 0, template);
    work(&mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    })
}
