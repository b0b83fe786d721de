//! A method that is run for its rows, with a look at the clock.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::play::{PlayError, Subject, Way};
use super::{OnPlayed, Referee};
use crate::assembly::command_error::{Code, CommandError};
use crate::leaderboard::Row;
use crate::model::ActionSpace;

/// What stands for the benchmark's URI in a command.
const BENCHMARK: &str = "{benchmark}";

/// What stands for a number, which for each row of a benchmark is another one, from 0.
const SEED: &str = "{seed}";

/// The most characters of a command's output that a message shows.
const SHOWN_MAX: usize = 200;

impl Referee {
    /// Runs a command for each row that the task wants, one after another, each in an empty folder
    /// of its own, which is deleted. Of what it prints, the last line that is a command line of the
    /// task makes the row; its wall time is that of the command.
    ///
    /// # Errors
    ///
    /// If the command has no place for the benchmark, or fails, or prints no command line that can
    /// be played; and those of `keep`, which is given all rows so far after each.
    pub fn run(
        &self,
        command: &[String],
        progress: &mut OnPlayed<'_>,
        keep: &mut dyn FnMut(&[Row]) -> Result<(), CommandError>,
    ) -> Result<Vec<Row>, CommandError> {
        if !command.iter().any(|word| word.contains(BENCHMARK)) {
            return Err(CommandError::usage(format!(
                "the command is the same for all programs: write {BENCHMARK} where it takes one"
            )));
        }
        let n = self.task.rows_per_benchmark;
        let all = (self.subjects.len() * n) as u64;
        let mut rows = Vec::new();
        for (subject, benchmark) in self.subjects.iter().zip(&self.task.benchmarks) {
            for seed in 0..n {
                progress(rows.len() as u64, all);
                rows.push(self.row(command, subject, benchmark, seed)?);
                keep(&rows)?;
            }
        }
        Ok(rows)
    }

    /// Runs the command for one row.
    fn row(
        &self,
        command: &[String],
        subject: &Subject,
        benchmark: &str,
        seed: usize,
    ) -> Result<Row, CommandError> {
        let failed = |said: String| CommandError::new(Code::Failed, said);
        let filled =
            |word: &String| word.replace(BENCHMARK, benchmark).replace(SEED, &seed.to_string());
        let words: Vec<String> = command.iter().map(filled).collect();
        let [program, arguments @ ..] = words.as_slice() else {
            return Err(CommandError::usage("there is no command after `--`"));
        };
        let line = words.join(" ");
        let folder = tempfile::tempdir()?;
        // A path is seen from where the user is.
        let path = Path::new(program);
        let path = if program.contains('/') { path.canonicalize() } else { Ok(path.to_owned()) };
        let begun = Instant::now();
        let output = path.and_then(|path| {
            own(&path)
                .args(arguments)
                .current_dir(folder.path())
                .env_remove("STEPLAKE_LAKE")
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit())
                .spawn()?
                .wait_with_output()
        });
        let walltime = begun.elapsed().as_secs_f64();
        let output = output.map_err(|error| failed(format!("`{line}` cannot be run: {error}")))?;
        if !output.status.success() {
            return Err(failed(format!("`{line}` failed: {}", output.status)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let Some((space, commandline, way)) = self.last_command_line(&text) else {
            let end: Vec<char> = text.trim_end().chars().rev().take(SHOWN_MAX).collect();
            let end: String = end.into_iter().rev().collect();
            let said = "printed no command line of the task";
            return Err(failed(format!("`{line}` {said}; its output ends with: {end}")));
        };
        let reward = match self.player.play(space, subject, &way) {
            Ok(played) => played.reward,
            Err(PlayError::Failed(error)) => return Err(error),
            Err(PlayError::Refused(why)) => {
                return Err(failed(format!("what `{line}` found cannot be played: {why}")));
            }
        };
        let (benchmark, commandline) = (benchmark.to_owned(), commandline.to_owned());
        Ok(Row { benchmark, reward, walltime, commandline, line: 0 })
    }

    /// Returns the last line of a text that is a command line, with the action space in which it
    /// is one.
    fn last_command_line<'a>(&self, text: &'a str) -> Option<(&ActionSpace, &'a str, Way)> {
        let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        lines.into_iter().find_map(|line| {
            let (space, way) = self.read(line).ok()?;
            Some((space, line, way))
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "the command is the user's own")]
fn own(program: &Path) -> Command {
    Command::new(program)
}
