//! LLVM's own tools, as commands that a user can give again.

use std::fs;
use std::io;
use std::time::Duration;

use super::clang::scratch_error;
use super::command::{ForeignTool, ToolRun, disk_error, find};
use crate::datasets::error::DatasetError;

/// A shell that sees when a command before a pipe fails.
const SHELL: ForeignTool = ForeignTool { name: "bash", package: "bash" };

/// The tools that commands may name, with their package.
const TOOLS: [ForeignTool; 2] = [
    ForeignTool { name: "opt-22", package: "llvm-22" },
    ForeignTool { name: "llc-22", package: "llvm-22" },
];

const SIZE: ForeignTool = ForeignTool { name: "llvm-size-22", package: "llvm-22" };

/// The most time that commands may take together.
const LIMIT: Duration = Duration::from_mins(10);

/// Demands that the tools are installed which [`llvm_commands`] runs.
///
/// # Errors
///
/// [`DatasetError::ToolMissing`].
pub fn demand_llvm_tools() -> Result<(), DatasetError> {
    TOOLS.into_iter().try_for_each(|tool| find(tool).map(drop))
}

/// Runs lines of a shell, confined, in an empty folder with the files `given`, and returns what the
/// file `made` has then. The inner error says why they do not make it: a tool failed.
///
/// # Errors
///
/// If this machine cannot run them.
pub fn llvm_commands(
    lines: &[String],
    given: &[(&str, &[u8])],
    made: &str,
) -> Result<Result<Vec<u8>, String>, DatasetError> {
    let folder = tempfile::tempdir().map_err(|error| scratch_error(&error))?;
    for (name, content) in given {
        fs::write(folder.path().join(name), content).map_err(|error| scratch_error(&error))?;
    }
    let script = format!("set -o errexit -o pipefail\n{}\n", lines.join("\n"));
    let run = ToolRun::new(SHELL, "LLVM's tools").arg("-c").arg(script);
    let run = run.folder(folder.path()).writes(folder.path()).limit(LIMIT);
    match run.output() {
        Ok(_) => {}
        Err(DatasetError::ToolFailed { detail, .. }) if disk_error(&detail).is_none() => {
            return Ok(Err(detail));
        }
        Err(error @ DatasetError::TimedOut { .. }) => return Ok(Err(error.to_string())),
        Err(error) => return Err(error),
    }
    match fs::read(folder.path().join(made)) {
        Ok(content) => Ok(Ok(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Err(format!("no file `{made}` was made")))
        }
        Err(error) => Err(scratch_error(&error)),
    }
}

/// Returns the bytes of an object's sections that are loaded and cannot be written, which `size`
/// calls `text`.
///
/// # Errors
///
/// If the tool is missing, or cannot read the object.
pub fn text_size(object: &[u8]) -> Result<i64, DatasetError> {
    let folder = tempfile::tempdir().map_err(|error| scratch_error(&error))?;
    let file = folder.path().join("object.o");
    fs::write(&file, object).map_err(|error| scratch_error(&error))?;
    let run = ToolRun::new(SIZE, "an object").arg(&file).reads(folder.path());
    let text = String::from_utf8_lossy(&run.output()?).into_owned();
    let row = text.lines().nth(1).and_then(|row| row.split_whitespace().next());
    row.and_then(|size| size.parse().ok()).ok_or_else(|| {
        let (tool, what) = (SIZE.name.to_owned(), "an object".to_owned());
        DatasetError::ToolFailed { tool, what, detail: format!("it says: {text}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_comes_back_and_a_failure_before_a_pipe_is_one() {
        let lines =
            ["tr a-z A-Z <given >between".to_owned(), "cat between between >made".to_owned()];
        let given: [(&str, &[u8]); 1] = [("given", b"abc")];
        assert_eq!(llvm_commands(&lines, &given, "made").unwrap().unwrap(), b"ABCABC");
        let why = llvm_commands(&["false | cat >made".to_owned()], &[], "made").unwrap();
        assert!(why.unwrap_err().contains("exit code 1"));
        let why = llvm_commands(&["true".to_owned()], &[], "made").unwrap();
        assert_eq!(why.unwrap_err(), "no file `made` was made");
    }
}
