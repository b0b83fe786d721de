//! How a program is linked and run.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::plain::plain_problem;

/// How a program is linked and run: what CompilerGym's `BenchmarkDynamicConfig` says. A benchmark
/// without one cannot be run.
///
/// All commands are run in one scratch folder, which is empty at first. serde is derived because
/// several modules store it; as JSON, equal values have equal texts.
///
/// ```
/// use steplake_model::{Execution, Linker};
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
    /// The files that it needs besides the program. They are put into the scratch folder, as they
    /// were, before the build and before each run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
}

/// A file that a program needs. Who runs the program has it under its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Its name, relative to the scratch folder.
    pub name: String,
    /// The BLAKE3 of its content, as 64 hexadecimal digits.
    pub blake3: String,
}

/// Why an [`Execution`] is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadExecution {
    /// A file that a command makes, or an input, would lie elsewhere.
    #[error("`{0}` does not name a file in the scratch folder")]
    Outside(String),
    /// The digest of an input of this name is none.
    #[error("the digest of the input `{0}` is not 64 hexadecimal digits")]
    Digest(String),
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
            inputs: Vec::new(),
        }
    }

    /// Its JSON; equal executions have equal texts.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers serialise")
    }

    /// Reads an execution from its JSON.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in one line: also what [`check`](Self::check) finds.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let execution = serde_json::from_str::<Self>(text);
        let execution = execution.map_err(|error| plain_problem(&error.to_string()))?;
        execution.check().map_err(|error| error.to_string())?;
        Ok(execution)
    }

    /// Checks that the files made, and those needed besides the program, lie in the scratch folder.
    ///
    /// # Errors
    ///
    /// [`BadExecution`] with the first name that does not.
    pub fn check(&self) -> Result<(), BadExecution> {
        let build = match &self.build {
            Build::Link { .. } => None,
            Build::Command(command) => Some(command),
        };
        let commands = build.into_iter().chain(&self.run);
        let commands = commands.chain(&self.before_runs).chain(&self.after_runs);
        let inputs = self.inputs.iter().map(|input| &input.name);
        let names = commands.flat_map(|command| &command.outfiles).chain(inputs);
        if let Some(outside) = names.into_iter().find(|name| !is_beneath(name)) {
            return Err(BadExecution::Outside(outside.clone()));
        }
        let is_digest = |text: &str| {
            text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        match self.inputs.iter().find(|input| !is_digest(&input.blake3)) {
            Some(input) => Err(BadExecution::Digest(input.name.clone())),
            None => Ok(()),
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

/// Whether a name, by itself, leads to a file beneath the folder that it is relative to.
fn is_beneath(name: &str) -> bool {
    let parts = || Path::new(name).components();
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let has_name = matches!(parts().next_back(), Some(Component::Normal(_)));
    has_name && parts().all(is_plain) && !name.contains('\0')
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lie_beneath_the_folder() {
        for name in ["a", "./a", "a/b", "a/./b", "..a"] {
            assert!(is_beneath(name), "{name}");
        }
        for name in ["", ".", "/", "/a", "..", "../a", "a/..", "a/../../b", "a\0"] {
            assert!(!is_beneath(name), "{name}");
        }
    }

    #[test]
    fn an_execution_that_leads_outside_is_refused() {
        let mut execution = Execution::linked(Linker::C, &[]);
        assert_eq!(execution.check(), Ok(()));
        let text = serde_json::to_string(&execution).unwrap();
        assert!(!text.contains("inputs"), "{text}");
        let input = |name: &str, blake3: &str| Input { name: name.into(), blake3: blake3.into() };
        execution.inputs = vec![input("a", &"0a".repeat(32))];
        let text = serde_json::to_string(&execution).unwrap();
        assert_eq!(Execution::from_json(&text).unwrap(), execution);
        execution.inputs = vec![input("a", "../b")];
        assert_eq!(execution.check(), Err(BadExecution::Digest("a".into())));
        execution.inputs = vec![input("/etc/a", &"0a".repeat(32))];
        assert_eq!(execution.check(), Err(BadExecution::Outside("/etc/a".into())));
        execution.inputs.clear();
        execution.run.as_mut().unwrap().outfiles = vec!["../a".into()];
        assert_eq!(execution.check(), Err(BadExecution::Outside("../a".into())));
    }
}
