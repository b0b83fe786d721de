//! The supervisor's end of a child.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::personality::{self, Persona};
use nix::sys::signal::Signal;

use super::child::{ActionTrial, ChildLine, ProbeTask};
use super::condition::ProbeCondition;

/// How an action killed its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildDeath {
    /// The action exceeded its CPU time.
    TimeOut,
    /// The child ended in any other way.
    Crash,
}

/// A child process, which is killed when dropped.
pub(super) struct Child {
    process: std::process::Child,
    tasks: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Child {
    pub(super) fn start(
        program: &Path,
        arguments: &[OsString],
        condition: ProbeCondition,
    ) -> io::Result<Self> {
        let mut process = with_persona(condition.random_addresses, || {
            #[expect(clippy::disallowed_methods, reason = "runs this library's own code")]
            Command::new(program)
                .args(arguments)
                .envs(condition.variables.iter().copied())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
        })?;
        let tasks = process.stdin.take().expect("it was piped");
        let lines = BufReader::new(process.stdout.take().expect("it was piped"));
        Ok(Self { process, tasks, lines })
    }

    /// Runs a task. Returns the trials, or which step killed the child and how. A dead child is of
    /// no further use.
    pub(super) fn run(
        &mut self,
        task: &ProbeTask,
    ) -> io::Result<Result<Vec<ActionTrial>, (usize, ChildDeath)>> {
        writeln!(self.tasks, "{}", serde_json::to_string(task)?)?;
        let mut trials = Vec::with_capacity(task.actions.len());
        let mut begun = false;
        let mut text = String::new();
        loop {
            text.clear();
            if self.lines.read_line(&mut text)? == 0 {
                let status = self.process.wait()?;
                if !begun {
                    return Err(io::Error::other(format!("a probe's child ended early: {status}")));
                }
                let timed_out = status.signal() == Some(Signal::SIGXCPU as i32);
                let death = if timed_out { ChildDeath::TimeOut } else { ChildDeath::Crash };
                return Ok(Err((trials.len(), death)));
            }
            match serde_json::from_str(&text)? {
                ChildLine::Begin => begun = true,
                ChildLine::Done(trial) => {
                    trials.push(trial);
                    begun = false;
                }
                ChildLine::End => return Ok(Ok(trials)),
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The child may be dead already, and there is nobody to tell.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Runs `spawn` with or without random addresses for this thread's children.
fn with_persona<T>(random_addresses: bool, spawn: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let usual = personality::get()?;
    if !random_addresses {
        personality::set(usual | Persona::ADDR_NO_RANDOMIZE)?;
    }
    let spawned = spawn();
    personality::set(usual)?;
    spawned
}
