//! Shows the progress of a question that takes long.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{
    HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

use crate::query::QueryProgress;

/// The time before the line appears: most questions are answered by then.
const DELAY: Duration = Duration::from_secs(1);
/// The interval at which the line is redrawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);

/// A progress line on standard error, if that is a terminal and the user did not ask for quiet. It
/// is shown from a second after the start until it ends or is dropped.
#[derive(Debug, Clone)]
pub(in crate::console) struct Spinner {
    shown: Arc<Mutex<Shown>>,
}

#[derive(Debug, Default)]
struct Shown {
    ended: bool,
    bar: Option<ProgressBar>,
    progress: Option<QueryProgress>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Spinner {
    /// Starts the wait for the line to appear; requires a runtime.
    pub(in crate::console) fn start(is_quiet: bool) -> Self {
        let spinner = Self { shown: Arc::default() };
        let target = ProgressDrawTarget::stderr();
        if !is_quiet && !target.is_hidden() {
            let shown = Arc::downgrade(&spinner.shown);
            tokio::spawn(async move {
                tokio::time::sleep(DELAY).await;
                if let Some(shown) = shown.upgrade() {
                    Self { shown }.draw(target);
                }
            });
        }
        spinner
    }

    /// Returns a spinner that shows nothing.
    pub(in crate::console) fn idle() -> Self {
        Self { shown: Arc::default() }
    }

    /// Sets the progress to show.
    pub(in crate::console) fn follow(&self, progress: QueryProgress) {
        self.lock().progress = Some(progress);
    }

    /// Ends the progress and clears its line.
    pub(in crate::console) fn end(&self) {
        let bar = {
            let mut shown = self.lock();
            shown.ended = true;
            shown.progress = None;
            shown.bar.take()
        };
        // The lock must be free here: the bar may be drawing, and drawing takes the lock.
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }

    fn draw(self, target: ProgressDrawTarget) {
        let read = Arc::downgrade(&self.shown);
        let counts = move |_: &ProgressState, out: &mut dyn fmt::Write| {
            let shown = read.upgrade();
            let progress = shown.and_then(|shown| lock(&shown).progress.clone());
            if let Some(progress) = progress {
                let (rows, bytes) = (HumanCount(progress.rows()), HumanBytes(progress.bytes()));
                // A progress line that cannot be written matters to nobody.
                let _ = write!(out, "{rows} rows, {bytes} read");
            }
        };
        let style = ProgressStyle::with_template("{spinner} {elapsed} {counts}  (Ctrl-C stops it)");
        let style = style.expect("the template is ours").with_key("counts", counts);
        let bar = ProgressBar::with_draw_target(None, target).with_elapsed(DELAY).with_style(style);
        {
            let mut shown = self.lock();
            if shown.ended {
                return;
            }
            shown.bar = Some(bar.clone());
        }
        bar.enable_steady_tick(DRAW_INTERVAL);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shown> {
        lock(&self.shown)
    }
}

fn lock(shown: &Mutex<Shown>) -> std::sync::MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
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
