//! Runs every foreign program: confined, with limits, a known environment, and errors of one line.
//!
//! A program can open the system's files, those of its own installation, and those that its
//! [`ToolRun`] names. Only apt and curl, which need the network, are not confined.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::datasets::DatasetError;
use steplake_sandbox::{
    Limits, Missing, OpenPaths, Process, ProcessEnd, ProcessError, inherited, plain_environment,
};

/// The most memory that a program may use.
const MEMORY_MAX_BYTES: u64 = 8 << 30;
/// The largest file that a program may write.
const FILE_MAX_BYTES: u64 = 4 << 30;
/// The most that a program may print.
const OUTPUT_MAX_BYTES: usize = 512 << 20;
/// The most of a program's error output that is kept.
const STDERR_MAX_BYTES: usize = 64 << 10;
/// The most of an error line that goes into a message.
const DETAIL_MAX_CHARS: usize = 300;

/// Variables with network settings, for programs that use the network.
const NETWORK_VARIABLES: &str = "APT_CONFIG http_proxy https_proxy ftp_proxy no_proxy \
                                 HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY";

/// A foreign program, and the Debian packages that provide it.
#[derive(Debug, Clone, Copy)]
pub(in crate::datasets) struct ForeignTool {
    pub(in crate::datasets) name: &'static str,
    pub(in crate::datasets) package: &'static str,
}

/// Unpacks archives, with the programs that it starts for compressed ones.
pub(in crate::datasets) const TAR: ForeignTool =
    ForeignTool { name: "tar", package: "tar bzip2 xz-utils" };

/// One run of a [`ForeignTool`].
#[derive(Debug)]
pub(in crate::datasets) struct ToolRun<'a> {
    tool: ForeignTool,
    /// Its file, if it is not looked for on the search path.
    program: Option<PathBuf>,
    /// The task, for messages.
    what: &'a str,
    args: Vec<OsString>,
    folder: Option<&'a Path>,
    open: OpenPaths,
    network: bool,
    limit: Duration,
}

/// Returns the disk error in a tool's error line, if the disk is to blame and not the tool or its
/// input.
pub(in crate::datasets) fn disk_error(detail: &str) -> Option<io::Error> {
    let known = [
        ("No space left on device", io::ErrorKind::StorageFull),
        ("Disk quota exceeded", io::ErrorKind::QuotaExceeded),
        ("Read-only file system", io::ErrorKind::ReadOnlyFilesystem),
    ];
    let (_, kind) = known.iter().find(|(words, _)| detail.contains(words))?;
    Some(io::Error::new(*kind, detail))
}

impl<'a> ToolRun<'a> {
    /// Creates a run limited to one minute, in the current folder.
    pub(in crate::datasets) fn new(tool: ForeignTool, what: &'a str) -> Self {
        let (args, open, limit) = (Vec::new(), OpenPaths::default(), Duration::from_mins(1));
        Self { tool, program: None, what, args, folder: None, open, network: false, limit }
    }

    /// Runs the program in this file.
    pub(in crate::datasets) fn at(mut self, program: PathBuf) -> Self {
        self.program = Some(program);
        self
    }

