//! `optimize`: smaller programs, checked, and what was tried in the lake.

use std::fs;

use steplake::lake::Table;

use super::folder;
use crate::fixtures::programs::{self, InTime as _};
use crate::fixtures::support::{fail, rows, run};

/// A name of C may look like one of C++.
const SOURCE: &str = "\
#include <stdio.h>
static int fib_Z(int n) { return n < 2 ? n : fib_Z(n - 1) + fib_Z(n - 2); }
int main(void) {
    for (int i = 0; i < 20; i++) {
        printf(\"%d\\n\", fib_Z(i));
    }
    return 0;
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
    // Machine code is made once for each sequence.
    let sizes = r#"SELECT count("ObjectTextSizeBytesCodegenOz") FROM observations"#;
    let sizes = run(&lake, &["sql", "--format", "csv", sizes]);
    let count: u64 = sizes.lines().nth(1).unwrap().parse().unwrap();
    assert!((1..=3).contains(&count), "{sizes}");
}

#[test]
fn a_program_that_runs_is_run() {
    let (_folder, lake) = folder();
    let program = "benchmark://steplake-v0/orbits";
    let said = run(&lake, &["optimize", program, "--budget", "3"]);
    assert!(said.contains("checked: the program does what it does untouched"), "{said}");
}

#[test]
fn programs_as_of_clang_at_level_0_are_told_apart_and_no_program_is_overwritten() {
    let (folder, lake) = folder();
    let program = folder.path().join("it's.ll");
    let source = "define i32 @twice(i32 %x) noinline optnone {\n  %slot = alloca i32\n  \
                  store i32 %x, ptr %slot\n  %y = load i32, ptr %slot\n  %z = add i32 %y, %y\n  \
                  ret i32 %z\n}\n";
    fs::write(&program, source).unwrap();
    let name = program.to_str().unwrap();
    let said = run(&lake, &["optimize", name, "--budget", "1"]);
    assert!(said.contains("functions of the program are marked `optnone`"), "{said}");
    for program in [name, &format!("file://{name}")] {
        let (code, said) = fail(&lake, &["optimize", program, "-o", name]);
        assert!(code == 2 && said.contains("that is the program itself"), "{code} {said}");
    }
    assert_eq!(fs::read_to_string(program).unwrap(), source);
}

#[test]
fn what_cannot_be_optimised_is_said() {
    let (folder, lake) = folder();
    let (code, said) = fail(&lake, &["optimize", "no-such-file.c"]);
    assert!(code == 2 && said.contains("no-such-file.c`: there is no such file"), "{said}");
    let text = folder.path().join("text.c");
    fs::write(&text, "no C at all").unwrap();
    let (code, said) = fail(&lake, &["optimize", text.to_str().unwrap()]);
    assert!(code == 2 && said.contains("text.c"), "{code} {said}");
    for name in ["empty.c", "empty.ll", "empty.bc"] {
        let empty = folder.path().join(name);
        fs::write(&empty, if name == "empty.c" { "\n" } else { "" }).unwrap();
        let (code, said) = fail(&lake, &["optimize", empty.to_str().unwrap()]);
        assert!(code == 2 && said.contains(&format!("{name} is an empty file")), "{code} {said}");
        let uri = format!("file://{}", fs::canonicalize(&empty).unwrap().display());
        let (code, said) = fail(&lake, &["generate", "-b", &uri, "--steps", "1"]);
        assert!(code == 2 && said.contains(&format!("{name} is an empty file")), "{code} {said}");
    }
    assert!(!lake.exists(), "no lake without a program");
    let other = folder.path().join("other");
    let huffman = "benchmark://steplake-v0/huffman";
    let space = ["--action-space", "compilergym-v0", "--episodes", "1", "--episode-length", "5"];
    run(&other, &[&["generate", "--benchmark", huffman], &space[..]].concat());
    let (code, said) = fail(&other, &["optimize", huffman]);
    assert!(code == 2 && said.contains("give another one; the option is --lake"), "{code} {said}");
    let nowhere = folder.path().join("no folder/a.bc");
    let arguments = ["optimize", huffman, "-o", nowhere.to_str().unwrap()];
    let (code, said) = fail(&folder.path().join("third"), &arguments);
    assert!(code == 2 && said.contains("no folder/a.bc"), "{code} {said}");
}

/// Says in the order of arguments and standard input what it was given.
const SPEAKER: &str = "\
#include <stdio.h>
int main(int argc, char **argv) {
    double sum = 0;
    for (int i = 1; i < 2000000; i++) {
        sum += 1.0 / i;
    }
    for (int i = 1; i < argc; i++) {
        printf(\"<%s>\\n\", argv[i]);
    }
    int character;
    while ((character = getchar()) != EOF) {
        putchar(character);
    }
    printf(\"%f\\n\", sum);
    return 0;
}
";

/// The text between two others.
pub(super) fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after} in {text}")).0
}

/// Checks that a result is that of a pipeline of LLVM's own, or else faster than `-O3` by its own
/// samples.
fn demand_not_slower(said: &str) {
    for level in ["O3", "Oz"] {
        if said.contains(&format!("the result is what -{level} makes: ")) {
            let of_clang = said.contains(&format!(" -{level} -c "));
            let of_opt = said.contains(&format!("opt-22 -passes='default<{level}>' "));
            assert!(of_clang || of_opt, "{said}");
            return;
        }
    }
    let interval = said.rsplit_once(" times as fast (").unwrap().1;
    assert!(interval.contains(") as -O3\n"), "{said}");
    let lower: f64 = interval.split_once(" to ").unwrap().0.parse().unwrap();
    assert!(lower >= 1.0, "{said}");
    assert!(said.contains("checked: the program does what it does untouched"), "{said}");
}

#[test]
fn a_program_of_ones_own_becomes_fast_and_does_what_it_did() {
    let (folder, lake) = folder();
    let [program, input, object] =
        ["speaker.c", "input.txt", "speaker.o"].map(|name| folder.path().join(name));
    fs::write(&program, SPEAKER).unwrap();
    fs::write(&input, "some\ninput\n").unwrap();
    let [program, input, object] = [&program, &input, &object].map(|path| path.to_str().unwrap());
    let how = ["--arguments", "-x 'two words' '$HOME'", "--stdin", input];
    let arguments = ["optimize", program, "--objective", "runtime", "--budget", "3", "-o", object];
    let said = run(&lake, &[&arguments[..], &how].concat());
    assert!(said.contains("3 sequences tried: "), "{said}");
    let figures = said.lines().next().unwrap();
    for of in [" s untouched, ", " s after -Oz, ", " s after -O3: medians of ", " runs, in turns"] {
        assert!(figures.contains(of), "{said}");
    }
    demand_not_slower(&said);
    // The object file is linked and does what it should.
    let done = folder.path().join("speaker");
    let line =
        format!("cc -o {0} {object} -lm && {0} -x 'two words' '$HOME' <{input}", done.display());
    let ran = programs::program("sh").args(["-c", &line]).output_in_time();
    let printed = String::from_utf8(ran.stdout).unwrap();
    let expected = "<-x>\n<two words>\n<$HOME>\nsome\ninput\n15.";
    assert!(printed.starts_with(expected), "{printed} {}", String::from_utf8_lossy(&ran.stderr));
    // What was tried is recorded, with samples that are not compared with those of -O0.
    assert_eq!(rows(&lake, Table::Episodes).len(), 3);
    let asked = |sql: &str| run(&lake, &["sql", "--format", "csv", sql]);
    let counted = "SELECT count(*) > 0, min(starts_with(compilation, 'code generation of clang \
                   -O3; ')), max(space) FROM measurements";
    assert!(asked(counted).ends_with("\ntrue,true,Runtime\n"), "{}", asked(counted));
    assert!(asked("SELECT execution FROM benchmarks").contains("<stdin"));
    run(&lake, &["verify"]);
}

#[test]
fn a_benchmark_becomes_fast() {
    let (folder, lake) = folder();
    let bitcode = folder.path().join("monte_carlo.bc");
    let program = "benchmark://steplake-v0/monte_carlo";
    let arguments = ["optimize", program, "--objective", "runtime", "--budget", "2", "-o"];
    let said = run(&lake, &[&arguments[..], &[bitcode.to_str().unwrap()]].concat());
    assert!(said.contains("2 sequences tried: "), "{said}");
    demand_not_slower(&said);
    let interval = between(&said, " times as fast (", ")");
    let (lower, upper) = interval.split_once(" to ").unwrap();
    assert!(lower.parse::<f64>().unwrap() <= upper.parse::<f64>().unwrap(), "{said}");
    assert!(fs::read(bitcode).unwrap().starts_with(b"BC"), "{said}");
    // The state that was compared was measured in turns with the program untouched.
    let speedups = run(&lake, &["query", "speedups", "--format", "csv"]);
    assert!(speedups.contains(program), "{speedups}");
    // The next call begins with the best of them: its last state was there before.
    run(&lake, &["optimize", program, "--objective", "runtime", "--budget", "1"]);
    let again = "WITH last AS (SELECT episode_id, state_id FROM steps \
                 ORDER BY episode_id DESC, step_index DESC LIMIT 1) \
                 SELECT count(DISTINCT episode_id) > 1 FROM steps \
                 WHERE state_id IN (SELECT state_id FROM last)";
    let found = run(&lake, &["sql", "--format", "csv", again]);
    assert!(found.ends_with("\ntrue\n"), "{found}");
    assert_eq!(rows(&lake, Table::Episodes).len(), 3);
}

#[test]
fn the_output_of_ones_own_program_is_checked_for_any_objective() {
    let (folder, lake) = folder();
    let program = folder.path().join("weigh.c");
    fs::write(&program, SOURCE).unwrap();
    let arguments = ["optimize", program.to_str().unwrap(), "--budget", "5", "--arguments", ""];
    let said = run(&lake, &arguments);
    assert!(said.contains("less than -Oz"), "{said}");
    assert!(said.contains("checked: the program does what it does untouched"), "{said}");
    let execution = run(&lake, &["sql", "--format", "csv", "SELECT execution FROM benchmarks"]);
    assert!(execution.contains(r#""linker"":""c"""#), "it is not linked as C: {execution}");
}

#[test]
fn what_llvm_itself_makes_is_checked_where_it_is_the_result() {
    let (folder, lake) = folder();
    let program = folder.path().join("nothing.c");
    fs::write(&program, "int main(void) { return 0; }\n").unwrap();
    let arguments = ["optimize", program.to_str().unwrap(), "--budget", "1"];
    let said = run(&lake, &arguments);
    assert!(said.contains("the result is what -Oz makes"), "{said}");
    assert!(said.contains("not checked by running: nobody says how"), "{said}");
    let said = run(&lake, &[&arguments[..], &["--arguments", ""]].concat());
    assert!(said.contains("checked: the program does what it does untouched"), "{said}");
}

#[test]
fn how_a_program_is_run_has_to_be_said_and_be_right() {
    let (folder, lake) = folder();
    let [program, library, failing] =
        ["weigh.c", "library.c", "failing.c"].map(|name| folder.path().join(name));
    fs::write(&program, SOURCE).unwrap();
    fs::write(&library, "int f(void) { return 3; }\n").unwrap();
    fs::write(&failing, "int main(void) { __builtin_trap(); }\n").unwrap();
    let [program, library, failing] =
        [&program, &library, &failing].map(|path| path.to_str().unwrap());
    let refused = |program: &str, more: &[&str], wanted: &[&str]| {
        let arguments = ["optimize", program, "--objective", "runtime"];
        let (code, said) = fail(&lake, &[&arguments[..], more].concat());
        let is_said = wanted.iter().all(|&part| said.contains(part));
        assert!(code == 2 && is_said, "{code} {said}");
        assert!(!lake.exists(), "no lake without a program that runs");
    };
    refused(program, &[], &["nobody says how", "weigh.c is run", "--arguments ''", "--stdin"]);
    refused(program, &["--arguments", "'"], &["arguments `'`"]);
    refused(program, &["--stdin", "no-such-file"], &["no-such-file cannot be read"]);
    refused(program, &["--input", "no-such-file"], &["no-such-file cannot be read"]);
    refused(library, &["--arguments", ""], &["cannot be timed", "main"]);
    refused(failing, &["--arguments", ""], &["cannot be timed", "signal"]);
}

/// Says what the compiler knows of an argument, which is more once a function is inlined: passes
/// change what it prints, though each of them is right.
const KNOWS: &str = "\
#include <stdio.h>
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static int twice(int x) { return __builtin_constant_p(x) ? 2 * x : x; }
int main(void) {
    for (int i = 0; i < 20; i++) {
        printf(\"%d\\n\", fib(i));
    }
    printf(\"%d\\n\", twice(21));
    return 0;
}
";

#[test]
fn a_sequence_that_changes_a_program_is_a_row_of_miscompilations() {
    let (folder, lake) = folder();
    let program = folder.path().join("knows.c");
    fs::write(&program, KNOWS).unwrap();
    let name = program.to_str().unwrap();
    let said = run(&lake, &["optimize", name, "--budget", "6", "--arguments", ""]);
    assert!(said.contains("left out, because the compiler got the program wrong: "), "{said}");
    assert!(said.contains("in the table `miscompilations` of the lake"), "{said}");
    let rows = run(
        &lake,
        &[
            "sql",
            "--format",
            "csv",
            "SELECT kind, expected_excerpt, actual_excerpt, \
          cardinality(actions) > 0, benchmark_uri = (SELECT benchmark_uri FROM benchmarks) \
          FROM miscompilations",
        ],
    );
    assert!(rows.contains("21\\n") && rows.contains("42\\n"), "{rows}");
    assert!(rows.lines().skip(1).all(|row| row.starts_with("output,")), "{rows}");
    assert!(rows.lines().skip(1).all(|row| row.ends_with(",true,true")), "{rows}");
    // What is known is not written twice.
    let count = || run(&lake, &["sql", "--format", "csv", "SELECT count(*) FROM miscompilations"]);
    let before = count();
    run(&lake, &["optimize", name, "--budget", "1", "--arguments", ""]);
    assert_eq!(count(), before);
    run(&lake, &["verify"]);
}
