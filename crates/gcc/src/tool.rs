//! The programs of a compiler, run behind walls and within limits.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steplake_sandbox::{
    Enclosure, Limits, OpenPaths, Process, ProcessEnd, ProcessError, plain_environment,
};

/// The largest file that a program may write: far more than the object of any sensible program.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The most output of a program; its results are files.
const STDOUT_BYTES_MAX: usize = 1 << 20;

/// The most of a program's error output that is kept.
const STDERR_BYTES_MAX: usize = 64 << 10;

/// The most memory of a program that describes itself.
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// A program of a compiler.
#[derive(Debug, Clone)]
pub(super) struct CompilerTool {
    pub(super) program: PathBuf,
    /// The arguments of a loader that starts it, if there is one.
    pub(super) arguments: Vec<OsString>,
    /// Its first arguments.
    pub(super) own_arguments: Vec<OsString>,
    /// What it may read, besides the system's files and its own installation.
    pub(super) read: Vec<PathBuf>,
}

/// Returns limits of CPU time and memory for a compile, and what follows from them.
pub(super) fn limits(cpu: Duration, wall: Duration, memory_bytes: u64) -> Limits {
    Limits {
        wall,
        cpu,
        memory_bytes: Some(memory_bytes),
        file_bytes: FILE_BYTES_MAX,
        stdout_bytes: STDOUT_BYTES_MAX,
        stderr_bytes: STDERR_BYTES_MAX,
    }
}

/// Returns the limits of a program that describes itself.
pub(super) fn plain_limits(time: Duration) -> Limits {
    limits(time, time, MEMORY_BYTES_MAX)
}

impl CompilerTool {
    /// Takes an installed program, which may read these folders.
    pub(super) fn new(program: PathBuf, read: Vec<PathBuf>) -> Self {
        Self { program, arguments: Vec::new(), own_arguments: Vec::new(), read }
    }

    /// Runs the program in `folder`, where it may change everything, with more arguments behind its
    /// own.
    pub(super) fn run(
        &self,
        arguments: &[OsString],
        folder: &Path,
        limits: &Limits,
    ) -> Result<ProcessEnd, ProcessError> {
        let walls = OpenPaths { read: self.read.clone(), write: vec![folder.to_owned()] };
        Process { walls: Some(walls), ..self.process(arguments, folder, limits) }.run()
    }

    /// Does the same behind walls that stand already, with these variables besides the usual ones,
    /// and kills the program once `is_unwanted`.
    pub(super) fn run_in(
        &self,
        enclosure: &Enclosure,
        arguments: &[OsString],
        folder: &Path,
        limits: &Limits,
        variables: &[(&str, &str)],
        is_unwanted: impl Fn() -> bool,
    ) -> Result<ProcessEnd, ProcessError> {
        let mut process = self.process(arguments, folder, limits);
        let more = variables.iter().map(|&(name, value)| (name.into(), value.into()));
        process.environment.extend(more);
        enclosure.run(&mut process, is_unwanted)
    }

    fn process<'a>(
        &self,
        arguments: &[OsString],
        folder: &'a Path,
        limits: &Limits,
    ) -> Process<'a> {
        let mut environment = plain_environment();
        environment.push(("TMPDIR".into(), folder.into()));
        Process {
            program: self.program.clone(),
            arguments: [&self.arguments, &self.own_arguments, arguments].concat(),
            environment,
            folder: Some(folder),
            walls: None,
            limits: *limits,
            input: None,
            cpu: None,
            gate: None,
        }
    }
}
