//! Programs that do what they should.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use steplake::datasets::{self, DatasetError, Datasets, INPUTS};
use steplake::env::llvm::LlvmEnvironment;
use steplake::env::{Environment, Session, Start, Watch};
use steplake::execution::{
    Behaviour, Executable, ExecutableCode, ExecutionError, ProgramEnd, RunSettings,
};
use steplake::model::{ActionIndex, Benchmark, Execution, Input, Linker, Value};

use super::{built, compile, linked, script, shell};

/// The action space whose actions are LLVM's own pipelines.
const PIPELINES: &str = "llvm22-pipelines-v0";

fn datasets_in(folder: &Path) -> Datasets {
    let (cache, apt_sources) = (folder.into(), folder.into());
    Datasets::new(&datasets::DatasetFolders { cache, apt_sources, mirrors: Vec::new() })
}

fn object(environment: &LlvmEnvironment, session: &mut dyn Session) -> Vec<u8> {
    let space = environment.spec().observation_index("Object").unwrap();
    let Value::Bytes(object) = session.observe(space).unwrap() else { panic!("not bytes") };
    object
}

/// What a program prints as it is, and after `default<Oz>`.
fn outputs(environment: &LlvmEnvironment, benchmark: &Benchmark) -> [String; 2] {
    behaviours(environment, benchmark, &RunSettings::default())
        .map(|behaviour| String::from_utf8(behaviour.stdout).unwrap())
}

/// What a program does as it is, and after `default<Oz>`.
fn behaviours(
    environment: &LlvmEnvironment,
    benchmark: &Benchmark,
    settings: &RunSettings,
) -> [Behaviour; 2] {
    let mut session = environment.session().unwrap();
    let watch = Watch::default();
    let start = Start { benchmark, action_space: PIPELINES, baselines: None, watch: &watch };
    session.start(&start).unwrap();
    let space = environment.spec().action_space(PIPELINES).unwrap();
    let smallest = space.actions.iter().position(|action| action.name == "-Oz").unwrap();
    [None, u32::try_from(smallest).ok()].map(|action| {
        if let Some(action) = action {
            session.apply(ActionIndex(action)).unwrap();
        }
        let object = object(environment, session.as_mut());
        let execution = benchmark.execution.as_ref().unwrap();
        let executable =
            Executable::build(execution, ExecutableCode::Object(&object), settings).unwrap();
        let run = executable.run(&[]).unwrap();
        assert_eq!(run.behaviour.end, ProgramEnd::Exit(0), "{}", benchmark.uri);
        run.behaviour
    })
}

/// Some of the programs, from the packages of this machine's Debian. A machine that cannot fetch
/// them leaves them out.
#[test]
fn programs_of_debian_packages_do_the_same_before_and_after_oz() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, apt_sources) = (folder.path().join("cache"), "/etc/apt".into());
    let settings =
        datasets::DatasetFolders { cache: cache.clone(), apt_sources, mirrors: Vec::new() };
    let datasets = Datasets::new(&settings);
    let settings = RunSettings { inputs: Some(cache.join(INPUTS)), ..RunSettings::default() };
    let environment = LlvmEnvironment::new();
    for name in ["adpcm", "minigzip", "qsort", "sha"] {
        let uri = format!("benchmark://steplake-bench-v0/{name}");
        let benchmark = match datasets.benchmark(&uri.parse().unwrap()) {
            Ok(benchmark) => benchmark,
            Err(
                DatasetError::Offline { .. }
                | DatasetError::NoPackageSources { .. }
                | DatasetError::OtherDebian { .. },
            ) => return,
            Err(error) => panic!("{uri}: {error}"),
        };
        let [before, after] = behaviours(&environment, &benchmark, &settings);
        assert!(!before.stdout.is_empty(), "{uri}");
        assert!(before == after, "{uri}");
    }
}

#[test]
fn every_program_of_the_project_prints_what_it_should_before_and_after_oz() {
    let folder = tempfile::tempdir().unwrap();
    let datasets = datasets_in(folder.path());
    let uris = datasets.expand("benchmark://steplake-v0").unwrap();
    assert!(uris.len() >= 25, "{}", uris.len());
    let environment = LlvmEnvironment::new();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(uri) = uris.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let benchmark = datasets.benchmark(uri).unwrap();
                    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/programs");
                    let expected = root.join(uri.path()).with_extension("expected");
                    let expected = fs::read_to_string(expected).unwrap();
                    let [before, after] = outputs(&environment, &benchmark);
                    assert_eq!(before, expected, "{uri}");
                    assert_eq!(after, expected, "{uri} after -Oz");
                }
            });
        }
    });
}

#[test]
fn generated_programs_print_their_checksum_and_those_without_main_cannot_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let datasets = datasets_in(folder.path());
    let get = |uri: &str| datasets.benchmark(&uri.parse().unwrap()).unwrap();
    let [before, after] = outputs(&LlvmEnvironment::new(), &get("generator://csmith-v0/7"));
    assert!(before.starts_with("checksum = "), "{before}");
    assert_eq!(before, after);
    assert_eq!(get("generator://llvm-stress-v0/7").execution, None);
}

