//! Tests with the compilers of this machine. `gcc` is one of them: CI installs `build-essential`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::compiler::Compiler;
use super::tool::{CompilerTool, plain_limits};
use super::{GccEnvironment, NAME};
use steplake_env::worker::WorkerConfig;
use steplake_env::{Environment, Session, SessionError, Start, Watch};
use steplake_model::{
    Benchmark, Failure, FailureKind, ObservationIndex, Outcome, Provenance, StateId, Step, Value,
    ValueType,
};
use steplake_sandbox::{Enclosure, Interrupt, OpenPaths};

const SOURCE: &str = "# 1 \"sum.c\"\n\
    static int twice(int x) { return x + x; }\n\
    int sum(const int *numbers, int count) {\n\
    \tint sum = 0;\n\
    \tfor (int at = 0; at < count; at++) sum += twice(numbers[at]) / 3;\n\
    \treturn sum;\n\
    }\n";

/// Takes more time and memory than there is.
const LARGE: &str =
    "struct s { int a[100]; } s[] = { [0 ... 9999999] = { { [0 ... 99] = 1 } } };\n";

fn benchmark(program: &[u8]) -> Benchmark {
    Benchmark {
        uri: "file:///sum.i".parse().unwrap(),
        program: program.into(),
        provenance: Provenance::default(),
        execution: None,
    }
}

/// Puts a script into a folder, in place of the one that was there, as updates do.
fn put_script(folder: &Path, name: &str, text: &str) {
    let [new, place] = ["new", name].map(|name| folder.join(name));
    std::fs::write(&new, format!("#!/bin/sh\n{text} \"$@\"\n")).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(new, place).unwrap();
}

/// Puts the compiler `gcc` into a folder, whose `cc1` is a script that begins with this text.
fn put_compiler(folder: &Path, text: &str) -> GccEnvironment {
    put_cc1(folder, text);
    put_script(folder, "gcc", &format!("exec gcc -B{}/", folder.display()));
    GccEnvironment::open(folder.join("gcc").to_str().unwrap()).unwrap()
}

fn put_cc1(folder: &Path, text: &str) {
    let cc1 = Compiler::open("").unwrap().cc1.program.clone();
    put_script(folder, "cc1", &format!("{text}\nexec {}", cc1.display()));
}

/// An environment with a session, which has started a program.
struct StartedGcc {
    environment: GccEnvironment,
    session: Box<dyn Session>,
    state: StateId,
}

impl StartedGcc {
    fn start(program: &[u8]) -> Self {
        Self::start_in(GccEnvironment::open("").unwrap(), program)
    }

    fn start_in(environment: GccEnvironment, program: &[u8]) -> Self {
        let mut session = environment.session().unwrap();
        let space = environment.spec().action_spaces[0].name.clone();
        let started = session
            .start(&Start {
                benchmark: &benchmark(program),
                action_space: &space,
                baselines: None,
                watch: &Watch::default(),
            })
            .unwrap();
        Self { environment, session, state: started.state }
    }

    fn apply(&mut self, action: &str) -> Step {
        let index = self.environment.spec().action_spaces[0].index_of(action).unwrap();
        let step = self.session.apply(index).unwrap();
        self.state = step.outcome.state().unwrap();
        step
    }

    fn space(&self, name: &str) -> ObservationIndex {
        self.environment.spec().observation_index(name).unwrap()
    }

    fn look(&mut self, name: &str) -> Value {
        let space = self.space(name);
        self.session.observe(space).unwrap()
    }

    fn text(&mut self, name: &str) -> String {
        let Value::Text(text) = self.look(name) else { panic!("{name} is text") };
        text
    }

    fn int(&mut self, name: &str) -> i64 {
        let Value::Int(number) = self.look(name) else { panic!("{name} is an integer") };
        number
    }

    fn bytes(&mut self, name: &str) -> Vec<u8> {
        let Value::Bytes(bytes) = self.look(name) else { panic!("{name} is bytes") };
        bytes
    }
}

