//! The other engine, in its own process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::Run;

/// A Python process with a connection that stays open.
pub(crate) struct DuckDb {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl DuckDb {
    pub(crate) fn start(lake: &Path, memory_mib: usize, threads: usize) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(root.join("scripts/python.sh"));
        command.arg(root.join("benches/queries/in_duckdb.py")).arg(lake);
        command.arg(format!("{memory_mib}MiB")).arg(threads.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the script is there");
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, questions, answers }
    }

    /// Asks one question; `None` if it fails.
    pub(crate) fn ask(&mut self, sql: &str) -> Option<Run> {
        let questions = self.questions.as_mut().expect("it is open until the end");
        let line = sql.split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(questions, "{line}").ok()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).ok()?;
        let mut words = answer.split_whitespace();
        let seconds = words.next()?.parse().ok()?;
        let cpu_seconds = words.next()?.parse().ok()?;
        let (rows, total) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Run { seconds, cpu_seconds, rows, total })
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        // Closing its input ends the process.
        drop(self.questions.take());
        let _ = self.child.wait();
    }
}
