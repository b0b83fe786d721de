//! How programs of clients are built and run.

use steplake::model::{Build, Execution, Linker, ShellCommand};

use super::proto;

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