#[test]
fn the_spec_is_that_of_the_compiler() {
    let environment = GccEnvironment::open("").unwrap();
    let spec = environment.spec();
    assert_eq!(spec.name, NAME);
    assert!(spec.compiler.starts_with("GCC "), "{}", spec.compiler);
    assert!(spec.compiler.contains("cc1 ") && spec.compiler.contains("as "), "{}", spec.compiler);
    assert_eq!(environment.options().list()[0].label(), "-O");
    let old = [
        "source",
        "rtl",
        "asm",
        "asm_hash",
        "obj_hash",
        "instruction_counts",
        "command_line",
        "asm_size",
        "obj_size",
        "obj",
        "choices",
    ];
    for name in old {
        let index = spec.observation_index(name).unwrap();
        assert!(spec.observation_space(index).unwrap().on_request, "{name}");
    }
    let state = spec.observation_space(spec.state_index()).unwrap();
    assert_eq!((state.value_type, state.on_request), (ValueType::Bytes, false));
    assert_eq!((&*spec.reward_spaces[0].name, spec.state_index().0), ("text_size", 23));
    for name in ["asm_size", "obj_size", "obj_size_Os", "text_size_Oz"] {
        let reward = spec.reward_spaces.iter().find(|space| space.name == name).unwrap();
        assert!(spec.is_on_request(reward));
    }
}

#[test]
fn gcc_12_has_as_many_options_and_actions_as_were_counted() {
    let Ok(environment) = GccEnvironment::open("gcc-12") else { return };
    assert_eq!(environment.options().list().len(), 520);
    assert_eq!(environment.spec().action_spaces[0].actions.len(), 2376);
    assert_eq!(environment.spec().action_spaces[0].name, "gcc12-v0");
}

#[test]
fn every_space_shows_what_the_compiler_makes() {
    let mut played = StartedGcc::start(SOURCE.as_bytes());
    assert_eq!(played.text("source"), SOURCE);
    let assembly = played.text("asm");
    assert!(assembly.contains(".file\t\"sum.c\"") && assembly.contains("sum:"), "{assembly}");
    assert_eq!(played.int("asm_size"), i64::try_from(assembly.len()).unwrap());
    let object = played.bytes("obj");
    assert_eq!(&object[..4], b"\x7fELF");
    assert_eq!(played.int("obj_size"), i64::try_from(object.len()).unwrap());
    assert_eq!((played.text("asm_hash").len(), played.text("obj_hash").len()), (32, 32));
    let counts = played.text("instruction_counts");
    assert!(counts.starts_with("{\".cfi\":") && counts.contains("\"ret\":2"), "{counts}");
    assert!(played.text("rtl").contains("(insn"), "an RTL dump has instructions");
    let major = Compiler::open("").unwrap().major;
    assert_eq!(played.text("command_line"), format!("gcc-{major} -w -c src.c -o obj.o"));
    let Value::IntVector(choices) = played.look("choices") else { panic!("a vector") };
    assert_eq!(choices.len(), played.environment.options().list().len());
    assert!(choices.iter().all(|&choice| choice == -1));
    assert_eq!(played.bytes("state"), SOURCE.as_bytes());
}

#[test]
fn the_text_is_what_llvm_size_counts() {
    let other = "static int zeros[99]; int data = 7; const char *const name = \"a name\";\n\
        extern void say(const char *, double);\n\
        __attribute__((section(\"own\"))) int apart(int at) { return zeros[at]; }\n\
        int main(void) { say(name, data / 3.0); return apart(2); }\n";
    for source in [SOURCE, other] {
        let mut played = StartedGcc::start(source.as_bytes());
        for action in ["-O0", "-O2", "-fno-asynchronous-unwind-tables", "-fdata-sections", "-g"] {
            if played.environment.spec().action_spaces[0].index_of(action).is_none() {
                continue;
            }
            played.apply(action);
            let wanted = steplake_programs::datasets::text_size(&played.bytes("obj")).unwrap();
            assert_eq!(played.int("text_size"), wanted, "{action}");
        }
        // Tables for unwinding the stack are a part of it.
        let mut bare = StartedGcc::start(source.as_bytes());
        bare.apply("-fno-asynchronous-unwind-tables");
        assert!(bare.int("text_size") < bare.int("text_size_O0"));
    }
}

