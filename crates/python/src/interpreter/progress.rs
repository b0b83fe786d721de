//! Progress for a person who waits: one line on standard error.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::prelude::*;

/// How long a call takes before its progress is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// The columns of the line.
const COLUMNS: usize = 79;

/// What a call shows of its progress.
pub(crate) struct Progress {
    is_wanted: Option<bool>,
    text: Box<dyn Fn() -> String + Send + Sync>,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").field("is_wanted", &self.is_wanted).finish_non_exhaustive()
    }
}

impl Progress {
    /// Shows `text`. `None`: where a person may be waiting, in a terminal or a notebook.
    pub(crate) fn new(
        is_wanted: Option<bool>,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        Self { is_wanted, text: Box::new(text) }
    }

    pub(crate) fn none() -> Self {
        Self::new(Some(false), String::new)
    }

    pub(crate) fn begin(&self, py: Python<'_>) -> ProgressLine<'_> {
        let is_wanted = self.is_wanted.unwrap_or_else(|| is_watched(py).unwrap_or(false));
        ProgressLine { progress: self, is_wanted, began: Instant::now(), width: 0 }
    }
}

/// Returns whether a person may be waiting.
fn is_watched(py: Python<'_>) -> PyResult<bool> {
    let sys = py.import("sys")?;
    if sys.getattr("modules")?.contains("ipykernel")? {
        return Ok(true);
    }
    let out = sys.getattr("stderr")?;
    Ok(!out.is_none() && out.call_method0("isatty")?.is_truthy()?)
}

/// A line of progress.
pub(crate) struct ProgressLine<'a> {
    progress: &'a Progress,
    is_wanted: bool,
    began: Instant,
    width: usize,
}

impl ProgressLine<'_> {
    /// Shows the progress, once the call has taken a while.
    pub(crate) fn show(&mut self, py: Python<'_>) {
        if self.is_wanted && self.began.elapsed() > SHOWN_AFTER {
            let seconds = self.began.elapsed().as_secs();
            let line = format!("{}  {}:{:02}", (self.progress.text)(), seconds / 60, seconds % 60);
            self.write(py, &line);
        }
    }

    /// Removes the line.
    pub(crate) fn end(&mut self, py: Python<'_>) {
        if self.width > 0 {
            self.write(py, "");
            Self::print(py, "\r");
        }
    }

    fn write(&mut self, py: Python<'_>, line: &str) {
        let line: String = line.chars().take(COLUMNS).collect();
        let width = line.chars().count();
        Self::print(py, &format!("\r{line}{:1$}", "", self.width.saturating_sub(width)));
        self.width = width;
    }

    /// Progress that cannot be shown is no reason to fail.
    fn print(py: Python<'_>, text: &str) {
        let printed = py.import("sys").and_then(|sys| {
            let out = sys.getattr("stderr")?;
            out.call_method1("write", (text,))?;
            out.call_method0("flush")
        });
        drop(printed);
    }
}

/// Progress that one thread notes and another one shows: what is done, of how much.
#[derive(Debug, Default)]
pub(crate) struct ProgressCounter(Mutex<(u64, u64, Option<&'static str>)>);

impl ProgressCounter {
    pub(crate) fn set(&self, done: u64, all: u64) {
        *self.0.lock() = (done, all, None);
    }

    /// Counts other things than the text names.
    pub(crate) fn set_of(&self, done: u64, all: u64, things: &'static str) {
        *self.0.lock() = (done, all, Some(things));
    }

    /// Returns `doing: 12 of 34 things`.
    pub(crate) fn text(&self, doing: &str, things: &str) -> String {
        let (done, all, other) = *self.0.lock();
        format!("{doing} {done} of {all} {}", other.unwrap_or(things))
    }
}
