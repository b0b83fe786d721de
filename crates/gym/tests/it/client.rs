//! The commands of `steplake` in the environments of services: what they record, and what they
//! refuse.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steplake::env::toy::{self, Harm, Only, Plant};

use crate::gym_server::{Server, bitcode};
use crate::programs::{InTime as _, output_of, program, until};

/// Returns a command line, as `steplake` hands it on.
pub(crate) fn command(lake: &Path, arguments: &[&str]) -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_steplake-gym"));
    command.args(["--quiet", "client", "--quiet", "--lake"]).arg(lake).args(arguments);
    for variable in ["STEPLAKE_LAKE", "STEPLAKE_LOG", "STEPLAKE_SERVICE_TOKEN", "SSL_CERT_FILE"] {
        command.env_remove(variable);
    }
    command
}

fn run(lake: &Path, arguments: &[&str]) -> Output {
    command(lake, arguments).output_in_time()
}

/// Runs a command that has to succeed, and returns what it prints.
pub(crate) fn done(lake: &Path, arguments: &[&str]) -> String {
    let output = run(lake, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that has to fail by a fault of its user, and returns what it says.
fn refused(lake: &Path, arguments: &[&str]) -> String {
    let output = run(lake, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn sql(lake: &Path, question: &str) -> String {
    done(lake, &["sql", "--format", "csv", question])
}

/// Writes a program, and returns its URI.
pub(crate) fn file(folder: &Path, name: &str, program: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, program).unwrap();
    format!("file://{}", path.display())
}

#[test]
fn a_lake_of_a_service_has_the_transitions_of_a_direct_recording() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let [direct, served] = ["direct", "served"].map(|name| folder.path().join(name));
    let run = ["--episodes", "40", "--episode-length", "20", "--policy", "explore"];
    let programs = ["--benchmark", "generator://toy-v0/0..2"];
    done(&direct, &[&["generate", "--env", "toy-v0"], &programs[..], &run[..]].concat());
    let environment = format!("grpc://{}/counter-v0", server.address);
    let files: Vec<String> = (0..3)
        .map(|seed| file(folder.path(), &seed.to_string(), &toy::benchmark(seed).program))
        .collect();
    let programs: Vec<&str> =
        files.iter().flat_map(|file| ["--benchmark", file.as_str()]).collect();
    let run = [&["generate", "--env", &environment], &programs[..], &run[..]].concat();
    done(&served, &run);
    for lake in [&direct, &served] {
        done(lake, &["dedup"]);
    }
    // A state of a service is named by the digest of its bytes, which is part of every lake.
    let transitions = |lake: &Path| {
        sql(
            lake,
            "SELECT a.bitcode_sha1 AS state, action_name(action) AS action, \
                b.bitcode_sha1 AS next_state, count, \"reward_Cost\" AS reward, \
                o.\"Cost\" AS cost, o.\"Bits\" AS bits \
             FROM state_transitions t JOIN ir a ON a.state_id = t.state_id \
                JOIN ir b ON b.state_id = t.next_state_id \
                JOIN observations o ON o.state_id = t.state_id \
             ORDER BY state, action",
        )
    };
    let expected = transitions(&direct);
    assert!(expected.lines().count() > 200, "{expected}");
    assert_eq!(transitions(&served), expected);
    let named = sql(&served, "SELECT count(*) AS n FROM ir WHERE state_id = bitcode_sha1");
    assert_eq!(named.lines().nth(1), sql(&served, "SELECT count(*) AS n FROM ir").lines().nth(1));
    // The same arguments continue the run, of which nothing is left.
    let again = done(&served, &[&run[..], &["--resume"]].concat());
    assert!(again.contains("nothing is left to do"), "{again}");
    // So do those with another port: where a service is does not matter.
    let moved = Server::start(&[]);
    let environment = format!("grpc://{}/counter-v0", moved.address);
    let run = [&["generate", "--env", &environment], &run[3..], &["--resume"]].concat();
    let again = done(&served, &run);
    assert!(again.contains("nothing is left to do"), "{again}");
    done(&served, &["verify"]);
}

#[test]
fn llvm_is_recorded_over_the_wire() {
    let server = Server::of("llvm-v0", &[]);
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let environment = format!("grpc://{}/wire-v0", server.address);
    let program = file(folder.path(), "f.bc", &bitcode(PROGRAM));
    let described = done(&lake, &["env", "describe", &environment]);
    for line in [
        "  ObjectTextSizeBytes           integer, recorded if it is named",
        "  Runtime                       its values are not deterministic",
        "  IrInstructionCount            the reduction of IrInstructionCount",
        "action space PassesAll (124 actions)",
    ] {
        assert!(described.contains(line), "{line}\n{described}");
    }
    let observe = ["--observe", "IrInstructionCount,Autophase,Programl"];
    let arguments = ["generate", "--env", &environment, "--benchmark", &program, "--steps", "200"];
    done(&lake, &[&arguments[..], &observe[..]].concat());
    done(&lake, &["dedup"]);
    // States that another space tells apart would be other states.
    let by_text = format!("{environment}?state=Ir");
    let other = ["generate", "--env", &by_text, "--benchmark", &program, "--steps", "1"];
    done(&lake, &other);
    let contexts = sql(&lake, "SELECT count(DISTINCT context) AS n FROM steps");
    assert_eq!(contexts, "n\n2\n");
    let least = sql(&lake, "SELECT min(\"IrInstructionCount\") AS n FROM observations");
    assert_eq!(least, "n\n1\n");
    let graphs = "SELECT count(*) AS n FROM observations WHERE \"Programl\" LIKE '{%'";
    assert_ne!(sql(&lake, graphs), "n\n0\n");
    let played = done(&lake, &["replay", "--env", &environment, &program, "instcombine", "--ir"]);
    assert!(!played.contains("add i32"), "{played}");
}

#[test]
fn failures_of_the_compiler_are_data() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let environment = format!("grpc://{}", server.address);
    let plant = Plant { harm: Harm::Breaks, action: "double".into(), every: 1, only: Only::Ever };
    let program = toy::planted("benchmark://user-v0/broken", 100, 7, plant).program;
    let program = file(folder.path(), "broken", &program);
    let run = ["generate", "--env", &environment, "--benchmark", &program, "--episodes", "20"];
    done(&lake, &run);
    done(&lake, &["dedup"]);
    let kinds = sql(&lake, "SELECT DISTINCT action_name(action) AS action, kind FROM failures");
    assert_eq!(kinds, "action,kind\ndouble,verifier\n");
}

/// Puts a GCC into a folder whose assembly is none where an option begins with `-fno-`, and returns
/// its driver.
fn put_compiler(folder: &Path) -> String {
    let cc1 = program("gcc").arg("-print-prog-name=cc1").output_in_time().stdout;
    let cc1 = String::from_utf8(cc1).unwrap();
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text} \"$@\"\n")).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let fails = r"printf '\tno_such_instruction\n' >program.s; exit 0";
    let case = format!("case \"$*\" in *--help*) ;; *' -fno-'*) {fails};; esac");
    put("cc1", format!("{case}\nexec {}", cc1.trim()));
    put("gcc", format!("exec gcc -B{}/", folder.display()))
}