#[test]
fn a_compile_that_sleeps_ends_after_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let text = "case \"$*\" in *\" -O1\"*) sleep 1000;; esac";
    let environment = put_compiler(folder.path(), text);
    let config =
        WorkerConfig { step_cpu_max: Duration::from_secs(1), ..WorkerConfig::new(PathBuf::new()) };
    let environment = environment.within(&config).unwrap();
    let mut session = environment.session().unwrap();
    let program = format!("// gcc-v0 state 1: -O1\n{SOURCE}");
    let space = environment.spec().action_spaces[0].name.clone();
    let (benchmark, watch) = (benchmark(program.as_bytes()), Watch::default());
    let start =
        Start { benchmark: &benchmark, action_space: &space, baselines: None, watch: &watch };
    session.start(&start).unwrap();
    let size = environment.spec().observation_index("text_size").unwrap();
    let error = session.observe(size).unwrap_err();
    let SessionError::Unobservable(failure) = &error else { panic!("{error}") };
    assert_eq!(failure.to_string(), "time-out: it stood still for 10 s");
}

#[test]
fn a_step_is_arithmetic_and_a_look_compiles() {
    let mut played = StartedGcc::start(SOURCE.as_bytes());
    let (untouched, size) = (played.state, played.int("obj_size"));
    let step = played.apply("-O2");
    assert!(matches!(step.outcome, Outcome::State { changed: true, end_of_episode: false, .. }));
    assert!(step.rewards.iter().all(|reward| reward.is_nan()));
    let first = played.state;
    assert!(first != untouched && played.int("obj_size") != size);
    let again = played.apply("-O2");
    assert!(matches!(again.outcome, Outcome::State { changed: false, .. }));
    assert_eq!(played.state, first);
    played.apply("-fno-gcse");
    let bytes = played.bytes("state");
    let line = String::from_utf8(bytes.clone()).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(line, "// gcc-v0 state 1: -O2 -fno-gcse");
    assert_eq!(played.session.identify(&bytes).unwrap(), played.state);
    let mut there = StartedGcc::start(&bytes);
    assert_eq!(there.state, played.state);
    for name in ["asm", "command_line", "choices", "obj", "state"] {
        assert_eq!(there.look(name), played.look(name), "{name}");
    }
}

#[test]
fn all_choices_are_made_at_once() {
    let environment = GccEnvironment::open("").unwrap();
    let list = environment.options().list();
    let mut choices = vec![-1; list.len()];
    choices[0] = 2;
    let gcse = list.iter().position(|option| option.label() == "-fgcse").unwrap();
    choices[gcse] = 1;
    let program = environment.program(SOURCE.as_bytes(), &choices).unwrap();
    let mut step_by_step = StartedGcc::start(SOURCE.as_bytes());
    step_by_step.apply("-fno-gcse");
    step_by_step.apply("-O2");
    assert_eq!(StartedGcc::start(&program).state, step_by_step.state);
    choices[gcse] = 2;
    let error = environment.program(SOURCE.as_bytes(), &choices).unwrap_err().to_string();
    assert!(error.contains("-fgcse has no choice 2: -1 to 1 are"), "{error}");
    let error = environment.program(SOURCE.as_bytes(), &choices[1..]).unwrap_err().to_string();
    assert!(error.contains("options"), "{error}");
}

#[test]
fn baselines_are_those_of_one_level_alone() {
    let mut played = StartedGcc::start(SOURCE.as_bytes());
    for level in ["-O0", "-Os"] {
        let mut there =
            StartedGcc::start(format!("// gcc-v0 state 1: {level}\n{SOURCE}").as_bytes());
        for cost in ["asm_size", "obj_size", "text_size"] {
            let name = format!("{cost}_{}", &level[1..]);
            assert_eq!(played.int(&name), there.int(cost), "{name}");
        }
    }
    assert_eq!(played.int("obj_size"), played.int("obj_size_O0"));
}

#[test]
fn what_the_compiler_refuses_cannot_be_observed_and_the_episode_goes_on() {
    let mut played = StartedGcc::start(b"int f(void) { return nothing; }\n");
    for name in ["asm", "obj_size", "rtl", "asm_size_Os"] {
        let space = played.space(name);
        let error = played.session.observe(space).unwrap_err();
        let SessionError::Unobservable(failure) = &error else { panic!("{error}") };
        assert_eq!(failure.kind, FailureKind::Rejected);
        assert!(failure.detail.contains("undeclared"), "{failure}");
    }
    played.apply("-O2");
    assert!(played.text("command_line").contains("-O2"));
}

