//! `optimize`: smaller programs, checked, and what was tried in the lake.

use std::fs;
use std::process::Command;

use steplake::lake::Table;

use super::{folder, toy};
use crate::fixtures::support::{fail, rows, run};

const SOURCE: &str = "\
static int table[64];
int weigh(const int *values, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++) {
        table[i & 63] = values[i];
        sum += values[i] * (i % 3) + table[(i + 1) & 63];
    }
    return sum;
}
int largest(const int *values, int count) {
    int most = values[0];
    for (int i = 1; i < count; i++) {
        most = values[i] > most ? values[i] : most;
    }
    return most;
}
";

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
    // The command that was printed makes a program of the same size, but for names.
    let passes = said.lines().find_map(|line| line.strip_prefix("opt -passes='")).unwrap();
    let (passes, _) = passes.split_once('\'').unwrap();
    let count = |file: &str, passes: &str| {
        let passes = format!("-passes={passes}");
        #[expect(clippy::disallowed_methods, reason = "LLVM's own optimiser")]
        let done = Command::new("opt-22").args(["-S", &passes, "-o", "-", file]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let text = String::from_utf8(done.stdout).unwrap();
        text.lines().filter(|line| line.starts_with("  ") && !line.contains(';')).count()
    };
    let ir = folder.path().join("input.ll");
    fs::write(&ir, run(&lake, &["replay", "--ir", &format!("file://{program}")])).unwrap();
    let made = count(ir.to_str().unwrap(), passes);
    assert!(made.abs_diff(count(bitcode, "verify")) <= 1, "{made} {said}");
    // What was tried is recorded.
    assert_eq!(rows(&lake, Table::Episodes).len(), 5);
    // The next call begins with what the lake has, for another objective too.
    let arguments = ["optimize", program, "--budget", "3", "--objective", "size", "-o", object];
    let said = run(&lake, &arguments);
    assert!(said.contains("3 sequences tried") && said.contains("bytes"), "{said}");
    assert!(fs::read(object).unwrap().starts_with(b"\x7fELF"));
    assert_eq!(rows(&lake, Table::Episodes).len(), 8);
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
}
