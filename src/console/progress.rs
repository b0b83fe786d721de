//! Shows the progress of a question that takes long.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use indicatif::{
    HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

use crate::query::{Answer, Format, QueryError, QueryProgress, TableLimits, Written, write};
use steplake_terminal::output::DRAW_INTERVAL;

/// The time before the line appears: most questions are answered by then.
const DELAY: Duration = Duration::from_secs(1);

/// A progress line on standard error, if that is a terminal and the user did not ask for quiet. It
/// is shown from a second after the start until it ends or is dropped.
#[derive(Debug, Clone)]
pub(in crate::console) struct Spinner {
    bar: ProgressBar,
    progress: Arc<OnceLock<QueryProgress>>,
}

impl Spinner {
    /// Starts the wait for the line to appear; requires a runtime.
    pub(in crate::console) fn start(is_quiet: bool) -> Self {
        let spinner = Self::idle();
        let target = ProgressDrawTarget::stderr();
        if !is_quiet && !target.is_hidden() {
            let bar = spinner.bar.downgrade();
            tokio::spawn(async move {
                tokio::time::sleep(DELAY).await;
                if let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
                    bar.set_draw_target(target);
                    bar.enable_steady_tick(DRAW_INTERVAL);
                }
            });
        }
        spinner
    }

    /// Returns a spinner that shows nothing.
    pub(in crate::console) fn idle() -> Self {
        let progress: Arc<OnceLock<QueryProgress>> = Arc::default();
        let shown = Arc::clone(&progress);
        let counts = move |_: &ProgressState, out: &mut dyn fmt::Write| {
            if let Some(progress) = shown.get() {
                let (rows, bytes) = (HumanCount(progress.rows()), HumanBytes(progress.bytes()));
                // A progress line that cannot be written does no harm.
                let _ = write!(out, "{rows} rows, {bytes} read");
            }
        };
        let style = ProgressStyle::with_template("{spinner} {elapsed} {counts}  (Ctrl-C stops it)");
        let style = style.expect("the template is ours").with_key("counts", counts);
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Self { bar: bar.with_style(style), progress }
    }

    /// Sets the progress to show; a question has one.
    pub(in crate::console) fn follow(&self, progress: QueryProgress) {
        let _ = self.progress.set(progress);
    }

    /// Ends the progress and clears its line.
    pub(in crate::console) fn end(&self) {
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }
}

/// A writer to the terminal that shows the progress line: its first byte ends that line.
#[derive(Debug)]
pub(in crate::console) struct AfterSpinner<W> {
    pub(in crate::console) out: W,
    pub(in crate::console) spinner: Spinner,
}

impl<W: Write> Write for AfterSpinner<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.spinner.end();
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes an answer while `spinner` shows its progress.
pub(super) async fn write_answer(
    answer: Answer,
    format: Format,
    limits: TableLimits,
    out: impl Write + Send,
    spinner: &Spinner,
) -> Result<Written, QueryError> {
    spinner.follow(answer.progress());
    format.check(&answer.schema())?;
    write(answer, format, limits, out).await
}

/// Returns `None` for an answer whose reader closed the pipe, as `head` does when it has enough.
pub(super) fn until_closed(
    written: Result<Written, QueryError>,
) -> Result<Option<Written>, QueryError> {
    match written {
        Err(QueryError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(None),
        written => written.map(Some),
    }
}
