//! A cluster of processes on this machine, which go when it is dropped.

use std::fmt;
use std::io::{BufRead as _, BufReader, Cursor};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use arrow::array::RecordBatch;
use arrow::ipc::reader::FileReader;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::programs::{self, InTime as _, end, end_of, heard, line_of};

/// The program that is tested.
fn program() -> Command {
    let mut command = programs::program(env!("CARGO_BIN_EXE_steplake-cluster"));
    command.env_remove("STEPLAKE_LOG").env_remove("STEPLAKE_LAKE");
    command
}

/// A process that is killed when it is dropped.
#[derive(Debug)]
struct Process {
    child: Child,
    /// What it said first.
    address: String,
}

impl Process {
    /// Starts a process, and waits until it says where it listens.
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (line, _output) = line_of(output, "a process that says where it listens");
        let address = line.trim_end().rsplit(' ').next().unwrap_or_default().to_owned();
        assert!(address.contains(':'), "it did not start: {line:?}");
        Self { child, address }
    }

    fn kill(&mut self) {
        // SIGKILL: nothing is said to anybody.
        self.child.kill().unwrap();
        end_of(&mut self.child, "a process that was killed");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A line that the executor of this number said; of the scheduler where there is none.
type Line = (Option<usize>, String);

/// A scheduler and its executors.
#[derive(Debug)]
pub(crate) struct Cluster {
    scheduler: Process,
    executors: Vec<Process>,
    /// Behind a lock, so that a cluster can be shared between threads.
    lines: Mutex<Receiver<Line>>,
    say: Sender<Line>,
    folder: tempfile::TempDir,
    /// Where executors have the lake, if elsewhere.
    pub(crate) mount: Option<PathBuf>,
}

impl Cluster {
    pub(crate) fn start(executors: usize) -> Self {
        let mut command = program();
        command.args(["scheduler", "-v", "--listen", "127.0.0.1:0", "--executor-timeout", "15"]);
        let mut scheduler = Process::start(command.stderr(Stdio::piped()));
        let (say, lines) = channel();
        listen(&mut scheduler, None, &say);
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Self {
            scheduler,
            executors: Vec::new(),
            lines: lines.into(),
            say,
            folder,
            mount: None,
        };
        for _ in 0..executors {
            cluster.add_executor();
        }
        cluster
    }

    pub(crate) fn add_executor(&mut self) {
        let number = self.executors.len();
        let mut command = program();
        command.args(["executor", "-v", "--cores", "1", "--memory", "512", "--scheduler"]);
        command.arg(&self.scheduler.address).arg("--work-dir");
        command.arg(self.folder.path().join(format!("work-{number}"))).stderr(Stdio::piped());
        let mut process = Process::start(&mut command);
        listen(&mut process, Some(number), &self.say);
        self.executors.push(process);
    }

    /// The next line that an executor says, and which one it is.
    pub(crate) fn next_line(&self) -> (usize, String) {
        loop {
            if let (Some(executor), line) = heard(&self.lines.lock().unwrap(), "a line") {
                return (executor, line);
            }
        }
    }

    /// Waits until the scheduler has a query.
    pub(crate) fn wait_for_a_job(&self) {
        loop {
            let (executor, line) = heard(&self.lines.lock().unwrap(), "a line");
            if executor.is_none() && line.contains("Job queued: ") {
                return;
            }
        }
    }

    pub(crate) fn kill(&mut self, executor: usize) {
        self.executors[executor].kill();
    }

    pub(crate) fn address(&self) -> &str {
        &self.scheduler.address
    }

    /// A command that uses the cluster.
    pub(crate) fn command(&self, lake: &Path, command: &str) -> Command {
        let mut process = program();
        process.env("STEPLAKE_LAKE", lake).arg(command).arg("--scheduler").arg(self.address());
        process.args(["--partitions", "4"]);
        if let Some(mount) = &self.mount {
            process.arg("--executors-lake").arg(mount);
        }
        process
    }

    /// Asks in SQL.
    pub(crate) fn sql(&self, lake: &Path, sql: &str) -> Result<Vec<RecordBatch>, Refused> {
        let mut command = self.command(lake, "sql");
        answer(command.args(["--format", "arrow", "--", sql]))
    }

    /// Asks a named query, with its values as `name=value`.
    pub(crate) fn named<'a>(
        &self,
        lake: &Path,
        name: &str,
        values: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<RecordBatch>, Refused> {
        let mut command = self.command(lake, "query");
        for value in values {
            command.args(["--param", value]);
        }
        answer(command.args(["--format", "arrow", "--", name]))
    }
}

/// Hands on what a process says on standard error.
fn listen(process: &mut Process, executor: Option<usize>, say: &Sender<Line>) {
    let (log, say) = (process.child.stderr.take().unwrap(), say.clone());
    thread::spawn(move || {
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            if say.send((executor, line)).is_err() {
                return;
            }
        }
    });
}

/// The rows that a command prints.
pub(crate) fn answer(command: &mut Command) -> Result<Vec<RecordBatch>, Refused> {
    rows(command.output_in_time()).map_err(|said| {
        let last = said.lines().last().unwrap_or_default();
        Refused(last.strip_prefix("steplake: ").unwrap_or(last).to_owned())
    })
}

/// The rows that a command has printed, else all that it said.
pub(crate) fn rows(output: Output) -> Result<Vec<RecordBatch>, String> {
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned());
    }
    let batches = FileReader::try_new(Cursor::new(output.stdout), None).unwrap();
    Ok(batches.collect::<Result<_, _>>().unwrap())
}

/// What a command said when it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Rows as text.
pub(crate) fn texts(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns = columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns = columns.collect::<Vec<_>>();
        rows.extend((0..batch.num_rows()).map(|row| {
            columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>()
        }));
    }
    rows
}