#[test]
fn a_compile_that_exceeds_its_limits_cannot_be_observed() {
    let usual = WorkerConfig::new(PathBuf::new());
    let brief = WorkerConfig { step_cpu_max: Duration::from_secs(1), ..usual.clone() };
    let small = WorkerConfig { memory_bytes_max: 96 << 20, ..usual };
    let limits = [(brief, FailureKind::TimeOut), (small, FailureKind::OutOfMemory)];
    for (config, wanted) in limits {
        let environment = GccEnvironment::open("").unwrap();
        let spec = environment.spec().clone();
        let limited = environment.within(&config).unwrap();
        let mut session = limited.session().unwrap();
        let space = &spec.action_spaces[0].name;
        let (benchmark, watch) = (benchmark(LARGE.as_bytes()), Watch::default());
        let start =
            Start { benchmark: &benchmark, action_space: space, baselines: None, watch: &watch };
        session.start(&start).unwrap();
        let size = spec.observation_index("asm_size").unwrap();
        let error = session.observe(size).unwrap_err();
        let SessionError::Unobservable(failure) = &error else { panic!("{error}") };
        assert_eq!(failure.kind, wanted, "{failure}");
    }
}

/// Returns how a compiler fails whose `cc1` begins with this text.
fn failure_of(text: &str) -> Result<i64, Failure> {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("case \"$*\" in *--help*) ;; *) {text};; esac");
    let mut played = StartedGcc::start_in(put_compiler(folder.path(), &text), SOURCE.as_bytes());
    let space = played.space("asm_size");
    match played.session.observe(space) {
        Ok(Value::Int(size)) => Ok(size),
        Err(SessionError::Unobservable(failure)) => Err(failure),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_crash_is_tried_again_and_what_the_compiler_says_of_its_input_is_not() {
    let once = |fails: &str| format!("if [ ! -e seen ]; then : >seen; {fails}; fi");
    let crash = "echo 'a.i:1: internal compiler error: in f, at g.cc:7' >&2; exit 4";
    for fails in [crash, "kill -SEGV $$"] {
        assert!(failure_of(&once(fails)).unwrap() > 100, "{fails}");
    }
    let refused = "echo 'cc1: error: section anchors must be disabled' >&2; exit 1";
    let failure = failure_of(&once(refused)).unwrap_err();
    assert_eq!(failure.to_string(), "rejected: cc1: error: section anchors must be disabled");
    let failure = failure_of(crash).unwrap_err();
    assert_eq!(failure.to_string(), "crash: a.i:1: internal compiler error: in f, at g.cc:7");
    assert_eq!(failure_of("kill -SEGV $$").unwrap_err().to_string(), "crash: SIGSEGV");
}

#[test]
fn an_option_that_the_compiler_refuses_is_a_failure_of_its_own_kind() {
    let mut played = StartedGcc::start(SOURCE.as_bytes());
    played.apply("-fsection-anchors");
    played.apply("-fno-toplevel-reorder");
    let space = played.space("obj_size");
    let error = played.session.observe(space).unwrap_err();
    let SessionError::Unobservable(failure) = &error else { panic!("{error}") };
    let wanted = "cc1: error: section anchors must be disabled when toplevel reorder is disabled";
    assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::Rejected, wanted));
}

#[test]
fn what_the_assembler_refuses_is_a_failure_of_its_own_kind() {
    let program = b"int f(void) { __asm__(\"no_such_instruction\"); return 1; }\n";
    let mut played = StartedGcc::start(program);
    assert!(played.int("asm_size") > 100);
    let space = played.space("obj_size");
    let error = played.session.observe(space).unwrap_err();
    let SessionError::Unobservable(failure) = &error else { panic!("{error}") };
    assert_eq!(failure.kind, FailureKind::Assembler);
    assert!(failure.detail.contains("Error: no such instruction"), "{failure}");
}

#[test]
fn a_program_without_functions_has_no_rtl_whatever_was_compiled_before() {
    let mut played = StartedGcc::start(SOURCE.as_bytes());
    assert!(played.text("rtl").contains("(insn"));
    let other = benchmark(b"int nothing;\n");
    let space = played.environment.spec().action_spaces[0].name.clone();
    let watch = Watch::default();
    let start = Start { benchmark: &other, action_space: &space, baselines: None, watch: &watch };
    played.session.start(&start).unwrap();
    assert_eq!(played.text("rtl"), "");
    assert!(played.text("asm").contains("nothing"));
}

