//! Executables and their runs.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

use super::behaviour::{Behaviour, OutputFile, ProgramRun};
use super::beneath;
use super::command::{Folders, Shell};
use super::error::ExecutionError;
use super::settings::RunSettings;
use steplake_model::{Build, Execution, Input, Linker, ShellCommand};
use steplake_sandbox::{Missing, find};

/// What an executable is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutableCode<'a> {
    /// A relocatable object of position-independent code, for [`Build::Link`].
    Object(&'a [u8]),
    /// The program as the compiler reads it, for [`Build::Command`]; for LLVM, bitcode.
    Program(&'a [u8]),
}

impl<'a> ExecutableCode<'a> {
    /// What a build takes: an object, or the program.
    pub fn of(build: &Build, code: &'a [u8]) -> Self {
        match build {
            Build::Link { .. } => Self::Object(code),
            Build::Command(_) => Self::Program(code),
        }
    }
}

/// A built program, in a scratch folder that is deleted with it.
#[derive(Debug)]
pub struct Executable {
    folders: Folders,
    execution: Execution,
    settings: RunSettings,
    build_time: Duration,
}

impl Executable {
    /// Builds a program.
    ///
    /// # Errors
    ///
    /// [`ExecutionError::WrongCode`]; [`ExecutionError::Refused`] and
    /// [`ExecutionError::MissingInput`]; [`ExecutionError::BuildFailed`] and
    /// [`ExecutionError::TimedOut`] if the program cannot be built; [`ExecutionError::ToolMissing`]
    /// and [`ExecutionError::Machine`] if this machine cannot build programs.
    pub fn build(
        execution: &Execution,
        code: ExecutableCode<'_>,
        settings: &RunSettings,
    ) -> Result<Self, ExecutionError> {
        execution.check()?;
        let folders = Folders::new()?;
        place(&execution.inputs, &folders, settings)?;
        let shell = Shell { folders: &folders, settings };
        let ended = match (&execution.build, code) {
            (Build::Link { linker, arguments }, ExecutableCode::Object(object)) => {
                let file = folders.temporary.join("program.o");
                fs::write(&file, object)?;
                let linker = driver(*linker)?;
                let fixed = [file.into_os_string(), "-o".into(), execution.executable().into()];
                let arguments = fixed.into_iter().chain(arguments.iter().map(Into::into));
                shell.program(linker, arguments.collect())?
            }
            (Build::Command(command), ExecutableCode::Program(program)) => {
                let file = folders.work.join("out.bc");
                fs::write(&file, program)?;
                // It names itself by its path: `clang: error: …`.
                let compiler = fs::canonicalize(compiler()?)?;
                let variables = [("CC", compiler.into_os_string()), ("IN", file.into_os_string())];
                shell.build(command, variables)?
            }
            _ => return Err(ExecutionError::WrongCode),
        };
        let build_time = ended.wall_time;
        ended.success("the build", |detail| ExecutionError::BuildFailed { detail })?;
        if !folders.work.join(execution.executable()).is_file() {
            let detail = format!("it made no file `{}`", execution.executable());
            return Err(ExecutionError::BuildFailed { detail });
        }
        let (execution, settings) = (execution.clone(), settings.clone());
        Ok(Self { folders, execution, settings, build_time })
    }

    /// Opens the executable for reading.
    ///
    /// # Errors
    ///
    /// If it is no plain file.
    pub fn open(&self) -> io::Result<File> {
        let made = beneath::open(&self.folders.work, self.execution.executable())?;
        if made.metadata()?.is_file() {
            return Ok(made);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file"))
    }

    /// Copies the executable to a path outside of its scratch folder, in place of what lies there.
    ///
    /// # Errors
    ///
    /// If it is no plain file, or no file can be written there.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut made = self.open()?;
        let mut copy = NamedTempFile::new_in(path.parent().unwrap_or(path))?;
        io::copy(&mut made, &mut copy)?;
        copy.as_file().set_permissions(Permissions::from_mode(0o755))?;
        copy.persist(path)?;
        Ok(())
    }

    /// The wall time of the build.
    pub fn build_time(&self) -> Duration {
        self.build_time
    }

    /// The bytes of the executable's sections that are loaded and cannot be written: code,
    /// constants and tables for unwinding, of what was linked into it as well. `size` calls them
    /// `text`.
    ///
    /// # Errors
    ///
    /// If the tool `size` is missing, or cannot read the file.
    pub fn text_size(&self) -> Result<u64, ExecutionError> {
        let file = self.execution.executable().into();
        let ended = self.shell().program(find("size", "binutils")?, vec![file])?;
        let ended = ended.success("size", |detail| ExecutionError::BuildFailed { detail })?;
        let text = String::from_utf8_lossy(&ended.stdout);
        let row = text.lines().nth(1).and_then(|row| row.split_whitespace().next());
        row.and_then(|size| size.parse().ok()).ok_or_else(|| ExecutionError::BuildFailed {
            detail: format!("`size` does not say how large it is, but: {text}"),
        })
    }

    /// Runs the program once, between the commands before and after runs. `input` is its standard
    /// input, unless its command names another one.
    ///
    /// # Errors
    ///
    /// [`ExecutionError::NotRunnable`], [`ExecutionError::MissingFile`],
    /// [`ExecutionError::CommandFailed`] for the commands before and after, and
    /// [`ExecutionError::Machine`]. However the program itself ends is no error.
    pub fn run(&self, input: &[u8]) -> Result<ProgramRun, ExecutionError> {
        self.run_by(self.run_command()?, input)
    }

    /// Runs the program `count` times between the commands before and after runs, and hands each
    /// run to `take`, which can end them.
    ///
    /// # Errors
    ///
    /// Those of [`Executable::run`] and of `take`.
    pub fn runs(
        &self,
        count: u64,
        take: &mut dyn FnMut(ProgramRun) -> Result<(), ExecutionError>,
    ) -> Result<(), ExecutionError> {
        let command = self.run_command()?;
        self.before_runs()?;
        for _ in 0..count {
            take(self.run_once(command, &[])?)?;
        }
        self.around(&self.execution.after_runs, "the command after the runs")
    }

    /// Runs the program once by a command, as [`Executable::run`] does.
    pub(super) fn run_by(
        &self,
        command: &ShellCommand,
        input: &[u8],
    ) -> Result<ProgramRun, ExecutionError> {
        self.before_runs()?;
        let run = self.run_once(command, input)?;
        self.around(&self.execution.after_runs, "the command after the runs")?;
        Ok(run)
    }

    pub(super) fn shell(&self) -> Shell<'_> {
        Shell { folders: &self.folders, settings: &self.settings }
    }

    pub(super) fn execution(&self) -> &Execution {
        &self.execution
    }

    /// The folder for what tools need for a while.
    pub(super) fn temporary_folder(&self) -> &Path {
        &self.folders.temporary
    }

    pub(super) fn run_command(&self) -> Result<&ShellCommand, ExecutionError> {
        self.execution.run.as_ref().ok_or(ExecutionError::NotRunnable)
    }

    fn before_runs(&self) -> Result<(), ExecutionError> {
        let commands = &self.execution.before_runs;
        if !commands.is_empty() {
            place(&self.execution.inputs, &self.folders, &self.settings)?;
        }
        self.around(commands, "the command before the runs")
    }

    fn around(&self, commands: &[ShellCommand], what: &str) -> Result<(), ExecutionError> {
        for command in commands {
            let ended = self.shell().command(command)?;
            let what = what.to_owned();
            ended.success(&what, |detail| ExecutionError::CommandFailed {
                what: what.clone(),
                detail,
            })?;
        }
        Ok(())
    }

    fn run_once(&self, command: &ShellCommand, input: &[u8]) -> Result<ProgramRun, ExecutionError> {
        for name in &command.outfiles {
            // It may not be there, and a folder stays.
            beneath::remove(&self.folders.work, name).ok();
        }
        place(&self.execution.inputs, &self.folders, &self.settings)?;
        let ended = self.shell().gated(command, input)?;
        let files = command.outfiles.iter().map(|name| Ok((name.clone(), self.file(name)?)));
        let files = files.collect::<io::Result<_>>()?;
        let behaviour = Behaviour { end: ended.end, stdout: ended.stdout, files };
        let (wall_time, cpu_time) = (ended.wall_time, ended.cpu_time);
        Ok(ProgramRun { behaviour, stderr: ended.stderr, wall_time, cpu_time })
    }

    /// Returns what is known of a file that the program made. A link, a folder or a device is none,
    /// and so is what lies behind a link to a folder.
    fn file(&self, name: &str) -> io::Result<Option<OutputFile>> {
        let Ok(file) = beneath::open(&self.folders.work, name) else { return Ok(None) };
        let about = file.metadata()?;
        if !about.is_file() {
            return Ok(None);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file)?;
        Ok(Some(OutputFile { bytes: about.len(), digest: hasher.finalize().into() }))
    }

    /// The scratch folder, in which the program runs.
    pub fn folder(&self) -> &Path {
        &self.folders.work
    }
}

