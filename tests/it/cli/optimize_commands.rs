//! The commands that `optimize` prints make its result, and what clang makes is what clang makes.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steplake::lake::{Lake, Table};

use super::folder;
use super::optimize::between;
use crate::fixtures::programs::{self, InTime as _, output_of, until};
use crate::fixtures::support::{err, run, steplake};

/// A program that a sequence makes smaller than `clang -Oz` does.
const SOURCE: &str = "\
#include <stdio.h>
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(void) {
    for (int i = 0; i < 20; i++) {
        printf(\"%d\\n\", fib(i));
    }
    return 0;
}
";

/// Runs a shell's text in a folder, with `steplake` on the search path.
fn shell(folder: &Path, text: &str) -> String {
    let own = Path::new(env!("CARGO_BIN_EXE_steplake")).parent().unwrap();
    let path = format!("{}:{}", own.display(), env::var("PATH").unwrap());
    let done = programs::program("bash")
        .args(["-e", "-o", "pipefail", "-c", text])
        .current_dir(folder)
        .env("PATH", path)
        .output_in_time();
    assert!(done.status.success(), "{text}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The commands of a report.
fn commands(said: &str) -> String {
    let (_, rest) = said.split_once("these commands make the result, ").unwrap();
    let lines = rest.lines().skip(1).take_while(|line| {
        ["(cd ", "opt-22 ", "steplake "].iter().any(|program| line.starts_with(program))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Optimises a program, with each kind of result, and has a shell make them again.
fn demand_same(lake: &Path, folder: &Path, program: &str, more: &[&str]) -> String {
    let [bitcode, object] = ["result.bc", "result.o"].map(|name| folder.join(name));
    let mut all = String::new();
    for written in [&bitcode, &object] {
        let arguments = ["optimize", program, "--budget", "4", "-o", written.to_str().unwrap()];
        let said = run(lake, &[&arguments[..], more].concat());
        let again = folder.join("again");
        fs::create_dir(&again).unwrap();
        shell(&again, &commands(&said));
        let made = if written == &object { "output.o" } else { "output.bc" };
        assert!(
            fs::read(again.join(made)).unwrap() == fs::read(written).unwrap(),
            "other bytes: {said}"
        );
        fs::remove_dir_all(again).unwrap();
        all += &said;
    }
    all
}

#[test]
fn the_commands_of_a_report_make_the_same_object_byte_by_byte() {
    let (folder, lake) = folder();
    let folder = fs::canonicalize(folder.path()).unwrap();
    let program = folder.join("it's fib.c");
    fs::write(&program, SOURCE).unwrap();
    let name = program.to_str().unwrap();
    let said = demand_same(&lake, &folder, name, &[]);
    assert!(said.contains("less than -Oz"), "{said}");
    assert!(said.contains("do not give output.bc to `clang -Oz -c`: "), "{said}");
    let how = ["--objective", "runtime", "--arguments", ""];
    demand_same(&lake, &folder, name, &how);
    let benchmark = "benchmark://steplake-v0/edit_distance";
    let said = demand_same(&lake, &folder, benchmark, &["--objective", "size"]);
    assert!(said.contains("less than -Oz"), "{said}");
    // Nothing is smaller than what clang makes of it.
    fs::write(&program, "int main(void) { return 0; }\n").unwrap();
    let said = demand_same(&lake, &folder, name, &["--objective", "size"]);
    assert!(said.contains("the result is what -Oz makes"), "{said}");
    assert!(!said.contains("do not give output.bc"), "{said}");
}

#[test]
fn the_commands_take_the_mark_of_level_0_off() {
    let (folder, lake) = folder();
    let program = folder.path().join("twice.ll");
    let source = "define i32 @twice(i32 %x) noinline optnone {\n  %slot = alloca i32\n  \
                  store i32 %x, ptr %slot\n  %y = load i32, ptr %slot\n  %z = add i32 %y, %y\n  \
                  ret i32 %z\n}\n";
    fs::write(&program, source).unwrap();
    let said = demand_same(&lake, folder.path(), program.to_str().unwrap(), &[]);
    assert!(said.contains("the first command takes the mark off"), "{said}");
    assert!(said.contains(": 5 instructions untouched, 2 after -Oz, "), "{said}");
}

/// The number before a word in a report's first line.
fn number(said: &str, before: &str) -> usize {
    let (front, _) = said.split_once(before).unwrap_or_else(|| panic!("no {before} in {said}"));
    front.rsplit([' ', ',']).next().unwrap().parse().unwrap()
}

#[test]
fn what_a_report_says_of_the_levels_of_clang_is_what_clang_makes() {
    let (folder, lake) = folder();
    let program = folder.path().join("fib.c");
    fs::write(&program, SOURCE).unwrap();
    let report = |objective: &str| {
        let name = program.to_str().unwrap();
        run(&lake, &["optimize", name, "--budget", "1", "--objective", objective])
    };
    let (ir, size) = (report("ir"), report("size"));
    for (level, before) in [("-Oz", " after -Oz, "), ("-O3", " after -O3\n")] {
        let text = shell(folder.path(), &format!("clang-22 {level} -S -emit-llvm fib.c -o -"));
        let counted = text.lines().filter(|line| line.starts_with("  ")).count();
        assert_eq!(number(&ir, before), counted, "{level}: {ir}");
        let sizes = format!("clang-22 {level} -c fib.c -o fib.o && size fib.o");
        let sizes = shell(folder.path(), &sizes);
        let row = sizes.lines().nth(1).unwrap().split_whitespace().next().unwrap();
        assert_eq!(number(&size, before), row.parse::<usize>().unwrap(), "{level}: {size}");
    }
}

#[test]
fn ctrl_c_writes_the_best_so_far() {
    let (folder, lake) = folder();
    let written = folder.path().join("orbits.o");
    let program = "benchmark://steplake-v0/orbits";
    let mut child = steplake(&lake)
        .args(["optimize", program, "--budget", "100000", "-o", written.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // As soon as an episode is there, it is interrupted.
    let episodes = || {
        let snapshot = Lake::open(&lake).and_then(|lake| lake.snapshot());
        snapshot.map_or(0, |snapshot| snapshot.rows(Table::Episodes))
    };
    until("an episode is recorded", || child.try_wait().unwrap().is_some() || episodes() > 0);
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let ended = output_of(child, "optimize");
    assert_eq!(ended.status.code(), Some(130), "{}", err(&ended));
    let (said, errors) = (String::from_utf8_lossy(&ended.stdout), err(&ended));
    let result = "steplake: interrupted after ";
    assert!(errors.contains(result) && errors.contains(" of 100,000 sequences: "), "{errors}");
    assert!(errors.contains("what is written is the best so far"), "{errors}");
    let tried = between(&errors, result, " of ");
    assert!(said.contains(&format!("\n{tried} sequence")), "{said} {errors}");
    assert!(said.contains("checked: the program does what it does untouched"), "{said}");
    assert!(fs::read(&written).unwrap().starts_with(b"\x7fELF"), "{said}");
    // The next call begins with it.
    run(&lake, &["optimize", program, "--budget", "1"]);
}