#[test]
fn assembler_text_that_takes_in_a_file_cannot_be_observed() {
    let marked = r##"int f(void) { asm("#NO_APP\n.incbin \"/usr/bin/env\""); return 1; }"##;
    let conditional = "static int g(int x) {\n\
        if (__builtin_constant_p(x)) asm(\".include \\\"f\\\"\");\nreturn x; }\n\
        int f(void) { return g(3); }\n";
    for (program, is_at_first) in [(marked, true), (conditional, false)] {
        let mut played = StartedGcc::start(program.as_bytes());
        let size = played.space("obj_size");
        assert_eq!(played.session.observe(size).is_err(), is_at_first, "{program}");
        played.apply("-O2");
        for name in ["obj_size", "asm", "obj"] {
            let space = played.space(name);
            let error = played.session.observe(space).unwrap_err();
            let SessionError::Unobservable(failure) = &error else { panic!("{error}") };
            assert_eq!(failure.kind, FailureKind::Assembler);
            assert!(failure.detail.contains(".inc"), "{failure}");
        }
    }
    let string = "const char *f(void) { return \".incbin \\\"f\\\"\"; }\n";
    assert!(StartedGcc::start(string.as_bytes()).int("obj_size") > 500);
}

#[test]
fn an_interrupt_ends_a_compile() {
    // The first question comes before the compiler starts.
    let asked = AtomicUsize::new(0);
    let is_raised = move || asked.fetch_add(1, Ordering::Relaxed) > 0;
    let config =
        WorkerConfig { interrupt: Interrupt::new(is_raised), ..WorkerConfig::new(PathBuf::new()) };
    let environment = GccEnvironment::open("").unwrap();
    let spec = environment.spec().clone();
    let mut session = environment.within(&config).unwrap().session().unwrap();
    let space = &spec.action_spaces[0].name;
    let (benchmark, watch) = (benchmark(LARGE.as_bytes()), Watch::default());
    let start =
        Start { benchmark: &benchmark, action_space: space, baselines: None, watch: &watch };
    session.start(&start).unwrap();
    let error = session.observe(spec.observation_index("asm_size").unwrap()).unwrap_err();
    assert!(matches!(error, SessionError::Interrupted), "{error}");
}

#[test]
fn a_script_that_adds_an_argument_is_another_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let builds = ["", "-m32", "-Dstatic="].map(|argument| {
        let name = format!("gcc{argument}");
        put_script(folder.path(), &name, &format!("exec gcc {argument}"));
        let script = folder.path().join(name);
        let environment = GccEnvironment::open(script.to_str().unwrap()).unwrap();
        environment.spec().compiler.clone()
    });
    let plain = GccEnvironment::open("").unwrap().spec().compiler.clone();
    assert_eq!(builds[0], plain);
    assert_ne!(builds[1], plain);
    // It makes other programs of C, and then compiles them in the same way.
    assert_ne!(builds[2], plain);
}

#[test]
fn a_compiler_that_is_replaced_while_it_is_in_use_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let environment = put_compiler(folder.path(), "");
    let build = environment.spec().compiler.clone();
    let mut played = StartedGcc::start_in(environment, SOURCE.as_bytes());
    let size = played.int("asm_size");
    played.apply("-O2");
    assert_ne!(played.int("asm_size"), size);
    put_cc1(folder.path(), "# Another one.");
    played.apply("-O0");
    for name in ["asm_size", "rtl"] {
        let space = played.space(name);
        let error = played.session.observe(space).unwrap_err();
        assert!(matches!(error, SessionError::Machine(_)), "{error:?}");
        assert!(error.to_string().contains("was replaced while it was in use"), "{error}");
    }
    // Who opens it now gets the other one.
    let again = GccEnvironment::open(folder.path().join("gcc").to_str().unwrap()).unwrap();
    assert_ne!(again.spec().compiler, build);
    assert_eq!(StartedGcc::start_in(again, SOURCE.as_bytes()).int("asm_size"), size);
}

#[test]
fn a_compile_for_which_memory_has_no_room_goes_on_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk = std::env::temp_dir().canonicalize().unwrap();
    let full = "echo 'program.s: No space left on device' >&2; exit 1";
    let text = format!("case $(pwd -P) in {}/*) ;; *) {full};; esac", disk.display());
    let environment = put_compiler(folder.path(), &text);
    assert!(StartedGcc::start_in(environment, SOURCE.as_bytes()).int("obj_size") > 500);
    // There is no other place than the disk.
    let nowhere = tempfile::tempdir().unwrap();
    let text = format!("case \"$*\" in *--help*) ;; *) {full};; esac");
    let environment = put_compiler(nowhere.path(), &text);
    let mut played = StartedGcc::start_in(environment, SOURCE.as_bytes());
    let space = played.space("obj_size");
    let error = played.session.observe(space).unwrap_err();
    assert!(matches!(error, SessionError::Machine(_)), "{error:?}");
    assert!(error.to_string().contains("No space left"), "{error}");
}