/// The first line that the linker of a build, or the compiler that its command is given, prints as
/// its version.
///
/// # Errors
///
/// [`ExecutionError::ToolMissing`], or [`ExecutionError::BuildFailed`] if it prints none.
pub fn tool_version(build: &Build, settings: &RunSettings) -> Result<String, ExecutionError> {
    let tool = build_tool(build)?;
    let shell = Shell { folders: &Folders::new()?, settings };
    let ended = shell.program(tool, vec!["--version".into()])?;
    let failed = |detail| ExecutionError::BuildFailed { detail };
    let printed = ended.success("the linker", failed)?.stdout;
    let line = String::from_utf8_lossy(&printed).lines().next().map(|line| line.trim().to_owned());
    line.ok_or_else(|| failed("its linker has no version".to_owned()))
}

/// The linker of a build, or the compiler that its command is given. Either compiles C.
pub(super) fn build_tool(build: &Build) -> Result<PathBuf, Missing> {
    match build {
        Build::Link { linker, .. } => driver(*linker),
        Build::Command(_) => compiler(),
    }
}

fn driver(linker: Linker) -> Result<PathBuf, Missing> {
    match linker {
        Linker::C => find("cc", "gcc"),
        Linker::Cxx => find("c++", "g++"),
    }
}

fn compiler() -> Result<PathBuf, Missing> {
    find("clang-22", "clang-22")
}

/// Puts the inputs into the scratch folder, whatever lies there.
fn place(
    inputs: &[Input],
    folders: &Folders,
    settings: &RunSettings,
) -> Result<(), ExecutionError> {
    for Input { name, blake3 } in inputs {
        let missing = |why: &str| {
            let (name, blake3, why) = (name.clone(), blake3.clone(), why.to_owned());
            ExecutionError::MissingInput { name, blake3, why }
        };
        let cache = settings.inputs.as_ref().ok_or_else(|| missing("there is none"))?;
        let content = fs::read(cache.join(blake3)).map_err(|error| missing(&error.to_string()))?;
        if blake3::hash(&content).to_hex().as_str() != blake3 {
            return Err(missing("the file there is damaged"));
        }
        let placed = beneath::create(&folders.work, name);
        placed.and_then(|mut file| file.write_all(&content)).map_err(|error| {
            ExecutionError::NotPlaced { name: name.clone(), why: error.to_string() }
        })?;
    }
    Ok(())
}
