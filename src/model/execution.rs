//! How a program is linked and run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a program is linked and run: what CompilerGym's `BenchmarkDynamicConfig` says. A benchmark
/// without one cannot be run.
///
/// All commands are run in one scratch folder, which is empty at first. serde is derived because
/// several modules store it; as JSON, equal values have equal texts.
///
/// ```
/// use steplake::model::{Execution, Linker};
/// let execution = Execution::linked(Linker::C, &["-lm"]);
/// let text = serde_json::to_string(&execution)?;
/// assert_eq!(serde_json::from_str::<Execution>(&text)?, execution);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// How the executable is made.
    pub build: Build,
    /// The command that runs it; none for programs that can only be built.
    pub run: Option<ShellCommand>,
    /// The commands before the first of several runs, in order.
    pub before_runs: Vec<ShellCommand>,
    /// The commands after the last of several runs, in order.
    pub after_runs: Vec<ShellCommand>,
}

/// How an executable is made of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Build {
    /// The environment's compiler makes an object of the program, and the system links it to
    /// [`EXECUTABLE`].
    Link {
        /// The driver of the linker.
        linker: Linker,
        /// Its arguments after the object, e.g. `-lm`.
        arguments: Vec<String>,
    },
    /// A command makes the first of its `outfiles` of the program. Its variable `IN` is the path of
    /// the program, for LLVM a file of bitcode, and `CC` that of the compiler.
    Command(ShellCommand),
}

/// The driver of the linker: it decides which libraries of a language are linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Linker {
    /// The system's `cc`.
    C,
    /// The system's `c++`.
    Cxx,
}

/// A command, which a shell runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellCommand {
    /// The words of the command line. The shell sees them with spaces between them, and expands
    /// them.
    pub arguments: Vec<String>,
    /// Variables of its environment.
    pub environment: BTreeMap<String, String>,
    /// The most wall time that it may take, in seconds; 0 if the command sets no limit of its own.
    pub timeout_s: u32,
    /// The files that it needs, relative to the scratch folder or absolute.
    pub infiles: Vec<String>,
    /// The files that it makes, relative to the scratch folder.
    pub outfiles: Vec<String>,
}

/// The name of a linked executable in the scratch folder.
pub const EXECUTABLE: &str = "a.out";

impl Execution {
    /// A program that is linked with these arguments, and run without arguments and input.
    pub fn linked(linker: Linker, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let run = ShellCommand {
            arguments: vec![format!("./{EXECUTABLE}")],
            infiles: vec![EXECUTABLE.to_owned()],
            ..ShellCommand::default()
        };
        Self {
            build: Build::Link { linker, arguments },
            run: Some(run),
            before_runs: Vec::new(),
            after_runs: Vec::new(),
        }
    }

    /// The name of the executable in the scratch folder.
    pub fn executable(&self) -> &str {
        let named = match &self.build {
            Build::Link { .. } => None,
            Build::Command(command) => command.outfiles.first(),
        };
        named.map_or(EXECUTABLE, String::as_str)
    }
}

impl ShellCommand {
    /// The text that the shell runs.
    pub fn line(&self) -> String {
        self.arguments.join(" ")
    }

    /// The most wall time that it may take; `usual` if the command sets no limit.
    pub fn timeout(&self, usual: Duration) -> Duration {
        if self.timeout_s == 0 { usual } else { Duration::from_secs(self.timeout_s.into()) }
    }
}