#[test]
fn cxx_programs_are_linked_with_its_library() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("a.cc");
    let text = "#include <iostream>\n#include <vector>\nint main() {\n\
                std::vector<int> v{3, 4}; std::string s; std::cin >> s;\n\
                std::cout << s << v[0] + v[1] << std::endl; return v[0]; }\n";
    fs::write(&source, text).unwrap();
    let object = compile(&source, &["-c", "--driver-mode=g++"], &folder.path().join("a.o"));
    let (execution, settings) = (Execution::linked(Linker::Cxx, &[]), RunSettings::default());
    let program =
        Executable::build(&execution, ExecutableCode::Object(&object), &settings).unwrap();
    let behaviour = program.run(b"word\n").unwrap().behaviour;
    assert_eq!((behaviour.end, &*behaviour.stdout), (ProgramEnd::Exit(3), &b"word7\n"[..]));
    // The other driver does not link that library.
    let execution = Execution::linked(Linker::C, &[]);
    let error =
        Executable::build(&execution, ExecutableCode::Object(&object), &settings).unwrap_err();
    assert!(matches!(error, ExecutionError::BuildFailed { .. }), "{error}");
    assert!(error.to_string().contains("undefined reference"), "{error}");
}

#[test]
fn a_command_builds_what_it_is_given_and_declares_its_files() {
    let mut execution = script("cat \"$IN\" > out; test -x \"$CC\"", "cat out > result; cat; ls");
    execution.before_runs = vec![shell("echo 1 > before")];
    execution.after_runs = vec![shell("rm before")];
    let program = built(&execution).unwrap();
    let run = |input: &[u8]| program.run(input).unwrap().behaviour;
    let one = run(b"in\n");
    assert_eq!(String::from_utf8_lossy(&one.stdout), "in\nbefore\nout\nout.bc\nresult\n");
    let file = one.files["result"].unwrap();
    assert_eq!(file.bytes, 7);
    assert_eq!(file.digest, *blake3::hash(b"program").as_bytes());
    assert_eq!(one, run(b"in\n"));
    assert_ne!(one, run(b"other\n"));
    assert!(!program.folder().join("before").exists());
    // What it says goes to a database and comes back.
    let text = serde_json::to_string(&execution).unwrap();
    assert_eq!(serde_json::from_str::<Execution>(&text).unwrap(), execution);
}

#[test]
fn inputs_lie_in_the_folder_as_they_were_before_each_run() {
    let cache = tempfile::tempdir().unwrap();
    let blake3 = blake3::hash(b"text").to_hex().to_string();
    let mut execution = script("cat in/data > out", "cat in/data; rm -f in/data; echo x > in/data");
    execution.inputs = vec![Input { name: "in/data".into(), blake3: blake3.clone() }];
    let build = |cache: Option<&Path>| {
        let settings = RunSettings { inputs: cache.map(Path::to_owned), ..RunSettings::default() };
        Executable::build(&execution, ExecutableCode::Program(b"program"), &settings)
    };
    for there in [None, Some(&b"other"[..])] {
        if let Some(there) = there {
            fs::write(cache.path().join(&blake3), there).unwrap();
        }
        let error = build(Some(cache.path())).unwrap_err();
        assert!(matches!(error, ExecutionError::MissingInput { .. }), "{error}");
    }
    assert!(matches!(build(None).unwrap_err(), ExecutionError::MissingInput { .. }));
    fs::write(cache.path().join(&blake3), "text").unwrap();
    let program = build(Some(cache.path())).unwrap();
    for _ in 0..3 {
        assert_eq!(program.run(&[]).unwrap().behaviour.stdout, b"text");
    }
    assert_eq!(fs::read(program.folder().join("out")).unwrap(), b"text");
    assert_eq!(fs::read(cache.path().join(&blake3)).unwrap(), b"text");
}

#[test]
fn a_file_that_is_not_made_is_none() {
    let behaviour = built(&script(": > out", "true")).unwrap().run(&[]).unwrap().behaviour;
    assert_eq!(behaviour.files["result"], None);
    // Nor is one that belongs to somebody else.
    let link = built(&script(": > out", "ln -s /etc/passwd result")).unwrap();
    assert_eq!(link.run(&[]).unwrap().behaviour.files["result"], None);
}

#[test]
fn a_program_takes_time_on_one_cpu() {
    let settings = RunSettings { cpu: Some(0), ..RunSettings::default() };
    let program = linked(
        "#define _GNU_SOURCE\n#include <sched.h>\n#include <stdio.h>\nint main(void) {\n\
         cpu_set_t set; sched_getaffinity(0, sizeof set, &set);\n\
         FILE *f = fopen(\"runs\", \"a\"); fputc('x', f); fclose(f);\n\
         return CPU_COUNT(&set) == 1 && CPU_ISSET(0, &set) ? 0 : 1; }\n",
        &settings,
    );
    for _ in 0..3 {
        let run = program.run(&[]).unwrap();
        assert_eq!(run.behaviour.end, ProgramEnd::Exit(0));
        assert!(!run.wall_time.is_zero());
    }
    assert_eq!(fs::read(program.folder().join("runs")).unwrap(), b"xxx");
    assert!(!program.build_time().is_zero());
    assert!(program.text_size().unwrap() > 500);
}

/// The shell, and what sets limits, is not in the CPU time; the program is.
#[test]
fn the_cpu_time_is_that_of_the_program() {
    let busy = "#include <time.h>\nint main(void) {\n\
                while (clock() < CLOCKS_PER_SEC / 20) {} return 0; }\n";
    let run = linked(busy, &RunSettings::default()).run(&[]).unwrap();
    // `clock` counts from before the gate.
    assert!(run.cpu_time.as_millis() >= 30, "{:?}", run.cpu_time);
    assert!(run.wall_time >= run.cpu_time / 2);
}