/// No action asks GCC for anything: it fails when a state is looked at.
#[test]
fn a_service_says_which_observations_its_compiler_makes_of_a_state() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::of(&format!("gcc-v0/{}", put_compiler(folder.path())), &[]);
    let lake = folder.path().join("lake");
    let environment = format!("grpc://{}/wire-v0?state=state", server.address);
    let described = done(&lake, &["env", "describe", &environment]);
    let is_baseline = |line: &str| {
        line.starts_with("  asm_size_Os ") && line.ends_with("integer, recorded if it is named")
    };
    assert!(described.lines().any(is_baseline), "{described}");
    // The size of the object is no cost, which every step would be asked for.
    let environment = format!("{environment}&costs=asm_size");
    let text = b"# 1 \"sum.c\"\nint sum(int x) { return x + x; }\n";
    let program = file(folder.path(), "sum.i", text);
    let run = ["generate", "--env", &environment, "--benchmark", &program, "--observe", "obj_size"];
    done(&lake, &[&run[..], &["--episodes", "10", "--episode-length", "20"]].concat());
    done(&lake, &["dedup"]);
    let failed = "SELECT count(*) > 0 AS is_so FROM failures WHERE kind = 'assembler'";
    assert_eq!(sql(&lake, failed), "is_so\ntrue\n");
    let unknown = "SELECT count(*) AS n FROM observations WHERE obj_size IS NULL";
    assert_eq!(sql(&lake, unknown), "n\n0\n");
    done(&lake, &["verify"]);
}

