//! Programs of sessions, linked and run.

use std::collections::BTreeMap;

use steplake::env::Session;
use steplake::execution::{Code, Executable, ExecutionError, Samples, Settings};
use steplake::model::{Build, EnvironmentSpec, Execution, Linker, ShellCommand, Value};
use tonic::{Code as StatusCode, Status};

use super::{proto, status};

/// The states of a program that have a size of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sized {
    /// The present one.
    Present,
    /// The first one.
    First,
    /// The first one after this pipeline of LLVM.
    After(&'static str),
}

/// The executable of a session's state, and the sizes of its program's other states.
#[derive(Debug, Default)]
pub(super) struct Running {
    executable: Option<Executable>,
    sizes: BTreeMap<Sized, i64>,
}

impl Running {
    /// Forgets the executable, since the state is another one.
    pub(super) fn forget_state(&mut self) {
        self.executable = None;
    }

    /// The executable of the present state, made by `build` if it is not known.
    pub(super) fn executable(
        &mut self,
        build: impl FnOnce() -> Result<Executable, Status>,
    ) -> Result<&Executable, Status> {
        if self.executable.is_none() {
            self.executable = Some(build()?);
        }
        self.executable.as_ref().ok_or_else(|| Status::internal("an executable is lost"))
    }

    /// The size of a state, made by `measure` if it is not known.
    pub(super) fn size(
        &mut self,
        state: Sized,
        measure: impl FnOnce() -> Result<i64, Status>,
    ) -> Result<i64, Status> {
        if let Some(&size) = self.sizes.get(&state) {
            return Ok(size);
        }
        let size = measure()?;
        self.sizes.insert(state, size);
        Ok(size)
    }

    /// Builds the present state a number of times, and returns how long each took, in seconds.
    pub(super) fn build_times(
        &mut self,
        count: i64,
        mut build: impl FnMut() -> Result<Executable, Status>,
    ) -> Result<Value, Status> {
        let mut times = Vec::new();
        for _ in 0..count {
            let executable = build()?;
            times.push(executable.build_time().as_secs_f64());
            self.executable = Some(executable);
        }
        Ok(Value::FloatVector(times.into()))
    }
}

/// Runs an executable as often as a client wants, and returns how long each run took, in seconds.
pub(super) fn run_times(executable: &Executable, runs: i64, warmups: i64) -> Result<Value, Status> {
    let number = |count: i64| {
        u32::try_from(count)
            .map_err(|_large| Status::invalid_argument(format!("{count} runs are too many")))
    };
    let samples = Samples { count: number(runs)?, warmups: number(warmups)? };
    let times = executable.measure(&samples).map_err(|error| status_of(&error))?;
    Ok(Value::FloatVector(times.iter().map(std::time::Duration::as_secs_f64).collect()))
}

/// The size of an executable.
pub(super) fn text_size(executable: &Executable) -> Result<i64, Status> {
    let size = executable.text_size().map_err(|error| status_of(&error))?;
    i64::try_from(size).map_err(|_large| Status::internal("a size of 2^63 bytes"))
}

/// Builds the present state of a session.
pub(super) fn build(
    spec: &EnvironmentSpec,
    execution: &Execution,
    settings: &Settings,
    session: &mut Box<dyn Session>,
) -> Result<Executable, Status> {
    let is_linked = matches!(execution.build, Build::Link { .. });
    let space = if is_linked { spec.observation_index("Object") } else { Some(spec.state_index()) };
    let space = space
        .ok_or_else(|| Status::unimplemented(format!("{} makes no machine code", spec.name)))?;
    let Value::Bytes(bytes) = session.observe(space).map_err(|error| status::of(&error))? else {
        return Err(Status::internal("a program is not bytes: this is a defect, please report it"));
    };
    let code = if is_linked { Code::Object(&bytes) } else { Code::Program(&bytes) };
    Executable::build(execution, code, settings).map_err(|error| status_of(&error))
}

fn status_of(error: &ExecutionError) -> Status {
    let code = match error {
        ExecutionError::TimedOut { .. } => StatusCode::DeadlineExceeded,
        ExecutionError::Machine(_) | ExecutionError::NotSetUp { .. } => StatusCode::Unavailable,
        ExecutionError::ToolMissing { .. } => StatusCode::Unimplemented,
        ExecutionError::WrongCode => StatusCode::Internal,
        // What the client sent cannot be built or run.
        _ => StatusCode::InvalidArgument,
    };
    Status::new(code, steplake::assembly::messages::line(error))
}

/// How a client wants its program to be built and run; none if it does not say how it is built.
pub(super) fn execution_of(config: Option<proto::BenchmarkDynamicConfig>) -> Option<Execution> {
    let config = config?;
    let several = |commands: Vec<proto::Command>| commands.into_iter().map(command).collect();
    let some = |own: proto::Command| Some(command(own)).filter(|own| !own.arguments.is_empty());
    Some(Execution {
        build: Build::Command(config.build_cmd.and_then(some)?),
        run: config.run_cmd.and_then(some),
        before_runs: several(config.pre_run_cmd),
        after_runs: several(config.post_run_cmd),
        inputs: Vec::new(),
    })
}

fn command(sent: proto::Command) -> ShellCommand {
    ShellCommand {
        arguments: sent.argument,
        environment: sent.env,
        timeout_s: u32::try_from(sent.timeout_seconds).unwrap_or(0),
        infiles: sent.infile,
        outfiles: sent.outfile,
    }
}

/// How a program of this project is built and run that a client has under the name of its default
/// dataset: nothing comes with it.
pub(super) fn own_execution(dataset: &str, path: &str) -> Option<Execution> {
    let is_own = matches!(dataset, "cbench-v1" | "steplake-v0")
        && steplake::datasets::own_programs().any(|name| name == path);
    is_own.then(|| Execution::linked(Linker::C, &["-lm"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_how_it_is_built_and_run() {
        let words = |line: &str| proto::Command {
            argument: line.split(' ').map(str::to_owned).collect(),
            timeout_seconds: -1,
            ..proto::Command::default()
        };
        let config = proto::BenchmarkDynamicConfig {
            build_cmd: Some(words("$CC $IN")),
            run_cmd: Some(words("./a.out 1")),
            pre_run_cmd: vec![words("echo 1")],
            ..proto::BenchmarkDynamicConfig::default()
        };
        let execution = execution_of(Some(config.clone())).unwrap();
        assert_eq!(execution.run.as_ref().unwrap().line(), "./a.out 1");
        assert_eq!((execution.before_runs.len(), execution.executable()), (1, "a.out"));
        let unrunnable = proto::BenchmarkDynamicConfig { run_cmd: None, ..config.clone() };
        assert_eq!(execution_of(Some(unrunnable)).unwrap().run, None);
        let unbuildable = proto::BenchmarkDynamicConfig { build_cmd: None, ..config };
        assert_eq!([execution_of(Some(unbuildable)), execution_of(None)], [None, None]);
    }

    #[test]
    fn own_programs_are_runnable_under_the_name_of_the_default_dataset() {
        assert!(own_execution("cbench-v1", "huffman").is_some());
        assert_eq!(own_execution("cbench-v1", "qsort"), None);
        assert_eq!(own_execution("other-v1", "huffman"), None);
    }
}
