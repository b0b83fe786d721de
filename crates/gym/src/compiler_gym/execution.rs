//! How programs of clients are built and run.

use std::path::{Path, PathBuf};

use steplake::model::{Build, EXECUTABLE, Execution, Linker, ShellCommand};

use crate::proto;

/// How a client wants its program to be built and run.
#[derive(Debug, Default)]
pub(super) struct RequestedExecution {
    /// Its commands; none if the client does not say how the program is built.
    pub(super) execution: Option<Execution>,
    /// The absolute path at which it wants the executable. The commands name the executable in the
    /// scratch folder in its place.
    pub(super) made_at: Option<PathBuf>,
}

/// How a client wants its program to be built and run; none if it does not say how it is built.
pub(super) fn execution_of(
    config: Option<proto::BenchmarkDynamicConfig>,
) -> Option<RequestedExecution> {
    let config = config?;
    let several = |commands: Vec<proto::Command>| commands.into_iter().map(command).collect();
    let some = |own: proto::Command| Some(command(own)).filter(|own| !own.arguments.is_empty());
    let build = config.build_cmd.and_then(some)?;
    let outside = build.outfiles.first().filter(|file| Path::new(file).is_absolute()).cloned();
    let mut execution = Execution {
        build: Build::Command(build),
        run: config.run_cmd.and_then(some),
        before_runs: several(config.pre_run_cmd),
        after_runs: several(config.post_run_cmd),
        inputs: Vec::new(),
    };
    if let Some(outside) = &outside {
        let around = execution.before_runs.iter_mut().chain(&mut execution.after_runs);
        for command in execution.run.iter_mut().chain(around) {
            bring_inside(command, outside);
        }
        if let Build::Command(build) = &mut execution.build {
            bring_inside(build, outside);
        }
    }
    Some(RequestedExecution { execution: Some(execution), made_at: outside.map(PathBuf::from) })
}

/// Has a command name the executable in the scratch folder in place of a path outside of it.
fn bring_inside(command: &mut ShellCommand, outside: &str) {
    for argument in &mut command.arguments {
        let words = argument.split_inclusive(char::is_whitespace);
        *argument = words.map(|word| word_inside(word, outside)).collect();
    }
    for file in command.infiles.iter_mut().chain(&mut command.outfiles) {
        if file == outside {
            EXECUTABLE.clone_into(file);
        }
    }
}

/// The same for a word of a command line: the path alone, redirected to, or after an option.
fn word_inside(word: &str, outside: &str) -> String {
    let around = |c: char| c.is_whitespace() || "<>;\"'".contains(c);
    let core = word.trim_matches(around);
    let is_path = core == outside || (core.starts_with('-') && core.ends_with(outside));
    match word.rfind(outside).filter(|_| is_path) {
        Some(at) => format!("{}./{EXECUTABLE}{}", &word[..at], &word[at + outside.len()..]),
        None => word.to_owned(),
    }
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
        let execution_of = |config| execution_of(config).and_then(|wanted| wanted.execution);
        let execution = execution_of(Some(config.clone())).unwrap();
        assert_eq!(execution.run.as_ref().unwrap().line(), "./a.out 1");
        assert_eq!((execution.before_runs.len(), execution.executable()), (1, "a.out"));
        let unrunnable = proto::BenchmarkDynamicConfig { run_cmd: None, ..config.clone() };
        assert_eq!(execution_of(Some(unrunnable)).unwrap().run, None);
        let unbuildable = proto::BenchmarkDynamicConfig { build_cmd: None, ..config };
        assert_eq!([execution_of(Some(unbuildable)), execution_of(None)], [None, None]);
    }

    #[test]
    fn an_executable_elsewhere_is_made_in_the_scratch_folder() {
        let command = |line: &str, files: &[&str]| proto::Command {
            argument: line.split(' ').map(str::to_owned).collect(),
            outfile: files.iter().map(|&file| file.to_owned()).collect(),
            ..proto::Command::default()
        };
        let config = proto::BenchmarkDynamicConfig {
            build_cmd: Some(command("$CC $IN /u/made.c -o /u/made -o/u/made", &["/u/made", "b"])),
            run_cmd: Some(command("/u/made <'/u/made' /u/made/x /x/u/made", &[])),
            ..proto::BenchmarkDynamicConfig::default()
        };
        let wanted = execution_of(Some(config)).unwrap();
        assert_eq!(wanted.made_at, Some("/u/made".into()));
        let execution = wanted.execution.unwrap();
        let Build::Command(build) = &execution.build else { panic!("{execution:?}") };
        assert_eq!(build.line(), "$CC $IN /u/made.c -o ./a.out -o./a.out");
        assert_eq!((execution.executable(), build.outfiles.len()), ("a.out", 2));
        let run = execution.run.as_ref().unwrap();
        assert_eq!(run.line(), "./a.out <'./a.out' /u/made/x /x/u/made");
        assert_eq!(execution.check(), Ok(()));
    }

    #[test]
    fn own_programs_are_runnable_under_the_name_of_the_default_dataset() {
        assert!(own_execution("cbench-v1", "huffman").is_some());
        assert_eq!(own_execution("cbench-v1", "qsort"), None);
        assert_eq!(own_execution("other-v1", "huffman"), None);
    }
}