#[test]
fn what_cannot_be_recorded_is_refused_with_the_reason() {
    let server = Server::of("llvm-v0", &[]);
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let refusal = |options: &str, more: &[&str]| {
        let environment = format!("grpc://{}/wire-v0{options}", server.address);
        let run = ["generate", "--env", &environment, "--steps", "1", "--benchmark"];
        refused(&lake, &[&run[..], more].concat())
    };
    let any = "benchmark://any-v0/any";
    for (options, more, said) in [
        (
            "",
            &[any, "--observe", "Runtime"][..],
            "`Runtime` cannot be recorded: its values are not",
        ),
        ("", &[any, "--ir", "keyframes=2"], "store all of them"),
        ("?state=Runtime", &[any], "`Runtime` cannot tell its states apart"),
        ("?costs=Autophase", &[any], "`Autophase` is no cost"),
        ("?cost=Autophase", &[any], "no option `cost=Autophase`"),
        ("", &["file:///no/such/file"], "there is no such file"),
        ("", &[any, "--action-space", "other-v0"], "write PassesAll"),
    ] {
        let refusal = refusal(options, more);
        assert!(refusal.contains(said), "{refusal}");
    }
    assert!(!lake.exists());
    // Only a session finds out whether the service knows a program.
    let unknown = refusal("", &[any]);
    assert!(unknown.contains("the service has to know it") && unknown.contains(any), "{unknown}");
    let text = file(folder.path(), "no program.bc", b"no bitcode");
    let wrong = refusal("", &[&text]);
    assert!(wrong.contains("/no%20program.bc") && !wrong.contains("steplake-"), "{wrong}");
    assert!(!lake.exists(), "a lake is left of a run that did not start");
}

#[test]
fn an_interrupt_ends_a_run_that_waits_for_a_service_and_resume_goes_on() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let environment = format!("grpc://{}", server.address);
    let program = file(folder.path(), "seven", &toy::benchmark(7).program);
    let run = ["generate", "--env", &environment, "--benchmark", &program, "--steps", "2000"];
    let run = [&run[..], &["--resume"]].concat();
    // A service that stands still.
    let stop = |signal| kill(Pid::from_raw(server.child.id().try_into().unwrap()), signal).unwrap();
    let child = command(&lake, &run).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("the lake is there", || lake.join("hot.sqlite").exists());
    stop(Signal::SIGSTOP);
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let output = output_of(child, "a run that was interrupted");
    stop(Signal::SIGCONT);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    done(&lake, &run);
    assert_eq!(sql(&lake, "SELECT count(action) AS n FROM steps"), "n\n2000\n");
}

#[test]
fn nobody_at_the_address_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["env", "describe", "grpc://127.0.0.1:1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no service answers at 127.0.0.1:1: start it"), "{said}");
}

/// A program of two instructions, of which one is not needed.
const PROGRAM: &str = "
define i32 @f(i32 %x) {
  %y = add i32 %x, 0
  ret i32 %y
}
";