    pub(in crate::datasets) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(in crate::datasets) fn args(
        self,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Runs the program in `folder`, which it may read.
    pub(in crate::datasets) fn folder(mut self, folder: &'a Path) -> Self {
        self.folder = Some(folder);
        self.reads(folder)
    }

    /// Allows reading a file, or everything in a folder.
    pub(in crate::datasets) fn reads(mut self, path: impl Into<PathBuf>) -> Self {
        self.open.read.push(path.into());
        self
    }

    /// Allows changing everything in a folder.
    pub(in crate::datasets) fn writes(mut self, folder: impl Into<PathBuf>) -> Self {
        self.open.write.push(folder.into());
        self
    }

    pub(in crate::datasets) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Allows using the network and all files.
    pub(in crate::datasets) fn with_network(mut self) -> Self {
        self.network = true;
        self
    }

    /// Allows opening all files, as on a kernel without Landlock.
    #[cfg(test)]
    pub(in crate::datasets) fn unconfined(self) -> Self {
        self.with_network()
    }

    /// Runs the program and returns its standard output.
    ///
    /// # Errors
    ///
    /// [`DatasetError::ToolFailed`] if the program ended by itself, unsuccessfully. That is its
    /// answer, and it would repeat it. Any other error says nothing about its input: the program
    /// could not start, took too long, or was killed.
    pub(in crate::datasets) fn output(&self) -> Result<Vec<u8>, DatasetError> {
        Ok(self.success()?.stdout)
    }

    /// Runs the program and returns its error output. The errors are those of [`ToolRun::output`].
    pub(in crate::datasets) fn messages(&self) -> Result<String, DatasetError> {
        Ok(String::from_utf8_lossy(&self.success()?.stderr).into_owned())
    }

    fn success(&self) -> Result<ProcessEnd, DatasetError> {
        let ended = self.ended()?;
        let (tool, what) = (self.tool.name.to_owned(), self.what.to_owned());
        if ended.timed_out {
            return Err(DatasetError::TimedOut { tool, what, limit: self.limit });
        }
        if ended.wrote_too_much {
            return Err(self.failed(format!("it printed more than {OUTPUT_MAX_BYTES} bytes")));
        }
        if ended.status.success() {
            return Ok(ended);
        }
        if let Some(signal) = ended.status.signal() {
            if signal == Signal::SIGXFSZ as i32 {
                return Err(self.failed(format!("its file grew beyond {FILE_MAX_BYTES} bytes")));
            }
            return Err(DatasetError::Killed { tool, what, signal });
        }
        let detail = first_error(&String::from_utf8_lossy(&ended.stderr));
        Err(self.failed(detail.unwrap_or_else(|| {
            format!("it ended with exit code {}", ended.status.code().unwrap_or(-1))
        })))
    }

    fn failed(&self, detail: String) -> DatasetError {
        let (tool, what) = (self.tool.name.to_owned(), self.what.to_owned());
        DatasetError::ToolFailed { tool, what, detail }
    }

    /// Starts the program and waits for its end.
    fn ended(&self) -> Result<ProcessEnd, DatasetError> {
        let mut environment = plain_environment();
        let network = if self.network { NETWORK_VARIABLES } else { "" };
        environment.extend(inherited(["TMPDIR"].into_iter().chain(network.split_whitespace())));
        if let Some(folder) = self.open.write.first() {
            environment.push(("TMPDIR".into(), folder.into()));
        }
        let limits = Limits {
            wall: self.limit,
            // CPU time is a second bound, for what a kernel lets escape.
            cpu: 2 * self.limit,
            memory_bytes: Some(MEMORY_MAX_BYTES),
            file_bytes: FILE_MAX_BYTES,
            stdout_bytes: OUTPUT_MAX_BYTES,
            stderr_bytes: STDERR_MAX_BYTES,
        };
        let mut process = Process {
            program: self.program.clone().map_or_else(|| find(self.tool), Ok)?,
            arguments: self.args.clone(),
            environment,
            folder: self.folder,
            walls: (!self.network).then(|| self.open.clone()),
            limits,
            input: None,
            cpu: None,
            gate: None,
        };
        process.run().map_err(|error| match error {
            ProcessError::Missing(missing) => missing.into(),
            error @ (ProcessError::Io(_) | ProcessError::NotSetUp(_)) => {
                let (tool, what) = (self.tool.name.to_owned(), self.what.to_owned());
                DatasetError::ToolNotRun { tool, what, detail: error.to_string() }
            }
        })
    }
}

/// Finds a tool on the search path.
pub(in crate::datasets) fn find(tool: ForeignTool) -> Result<PathBuf, DatasetError> {
    Ok(steplake_sandbox::find(tool.name, tool.package)?)
}

impl From<Missing> for DatasetError {
    fn from(Missing { name, package }: Missing) -> Self {
        Self::ToolMissing { tool: name.to_owned(), package }
    }
}

/// Returns the first line that reports an error, else the first line.
fn first_error(stderr: &str) -> Option<String> {
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let speaks = |line: &&str| line.contains("error: ") || line.starts_with("E: ");
    let line = lines().find(speaks).or_else(|| lines().next())?;
    let printable = line.chars().filter(|c| !c.is_control());
    Some(printable.take(DETAIL_MAX_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELL: ForeignTool = ForeignTool { name: "sh", package: "dash" };

    fn shell(script: &str) -> ToolRun<'_> {
        ToolRun::new(SHELL, "a script").arg("-c").arg(script)
    }

    #[test]
    fn output_comes_back() {
        let out = shell("echo one; echo two >&2; test -z \"$HOME$USER\"").output().unwrap();
        assert_eq!(out, b"one\n");
    }

    #[test]
    fn the_first_error_line_is_the_message() {
        let script = "echo note >&2; echo 'a.c:1:2: error: no' >&2; echo 'error: more' >&2; exit 3";
        let error = shell(script).output().unwrap_err();
        assert_eq!(error.to_string(), "sh failed on a script: a.c:1:2: error: no");
        let error = shell("exit 3").output().unwrap_err();
        assert_eq!(error.to_string(), "sh failed on a script: it ended with exit code 3");
    }

    #[test]
    fn only_an_exit_code_is_an_answer() {
        let failure = |script: &str| shell(script).output().unwrap_err();
        assert!(matches!(failure("exit 139"), DatasetError::ToolFailed { .. }));
        for (signal, number) in [("KILL", 9), ("SEGV", 11), ("TERM", 15)] {
            // Earlier error output does not explain a death by signal.
            let error = failure(&format!("echo 'a.c:1:2: error: no' >&2; kill -{signal} $$"));
            assert!(matches!(error, DatasetError::Killed { .. }), "{error}");
            let text = format!("sh failed on a script: it was ended by signal {number}");
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn time_is_bounded_for_the_whole_group() {
        let run = shell("sleep 1000 & sleep 1000").limit(Duration::from_millis(50));
        let error = run.output().unwrap_err();
        assert_eq!(error.to_string(), "sh on a script was stopped after 0 s");
    }

    #[test]
    fn what_a_child_leaves_behind_is_ended() {
        // Otherwise the pipe would stay open for a thousand seconds.
        assert_eq!(shell("sleep 1000 & echo done").output().unwrap(), b"done\n");
    }

    #[test]
    fn memory_is_bounded() {
        let out = shell("ulimit -v").output().unwrap();
        assert_eq!(out, format!("{}\n", MEMORY_MAX_BYTES >> 10).as_bytes());
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let run =
            ToolRun::new(ForeignTool { name: "no-such-tool", package: "such-tools" }, "nothing");
        let error = run.output().unwrap_err();
        assert_eq!(error.to_string(), "no-such-tool is not installed: apt-get install such-tools");
    }
}
