//! A terminal with a person at it: types, and reads until what she waits for is there.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};

use crate::fixtures::programs::{PATIENCE, end, end_of, program};

/// Rows and columns of the terminal.
pub(crate) const ROWS: u16 = 24;
const COLUMNS: u16 = 200;

pub(crate) struct Terminal {
    keyboard: File,
    shell: Child,
    /// What was shown and is not read yet.
    unread: String,
    /// All that was shown, for the report.
    shown: String,
}

impl Terminal {
    /// Begins the shell on a new terminal, with its state in `state`.
    pub(crate) fn open(lake: &Path, state: &Path, variables: &[(&str, &str)]) -> Self {
        Self::start(lake, state, &["sql"], variables)
    }

    /// Runs a command on a new terminal.
    pub(crate) fn start(
        lake: &Path,
        state: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).unwrap();
        // A session of its own, whose terminal this is: only so does Ctrl-C become a signal.
        let mut command = program("setsid");
        command.args(["--ctty", env!("CARGO_BIN_EXE_steplake")]).args(arguments);
        command.env("STEPLAKE_LAKE", lake).env_remove("STEPLAKE_LOG").env("XDG_STATE_HOME", state);
        command.env("TERM", "xterm").env("NO_COLOR", "1").env("PAGER", "");
        command.envs(variables.iter().copied());
        let screen = || pair.slave.try_clone().unwrap();
        let shell = command.stdin(screen()).stdout(screen()).stderr(screen()).spawn().unwrap();
        let keyboard = File::from(pair.master);
        Self { keyboard, shell, unread: String::new(), shown: String::new() }
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the prompt, and types a line.
    pub(crate) fn enter(&mut self, line: &str) {
        self.expect("lake> ");
        self.type_in(line);
        self.type_in("\r");
    }

    /// Reads on until `text` is shown; what was shown before it.
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.unread.find(text) {
                let before = self.unread[..at].to_owned();
                self.unread.drain(..at + text.len());
                return before;
            }
            assert!(self.read(deadline), "{text:?} never came:\n{}", self.shown);
        }
    }

    /// Waits for the shell's end.
    pub(crate) fn end(mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        while self.read(deadline) {}
        end_of(&mut self.shell, "what runs on the terminal")
    }

    /// Reads what is there next; false where the shell has gone, or it is too late.
    fn read(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap();
        let mut ready = [PollFd::new(self.keyboard.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, timeout).unwrap() == 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        // A terminal whose other end is closed gives an error.
        let Ok(count @ 1..) = self.keyboard.read(&mut bytes) else { return false };
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        self.shown.push_str(&text);
        self.unread.push_str(&text);
        true
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        end(&mut self.shell);
    }
}
