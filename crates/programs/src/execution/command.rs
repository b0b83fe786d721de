//! Commands in a scratch folder.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use super::behaviour::ProgramEnd;
use super::error::{ExecutionError, first_line};
use super::settings::RunSettings;
use steplake_model::ShellCommand;
use steplake_sandbox::{Limits, OpenPaths, Process, plain_environment};

/// The most of a program's error output that is kept.
const STDERR_MAX_BYTES: usize = 64 << 10;

/// The folders of one program.
#[derive(Debug)]
pub(super) struct Folders {
    /// The folder in which commands run.
    pub(super) work: PathBuf,
    /// For what tools need for a while.
    pub(super) temporary: PathBuf,
    /// The folder that holds the others, and is deleted with this value.
    all: TempDir,
}

/// Runs commands in the folders of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shell<'a> {
    pub(super) folders: &'a Folders,
    pub(super) settings: &'a RunSettings,
}

/// The end of a command.
#[derive(Debug)]
pub(super) struct CommandEnd {
    pub(super) end: ProgramEnd,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) wall_time: Duration,
    pub(super) cpu_time: Duration,
    /// The most wall time that it could take.
    limit: Duration,
}

impl Folders {
    pub(super) fn new() -> io::Result<Self> {
        let all = tempfile::Builder::new().prefix("steplake-run-").tempdir()?;
        // Landlock knows files, and programs know their folder, by what links lead to.
        let path = fs::canonicalize(all.path())?;
        let (work, temporary) = (path.join("work"), path.join("temporary"));
        fs::create_dir(&work)?;
        fs::create_dir(&temporary)?;
        Ok(Self { work, temporary, all })
    }
}

impl Shell<'_> {
    /// Runs a program with these arguments, as a step of a build.
    pub(super) fn program(
        self,
        program: PathBuf,
        arguments: Vec<OsString>,
    ) -> Result<CommandEnd, ExecutionError> {
        let limit = self.settings.build_limit;
        let process = Process { arguments, ..self.process(program, limit) };
        self.ended(process, limit, false)
    }

    /// Runs the command of a build, with more variables.
    pub(super) fn build(
        self,
        command: &ShellCommand,
        variables: [(&str, OsString); 2],
    ) -> Result<CommandEnd, ExecutionError> {
        let limit = command.timeout(self.settings.build_limit);
        let mut process = self.shell(command, command.line(), limit)?;
        process.environment.extend(variables.map(|(name, value)| (name.into(), value)));
        self.ended(process, limit, true)
    }

    /// Runs a command before or after runs.
    pub(super) fn command(self, command: &ShellCommand) -> Result<CommandEnd, ExecutionError> {
        let limit = command.timeout(self.settings.run_limit);
        self.ended(self.shell(command, command.line(), limit)?, limit, true)
    }

    /// Runs the command of a run with an input. Its times begin when the shell has been set up.
    pub(super) fn gated(
        self,
        command: &ShellCommand,
        input: &[u8],
    ) -> Result<CommandEnd, ExecutionError> {
        let limit = command.timeout(self.settings.run_limit);
        let gate = self.folders.all.path().join("gate");
        match mkfifo(&gate, Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(()) | Err(nix::errno::Errno::EEXIST) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        // It has no name: programs can do what they want with all names in this folder.
        let mut file = tempfile::tempfile_in(&self.folders.temporary)?;
        file.write_all(input)?;
        file.rewind()?;
        let line = command.line();
        let is_shell = !is_one_program(&line);
        let exec = if is_shell { "" } else { "exec " };
        // The shell reads the second line when the gate is open, so an error in it is the
        // program's.
        let line = format!("read -r go <../gate\n{exec}{line}");
        let mut process = self.shell(command, line, limit)?;
        process.input = Some(file);
        process.cpu = self.settings.cpu;
        process.gate = Some(gate);
        self.ended(process, limit, is_shell)
    }

    /// A shell that runs `line`.
    fn shell(
        &self,
        command: &ShellCommand,
        line: String,
        limit: Duration,
    ) -> Result<Process<'_>, ExecutionError> {
        for file in &command.infiles {
            if !self.folders.work.join(file).exists() {
                return Err(ExecutionError::MissingFile { file: file.clone() });
            }
        }
        let mut process = self.process(steplake_sandbox::find("sh", "dash")?, limit);
        process.arguments = vec!["-c".into(), line.into()];
        let variables = command.environment.iter();
        process.environment.extend(variables.map(|(name, value)| (name.into(), value.into())));
        if let Some(walls) = &mut process.walls
            && self.settings.reads_named_files
        {
            walls.read.extend(named_files(command));
        }
        Ok(process)
    }

    fn process(&self, program: PathBuf, limit: Duration) -> Process<'_> {
        let (folders, settings) = (self.folders, self.settings);
        let mut environment = plain_environment();
        environment.push(("TMPDIR".into(), folders.temporary.clone().into_os_string()));
        let write = vec![folders.work.clone(), folders.temporary.clone()];
        let limits = Limits {
            wall: limit,
            // All threads of a process use up its CPU time.
            cpu: limit.saturating_mul(cores()),
            memory_bytes: settings.memory_bytes,
            file_bytes: settings.file_bytes,
            stdout_bytes: settings.output_bytes,
            stderr_bytes: STDERR_MAX_BYTES,
        };
        Process {
            program,
            arguments: Vec::new(),
            environment,
            folder: Some(&folders.work),
            walls: Some(OpenPaths { read: settings.reads.clone(), write }),
            limits,
            input: None,
            cpu: None,
            gate: None,
        }
    }

    /// Runs a process to its end. `is_shell` says that it is a shell, which makes an exit code of
    /// the signal that ends its last program.
    fn ended(
        self,
        mut process: Process<'_>,
        limit: Duration,
        is_shell: bool,
    ) -> Result<CommandEnd, ExecutionError> {
        let mut ended = process.run()?;
        let end = end(&ended, is_shell);
        ended.stdout.truncate(self.settings.output_bytes);
        let steplake_sandbox::ProcessEnd { stdout, stderr, wall_time, cpu_time, .. } = ended;
        Ok(CommandEnd { end, stdout, stderr, wall_time, cpu_time, limit })
    }
}

