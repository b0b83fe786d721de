//! Programs built and run: what they do, how long they take, and what becomes of bad ones.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

mod bad_programs;
mod contests;
mod kernels;
mod measuring;
mod oracles;
mod programs;

use std::path::Path;

use steplake::execution::{Executable, ExecutableCode, ExecutionError, Oracle, RunSettings};
use steplake::model::{Build, Execution, Linker, ShellCommand};
use steplake::sandbox::Interrupt;

use crate::fixtures::programs::{InTime as _, program};

/// Compiles a program of C to an object.
fn object_of(text: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("a.c"), folder.path().join("a.o"));
    std::fs::write(&source, text).unwrap();
    compile(&source, &["-c"], &object)
}

pub(crate) fn compile(source: &Path, flags: &[&str], to: &Path) -> Vec<u8> {
    let mut clang = program("clang-22");
    let status = clang.args(flags).arg(source).arg("-o").arg(to).status_in_time();
    assert!(status.success());
    std::fs::read(to).unwrap()
}

fn linked(text: &str, settings: &RunSettings) -> Executable {
    let execution = Execution::linked(Linker::C, &[]);
    Executable::build(&execution, ExecutableCode::Object(&object_of(text)), settings).unwrap()
}

/// What a program of C has to do.
fn oracle_of(text: &str, settings: &RunSettings) -> Result<Oracle, ExecutionError> {
    let execution = Execution::linked(Linker::C, &[]);
    Oracle::of(&execution, &object_of(text), settings, &Interrupt::default())
}

fn shell(line: &str) -> ShellCommand {
    ShellCommand { arguments: vec![line.to_owned()], ..ShellCommand::default() }
}

/// How a script is built and run, whatever the program is.
fn script(build: &str, run: &str) -> Execution {
    let build = Build::Command(ShellCommand { outfiles: vec!["out".into()], ..shell(build) });
    let run = Some(ShellCommand { outfiles: vec!["result".into()], ..shell(run) });
    let (before_runs, after_runs) = (Vec::new(), Vec::new());
    Execution { build, run, before_runs, after_runs, inputs: Vec::new() }
}

fn built(execution: &Execution) -> Result<Executable, ExecutionError> {
    let settings = RunSettings { reads_named_files: true, ..RunSettings::default() };
    Executable::build(execution, ExecutableCode::Program(b"program"), &settings)
}