#[test]
fn a_fork_goes_its_own_way() {
    let mut played = StartedGcc::start(SOURCE.as_bytes());
    played.apply("-O1");
    let mut fork = played.session.fork().unwrap();
    let (state, size) = (played.state, played.int("asm_size"));
    let space = played.space("asm_size");
    assert_eq!(fork.observe(space).unwrap(), Value::Int(size));
    played.apply("-O0");
    let bytes = fork.observe(played.space("state")).unwrap();
    let Value::Bytes(bytes) = bytes else { panic!("bytes") };
    assert_eq!(fork.identify(&bytes).unwrap(), state);
}

#[test]
fn cc1_makes_what_the_driver_makes() {
    use super::state::GccState;
    use super::tool::{CompilerTool, plain_limits};
    use super::workplace::Workplace;
    let compiler = Compiler::open("").unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("other.i"), SOURCE).unwrap();
    let limits = plain_limits(Duration::from_mins(1));
    let mut workplace =
        Workplace::new(std::sync::Arc::clone(&compiler), WorkerConfig::new(PathBuf::new()));
    for line in [
        "",
        "-O3 -fno-asynchronous-unwind-tables",
        "-Os -fno-plt -falign-functions",
        "-O2 -fexceptions -fno-omit-frame-pointer --param=max-slsr-cand-scan=7 -fwrapv -ftrapv",
        "-Og -fstack-protector-all -fpack-struct=4 -fshort-enums -fno-toplevel-reorder",
    ] {
        let state = format!("// gcc-v0 state 1: {line}\n{SOURCE}").into_bytes();
        let state = GccState::parse(&compiler.options, &state).unwrap();
        let words = state.choices.words(&compiler.options);
        let made = workplace.assembly(&state.source, &words).unwrap();
        let mut arguments: Vec<_> = words.iter().map(std::ffi::OsString::from).collect();
        arguments.extend(["-w", "-S", "other.i", "-o", "other.s"].map(Into::into));
        let driver = CompilerTool::new(compiler.driver.clone(), compiler.cc1.read.clone());
        let ended = driver.run(&arguments, folder.path(), &limits).unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let wanted = std::fs::read(folder.path().join("other.s")).unwrap();
        assert_eq!(String::from_utf8_lossy(&made), String::from_utf8_lossy(&wanted), "{line}");
    }
}

#[test]
fn a_compiler_that_is_not_here_is_said() {
    for (name, wanted) in [
        ("gcc-99", "there is no `gcc-99` here: apt-get install gcc-99"),
        ("/nowhere/gcc", "there is no `/nowhere/gcc` here"),
        ("docker:", "is no name of a container image"),
        ("docker:no-such-image", "container image `no-such-image`"),
        ("true", "does not say how it starts `cc1`"),
    ] {
        let error = GccEnvironment::open(name).unwrap_err();
        assert!(matches!(error, SessionError::Unavailable { .. }));
        assert!(error.to_string().contains(wanted), "{error}");
    }
}

#[test]
fn an_audit_compiles_with_another_heap() {
    let folder = tempfile::tempdir().unwrap();
    let (read, write) = (vec![PathBuf::from("/")], vec![folder.path().to_owned()]);
    let tool = CompilerTool::new(steplake_sandbox::search("printenv").unwrap(), read.clone());
    let enclosure = Enclosure::new(OpenPaths { read, write }).unwrap();
    let limits = plain_limits(Duration::from_mins(1));
    let said = |config: &WorkerConfig| {
        let (name, heap) = (["MALLOC_PERTURB_".into()], config.heap_variables());
        let ended = tool.run_in(&enclosure, &name, folder.path(), &limits, heap, || false);
        String::from_utf8(ended.unwrap().stdout).unwrap()
    };
    let usual = WorkerConfig::new(PathBuf::new());
    assert_eq!(said(&usual), "");
    assert_eq!(said(&usual.of_an_audit()), "165\n");
}
