//! What a run of a program shows.

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::Duration;

/// One run of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRun {
    /// What must be the same after every correct pass.
    pub behaviour: Behaviour,
    /// The first 64 KiB of its error output.
    pub stderr: Vec<u8>,
    /// From the start of the program, including what the system needs for it, to its end.
    pub wall_time: Duration,
    /// The CPU time of the program and all its threads. Other processes do not count; if the
    /// command is more than one program, or does not name it by a path (`./a.out`), this is the
    /// shell's time.
    pub cpu_time: Duration,
}

impl ProgramRun {
    /// Waits until a second has passed since the program began: in its next run, it finds another
    /// time, even if it asks for seconds alone.
    pub(super) fn let_a_second_pass(&self) {
        thread::sleep(Duration::from_secs(1).saturating_sub(self.wall_time));
    }
}

/// What a program did, as far as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    /// How it ended.
    pub end: ProgramEnd,
    /// Its output.
    pub stdout: Vec<u8>,
    /// The files that the run command declares, by name; none if the program did not make it.
    pub files: BTreeMap<String, Option<OutputFile>>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramEnd {
    /// It ended by itself, with this exit code. If the command is more than one program, the shell
    /// makes of a signal that ends its last one 128 and the number of the signal; those of limits
    /// are taken for what they are.
    Exit(i32),
    /// The signal of this number ended it.
    Signal(i32),
    /// It ran for longer than it may, by wall time or by CPU time.
    TimedOut,
    /// It printed more than it may.
    TooMuchOutput,
    /// It wrote a larger file than it may.
    FileTooLarge,
}

impl ProgramEnd {
    /// Whether a program that ends so, untouched, tells right from wrong: whether it ended by
    /// itself, with any exit code. A shell that cannot run it ends with 126 or 127 in every state,
    /// and with 128 and the number of the signal if it crashes.
    pub(super) fn tells_right_from_wrong(self) -> bool {
        let Self::Exit(code) = self else { return false };
        // SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL and SIGSEGV.
        !matches!(code, 126 | 127) && !matches!(code - 128, 4 | 6 | 7 | 8 | 9 | 11)
    }

    /// Whether the program ended by itself, with an exit code other than 0 or by a signal.
    pub fn is_error(self) -> bool {
        match self {
            Self::Exit(code) => code != 0,
            Self::Signal(_) => true,
            Self::TimedOut | Self::TooMuchOutput | Self::FileTooLarge => false,
        }
    }
}

/// A file that a program made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputFile {
    /// Its size.
    pub bytes: u64,
    /// The BLAKE3 of its content.
    pub digest: [u8; 32],
}

impl fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "it ended with exit code {code}"),
            Self::Signal(number) => write!(f, "it was ended by signal {number}"),
            Self::TimedOut => f.write_str("it was stopped because its time was up"),
            Self::TooMuchOutput => f.write_str("it was stopped because it printed too much"),
            Self::FileTooLarge => f.write_str("it was stopped because its file grew too large"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_by_itself_tells_right_from_wrong_whatever_its_exit_code() {
        for code in [0, 1, 3, 42, 125, 128, 255] {
            assert!(ProgramEnd::Exit(code).tells_right_from_wrong(), "{code}");
        }
        for code in [126, 127, 132, 134, 135, 136, 137, 139] {
            assert!(!ProgramEnd::Exit(code).tells_right_from_wrong(), "{code}");
        }
        for end in [
            ProgramEnd::Signal(11),
            ProgramEnd::TimedOut,
            ProgramEnd::TooMuchOutput,
            ProgramEnd::FileTooLarge,
        ] {
            assert!(!end.tells_right_from_wrong(), "{end}");
        }
    }
}
