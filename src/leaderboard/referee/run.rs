//! A method that is run for its rows, with a look at the clock.

use std::io::{self, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steplake_terminal::exit;

use super::play::{ParsedCommandLine, PlayError, TaskProgram};
use super::{OnPlayed, Referee};
use crate::leaderboard::EntryRow;
use crate::model::{ActionSpace, Remedy};
use crate::{Error, ErrorKind};

/// What stands for the benchmark's URI in a command.
const BENCHMARK: &str = "{benchmark}";

/// What stands for a number, which for each row of a benchmark is another one, from 0.
const SEED: &str = "{seed}";

/// The most characters of a command's output that a message shows.
const SHOWN_MAX: usize = 200;

/// How often a look is taken whether somebody stops the command.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How often a look is taken whether a command that prints no more has ended.
const EXIT_INTERVAL: Duration = Duration::from_millis(1);

/// The time that a command has to end once it is asked to.
const GRACE: Duration = Duration::from_secs(10);

/// How a command ended, what it printed, and the seconds that it took.
type CommandResult = (ExitStatus, Vec<u8>, f64);

impl Referee {
    /// Runs a command for each row that the task wants, one after another, each in an empty folder
    /// of its own, which is deleted. Of what it prints, the last line that is a command line of the
    /// task makes the row; its wall time is that of the command. `before` has the rows that an
    /// earlier call made.
    ///
    /// # Errors
    ///
    /// If the command has no place for the benchmark, or fails, or prints no command line that can
    /// be played; if `before` has other rows than the first ones of the task; if the interrupt is
    /// raised, which ends the command too; and those of `keep`, which is given all rows so far
    /// after each.
    pub fn run(
        &self,
        command: &[String],
        before: Vec<EntryRow>,
        progress: &mut OnPlayed<'_>,
        keep: &mut dyn FnMut(&[EntryRow]) -> Result<(), Error>,
    ) -> Result<Vec<EntryRow>, Error> {
        if !command.iter().any(|word| word.contains(BENCHMARK)) {
            return Err(Error::usage(format!(
                "the command is the same for all programs: write {BENCHMARK} where it takes one"
            )));
        }
        let n = self.task.rows_per_benchmark;
        let all = self.task.benchmarks.len() * n;
        let mut rows = before;
        for (row, at) in rows.iter().zip(0..) {
            if at >= all || self.task.place(&row.benchmark) != Some(at / n) {
                let said = "no command wrote this row here: name another file to write";
                return Err(Error::usage(super::said(row, said)));
            }
        }
        while rows.len() < all {
            progress(rows.len() as u64, all as u64);
            let (place, seed) = (rows.len() / n, rows.len() % n);
            let (subject, benchmark) = (self.subject(place)?, &self.task.benchmarks[place]);
            let row =
                self.row(command, subject, benchmark, seed).map_err(|error| match rows.len() {
                    0 => error,
                    made => {
                        let said = format!(
                            "rows written: {made} of {all}, after which a resumed run goes on"
                        );
                        error
                            .saying(|error| format!("{error}; {said}"))
                            .with(Remedy::Field("resume"))
                    }
                })?;
            rows.push(row);
            keep(&rows)?;
        }
        Ok(rows)
    }

    /// Runs the command for one row.
    fn row(
        &self,
        command: &[String],
        subject: &TaskProgram,
        benchmark: &str,
        seed: usize,
    ) -> Result<EntryRow, Error> {
        let failed = |said: String| Error::new(ErrorKind::Failed, said);
        let filled =
            |word: &String| word.replace(BENCHMARK, benchmark).replace(SEED, &seed.to_string());
        let words: Vec<String> = command.iter().map(filled).collect();
        let [program, arguments @ ..] = words.as_slice() else {
            return Err(Error::usage("there is no command to run"));
        };
        let line = words.join(" ");
        let folder = tempfile::tempdir()?;
        // A path is seen from where the user is.
        let path = Path::new(program);
        let path = if program.contains('/') { path.canonicalize() } else { Ok(path.to_owned()) };
        let begun = Instant::now();
        let child = path.and_then(|path| {
            own(&path)
                .args(arguments)
                .current_dir(folder.path())
                .env_remove("STEPLAKE_LAKE")
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit())
                .spawn()
        });
        let ended = child.and_then(|child| self.ended(child, begun));
        let ended = ended.map_err(|error| failed(format!("`{line}` cannot be run: {error}")))?;
        let Some((status, stdout, walltime)) = ended else {
            return Err(Error::new(ErrorKind::Interrupted, format!("`{line}` was interrupted")));
        };
        if !status.success() {
            return Err(failed(format!("`{line}` failed: {status}")));
        }
        let text = String::from_utf8_lossy(&stdout);
        let Some((space, commandline, way)) = self.last_command_line(&text) else {
            let end: Vec<char> = text.trim_end().chars().rev().take(SHOWN_MAX).collect();
            let end: String = end.into_iter().rev().collect();
            let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
            let why = last.and_then(|last| self.read(last).err());
            let why = why.map(|why| format!(", where {why}")).unwrap_or_default();
            let said = "printed no command line of the task";
            return Err(failed(format!("`{line}` {said}; its output ends with: {end}{why}")));
        };
        let reward = match self.player.play(space, subject, &way) {
            Ok(played) => played.reward,
            Err(PlayError::Failed(error)) => return Err(error),
            Err(PlayError::Refused(why)) => {
                return Err(failed(format!("what `{line}` found cannot be played: {why}")));
            }
        };
        // Nobody should have to find out that a row cannot be used.
        if let ParsedCommandLine::Choices(choices) = &way
            && let Err(why) = self.linked(subject, choices)?
        {
            return Err(failed(format!("what `{line}` found does not reproduce: {why}")));
        }
        let (benchmark, commandline) = (benchmark.to_owned(), commandline.to_owned());
        Ok(EntryRow { benchmark, reward, walltime, commandline, line: 0 })
    }

    /// Waits for a command, and returns how it ended, its output, and the seconds that it took. If
    /// the interrupt is raised, the command is asked to end, then made to, and there is nothing to
    /// return; nor is there if somebody else has interrupted it.
    fn ended(&self, mut child: Child, begun: Instant) -> io::Result<Option<CommandResult>> {
        let (sender, receiver) = mpsc::channel();
        let mut stdout = child.stdout.take();
        // Not waited for after an interrupt: what the command has started may hold the pipe.
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stdout.as_mut().map_or(Ok(0), |stdout| stdout.read_to_end(&mut bytes));
            let _ = sender.send(read.map(|_| bytes));
        });
        let stdout = loop {
            match receiver.recv_timeout(LOOK_INTERVAL) {
                Ok(stdout) => break stdout?,
                Err(_) if self.interrupt.is_raised() => return stopped(child),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("nobody reads what it prints"));
                }
            }
        };
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None if self.interrupt.is_raised() => return stopped(child),
                None => std::thread::sleep(EXIT_INTERVAL),
            }
        };
        let seconds = begun.elapsed().as_secs_f64();
        // Ctrl-C reaches the command too, which may print what it has found so far.
        let is_stopped = self.interrupt.is_raised()
            || status.signal() == Some(Signal::SIGINT as i32)
            || status.code() == Some(i32::from(exit::code(ErrorKind::Interrupted)));
        Ok((!is_stopped).then_some((status, stdout, seconds)))
    }

    /// Returns the last line of a text that is a command line, with the action space in which it
    /// is one.
    fn last_command_line<'a>(
        &self,
        text: &'a str,
    ) -> Option<(&ActionSpace, &'a str, ParsedCommandLine)> {
        let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        lines.into_iter().find_map(|line| {
            let (space, way) = self.read(line).ok()?;
            Some((space, line, way))
        })
    }
}

/// Asks a command to end, and makes it.
fn stopped(mut child: Child) -> io::Result<Option<CommandResult>> {
    let asked = Instant::now();
    kill(Pid::from_raw(child.id().try_into().map_err(io::Error::other)?), Signal::SIGTERM).ok();
    while child.try_wait()?.is_none() {
        if asked.elapsed() > GRACE {
            child.kill()?;
            child.wait()?;
            break;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(None)
}

#[expect(clippy::disallowed_methods, reason = "the command is the user's own")]
fn own(program: &Path) -> Command {
    Command::new(program)
}
