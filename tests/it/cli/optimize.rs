//! `optimize`: smaller programs, checked, and what was tried in the lake.

use std::fs;
use std::process::Command;

use steplake::lake::Table;

use super::{folder, toy};
use crate::fixtures::support::{fail, rows, run};

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

/// The instructions of the program that a shell's command prints.
fn instructions(command: &str) -> usize {
    #[expect(clippy::disallowed_methods, reason = "LLVM's own optimiser")]
    let done = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().filter(|line| line.starts_with("  ")).count()
}

#[test]
fn a_program_becomes_smaller_and_the_lake_has_what_was_tried() {
    let (folder, lake) = folder();
    let [program, bitcode, object] =
        ["weigh.c", "weigh.bc", "weigh.o"].map(|name| folder.path().join(name));
    fs::write(&program, SOURCE).unwrap();
    let [program, bitcode, object] =
        [&program, &bitcode, &object].map(|path| path.to_str().unwrap());
    let said = run(&lake, &["optimize", program, "--budget", "5", "-o", bitcode]);
    assert!(said.contains("5 sequences tried") && said.contains("less than -Oz"), "{said}");
    assert!(said.contains("not checked by running: nobody says how the program is run"), "{said}");
    // The command that was printed makes a program of the same size.
    let command = said.lines().find(|line| line.starts_with("opt -passes='")).unwrap();
    let command = command.replacen("opt", "opt-22 -S", 1).replace("output.bc", "-");
    assert_eq!(
        instructions(&command),
        instructions(&format!("opt-22 -S {bitcode} -o -")),
        "{said}"
    );
    // What was tried is recorded.
    assert_eq!(rows(&lake, Table::Episodes).len(), 5);
    // The next call begins with what the lake has.
    let result = |said: &str| {
        let (_, result) = said.split_once("tried: ").unwrap();
        result.split_once(' ').unwrap().0.parse::<u64>().unwrap()
    };
    let again = run(&lake, &["optimize", program, "--budget", "1"]);
    assert_eq!(result(&again), result(&said), "{again} {said}");
    let arguments = ["optimize", program, "--budget", "3", "--objective", "size", "-o", object];
    let said = run(&lake, &arguments);
    assert!(said.contains("3 sequences tried") && said.contains("bytes"), "{said}");
    assert!(fs::read(object).unwrap().starts_with(b"\x7fELF"));
    assert_eq!(rows(&lake, Table::Episodes).len(), 9);
}

#[test]
fn a_program_that_runs_is_run() {
    let (_folder, lake) = folder();
    let program = "benchmark://steplake-v0/orbits";
    let said = run(&lake, &["optimize", program, "--budget", "3"]);
    assert!(said.contains("checked: the program does what it does untouched"), "{said}");
}

#[test]
fn what_cannot_be_optimised_is_said() {
    let (folder, lake) = folder();
    let (code, said) = fail(&lake, &["optimize", "no-such-file.c"]);
    assert!(code == 2 && said.contains("no-such-file.c cannot be read"), "{said}");
    let text = folder.path().join("text.c");
    fs::write(&text, "no C at all").unwrap();
    let (code, said) = fail(&lake, &["optimize", text.to_str().unwrap()]);
    assert!(code == 2 && said.contains("text.c"), "{code} {said}");
    assert!(!lake.exists(), "no lake without a program");
    toy(&lake, &["--steps", "10"]);
    let (code, said) = fail(&lake, &["optimize", "benchmark://steplake-v0/huffman"]);
    assert!(code == 3 && said.contains("toy-v0"), "{code} {said}");
    let other = folder.path().join("other");
    let huffman = "benchmark://steplake-v0/huffman";
    let space = ["--action-space", "compilergym-v0", "--episodes", "1", "--episode-length", "5"];
    run(&other, &[&["generate", "--benchmark", huffman], &space[..]].concat());
    let (code, said) = fail(&other, &["optimize", huffman]);
    assert!(code == 2 && said.contains("compilergym-v0"), "{code} {said}");
    let nowhere = folder.path().join("no folder/a.bc");
    let arguments = ["optimize", huffman, "-o", nowhere.to_str().unwrap()];
    let (code, said) = fail(&folder.path().join("third"), &arguments);
    assert!(code == 2 && said.contains("no folder/a.bc"), "{code} {said}");
}
