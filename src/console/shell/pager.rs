//! Shows long answers in a pager.
#![expect(clippy::disallowed_methods, reason = "the user chooses the pager, and its environment")]

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

/// The size of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Lines left for the prompt and the time.
const ROWS_LEFT: usize = 3;

/// Writes what fits on the screen to standard output, and longer output to a pager: `$PAGER`, or
/// less. Without a pager, or if `$PAGER` is empty, everything goes to standard output.
#[derive(Debug)]
pub(super) struct Paged {
    screen: Screen,
    /// Output that may still fit.
    held: Vec<u8>,
    /// Number of lines in `held`.
    rows: usize,
    /// Characters since the last line began.
    column: usize,
    is_wide: bool,
    to: To,
    pager: Pager,
}

#[derive(Debug)]
enum To {
    /// Not decided yet.
    Held,
    Stdout,
    Pager(std::process::ChildStdin),
}

impl Paged {
    pub(super) fn new(screen: Screen) -> Self {
        let pager = Pager::default();
        Self { screen, held: Vec::new(), rows: 0, column: 0, is_wide: false, to: To::Held, pager }
    }

    /// Returns a handle that can wait for the pager, and outlives this writer.
    pub(super) fn pager(&self) -> Pager {
        self.pager.clone()
    }

    /// Writes what is held to the screen, and waits until the user leaves the pager.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if matches!(self.to, To::Held) && self.is_wide {
            self.turn(true)?;
        }
        match self.to {
            To::Held => {
                let mut out = io::stdout().lock();
                out.write_all(&self.held)?;
                out.flush()
            }
            To::Stdout => io::stdout().flush(),
            To::Pager(stdin) => {
                drop(stdin);
                self.pager.wait();
                Ok(())
            }
        }
    }

    /// Starts the pager with what is held. Less exits by itself if everything fits on one screen,
    /// but wide output should stay visible.
    fn turn(&mut self, wide: bool) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        if let Some(mut stdin) = self.pager.begin(wide) {
            let written = stdin.write_all(&held);
            self.to = To::Pager(stdin);
            written
        } else {
            self.to = To::Stdout;
            io::stdout().write_all(&held)
        }
    }

    fn count(&mut self, bytes: &[u8]) {
        for character in String::from_utf8_lossy(bytes).chars() {
            if character == '\n' {
                (self.rows, self.column) = (self.rows + 1, 0);
            } else {
                self.column += 1;
                self.is_wide |= self.column > self.screen.columns;
            }
        }
    }
}

impl Write for Paged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Stdout => return io::stdout().write(bytes),
            To::Pager(stdin) => return stdin.write(bytes),
            To::Held => {}
        }
        self.held.extend_from_slice(bytes);
        self.count(bytes);
        if self.rows + ROWS_LEFT > self.screen.rows {
            self.turn(self.is_wide)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Held => Ok(()),
            To::Stdout => io::stdout().flush(),
            To::Pager(stdin) => stdin.flush(),
        }
    }
}

/// The pager process, once started.
#[derive(Debug, Clone, Default)]
pub(super) struct Pager(Arc<Mutex<PagerProcess>>);

#[derive(Debug, Default)]
struct PagerProcess {
    begun: Option<Instant>,
    child: Option<Child>,
}

impl Pager {
    fn begin(&self, wide: bool) -> Option<std::process::ChildStdin> {
        let mut command = match std::env::var_os("PAGER") {
            Some(pager) if pager.is_empty() => return None,
            Some(pager) => {
                let mut command = Command::new("sh");
                command.args([OsString::from("-c"), pager]);
                command
            }
            None => {
                let mut command = Command::new("less");
                command.arg(if wide { "-SRX" } else { "-SRFX" });
                command
            }
        };
        let mut child = command.stdin(Stdio::piped()).spawn().ok()?;
        let stdin = child.stdin.take();
        *self.process() = PagerProcess { begun: Some(Instant::now()), child: Some(child) };
        stdin
    }

    /// Returns the time at which the output exceeded the screen: after that, the reader decides.
    pub(super) fn begun(&self) -> Option<Instant> {
        self.process().begun
    }

    /// Waits until the user leaves the pager.
    pub(super) fn wait(&self) {
        let child = self.process().child.take();
        if let Some(mut child) = child {
            // The pager's exit status says nothing about the answer.
            let _ = child.wait();
        }
    }

    fn process(&self) -> MutexGuard<'_, PagerProcess> {
        self.0.lock()
    }
}