impl CommandEnd {
    /// Returns the same if the command ended by itself with exit code 0.
    ///
    /// # Errors
    ///
    /// [`ExecutionError::TimedOut`], which names the task `what`; else what `failed` makes of the
    /// reason.
    pub(super) fn success(
        self,
        what: &str,
        failed: impl FnOnce(String) -> ExecutionError,
    ) -> Result<Self, ExecutionError> {
        match self.end {
            ProgramEnd::Exit(0) => Ok(self),
            ProgramEnd::TimedOut => {
                Err(ExecutionError::TimedOut { what: what.to_owned(), limit: self.limit })
            }
            ProgramEnd::Exit(_) => {
                let line = first_line(&String::from_utf8_lossy(&self.stderr));
                Err(failed(line.unwrap_or_else(|| self.end.to_string())))
            }
            end => Err(failed(end.to_string())),
        }
    }
}

/// How a process ended.
fn end(ended: &steplake_sandbox::ProcessEnd, is_shell: bool) -> ProgramEnd {
    if ended.timed_out {
        return ProgramEnd::TimedOut;
    }
    if ended.wrote_too_much {
        return ProgramEnd::TooMuchOutput;
    }
    match (ended.status.code(), ended.status.signal()) {
        (Some(code), _) if is_shell => limit_of(code - 128).unwrap_or(ProgramEnd::Exit(code)),
        (Some(code), _) => ProgramEnd::Exit(code),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            limit_of(signal).unwrap_or(ProgramEnd::Signal(signal))
        }
    }
}

/// The end for which the system sends a signal of its own.
fn limit_of(signal: i32) -> Option<ProgramEnd> {
    const CPU_TIME: i32 = Signal::SIGXCPU as i32;
    const FILE_SIZE: i32 = Signal::SIGXFSZ as i32;
    match signal {
        CPU_TIME => Some(ProgramEnd::TimedOut),
        FILE_SIZE => Some(ProgramEnd::FileTooLarge),
        _ => None,
    }
}

/// The number of cores that processes may use at the same time.
fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(u32::MAX)
}

/// Whether a line is one program named by its path. It takes the place of the shell: then it is the
/// program that ends by a signal and whose CPU time counts, and there is no fork in its run time.
fn is_one_program(line: &str) -> bool {
    line.starts_with(['.', '/']) && !line.contains(['&', '|', ';', '(', '`', '\n'])
}

/// The files and folders of the machine that a command names by absolute paths.
fn named_files(command: &ShellCommand) -> impl Iterator<Item = PathBuf> {
    let words = command.arguments.iter().flat_map(|argument| argument.split_whitespace());
    let words = words.map(|word| word.trim_matches(['<', '>', ';', '"', '\'']));
    let words = words.chain(command.infiles.iter().map(String::as_str));
    let words = words.chain(command.environment.values().map(String::as_str));
    words.map(Path::new).filter(|path| path.is_absolute() && path.exists()).map(Path::to_owned)
}
