//! Programs of the user's own that read files: they get copies, and those that lack one say so.

use std::fs;

use super::folder;
use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{fail, run, steplake};

/// Prints the sum of the numbers of two files, after some work. Ends as it is told to where a file
/// is missing.
const READER: &str = "\
#include <stdio.h>
#include <stdlib.h>
static double sum(const char *name) {
    FILE *file = fopen(name, \"r\");
    if (!file) {
        fprintf(stderr, \"I need %s\\n\", name);
        ENDING;
    }
    double all = 0, one;
    while (fscanf(file, \"%lf\", &one) == 1) {
        all += one;
    }
    fclose(file);
    return all;
}
int main(void) {
    double all = 0;
    for (int i = 1; i < 200000; i++) {
        all += 1.0 / i;
    }
    printf(\"%.3f\\n\", all + sum(\"a.txt\") + sum(\"data/b.txt\"));
    return 0;
}
";

const MISSING: &str = "; it could not open `a.txt`; files outside of its own folder are not there, \
                       unless they are inputs";

/// Writes the program and its files into a folder.
fn place(folder: &std::path::Path, ending: &str) {
    fs::create_dir_all(folder.join("data")).unwrap();
    fs::write(folder.join("reader.c"), READER.replace("ENDING", ending)).unwrap();
    fs::write(folder.join("a.txt"), "1 2 3\n").unwrap();
    fs::write(folder.join("data/b.txt"), "4\n5\n").unwrap();
}

#[test]
fn a_program_reads_copies_of_its_files_wherever_it_runs() {
    let (folder, lake) = folder();
    place(folder.path(), "exit(1)");
    let inputs = ["--input", "a.txt", "--input", "data/b.txt"];
    let here = |arguments: &[&str]| {
        let mut command = steplake(&lake);
        let ended = command.args(arguments).current_dir(folder.path()).output_in_time();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
        said
    };
    let said = here(&[&["optimize", "reader.c", "--budget", "2"], &inputs[..]].concat());
    assert!(said.contains("checked: the program does what it does untouched"), "{said}");
    // The name of the program is that of its file, and not that of the cache.
    let uris = run(&lake, &["sql", "--format", "csv", "SELECT benchmark_uri FROM benchmarks"]);
    let file = fs::canonicalize(folder.path().join("reader.c")).unwrap();
    let name = format!("file://{}#for-size-", file.display());
    let uri = uris.lines().nth(1).unwrap().trim_matches('"');
    assert!(uri.starts_with(&name) && said.contains(&format!(" as {uri}\n")), "{uris} {said}");
    // The lake knows its inputs.
    fs::remove_file(folder.path().join("a.txt")).unwrap();
    let said = run(&lake, &["measure", "--samples", "3"]);
    assert!(said.contains("2 measurements of 1 program (6 samples)"), "{said}");
    let said = run(&lake, &["verify", "--semantics", "2"]);
    assert!(said.contains(" of 1 program behave as their first states do, 0 do not"), "{said}");
    let said = run(&lake, &["replay", uri, "mem2reg", "dce"]);
    assert!(said.starts_with(uri), "{said}");
    // Other inputs are other measurements.
    fs::write(folder.path().join("a.txt"), "100\n").unwrap();
    here(&[&["measure", "--samples", "3"], &inputs[..]].concat());
    let ways = "SELECT count(DISTINCT compilation) FROM measurements";
    assert!(run(&lake, &["sql", "--format", "csv", ways]).ends_with("\n2\n"));
    let said = here(&[&["verify", "--semantics", "2"], &inputs[..]].concat());
    assert!(said.contains(" of 1 program behave as their first states do, 0 do not"), "{said}");
}

#[test]
fn a_program_is_validated_with_its_files() {
    let (folder, lake) = folder();
    place(folder.path(), "exit(1)");
    let uri = format!("file://{}/reader.c", folder.path().display());
    let play = ["replay", &uri, "mem2reg", "instcombine", "--validate", "--arguments", ""];
    let said = run(&lake, &play);
    assert!(said.contains(&format!("untouched, it ended with exit code 1{MISSING}")), "{said}");
    let [a, b] = ["a.txt", "data/b.txt"].map(|name| folder.path().join(name));
    let mut command = steplake(&lake);
    let inputs = ["--input", a.to_str().unwrap(), "--input", "data/b.txt"];
    let ended = command.args([&play[..], &inputs].concat()).current_dir(folder.path());
    let ended = ended.output_in_time();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(said.ends_with("semantics: the program does what it does untouched\n"), "{said}");
    assert!(!said.contains("could not open") && b.is_file(), "{said}");
    let (code, said) = fail(&lake, &["replay", &uri, "mem2reg", "--input", a.to_str().unwrap()]);
    assert!(code == 2 && said.contains("give --validate too"), "{code} {said}");
}

#[test]
fn a_program_that_fails_without_its_files_says_which() {
    let (folder, lake) = folder();
    for (ending, end) in [
        ("exit(3)", "untouched, it ended with exit code 3"),
        // A program may not look, and crash.
        ("*(volatile int *)0 = 1", "it was ended by signal 11, and said: I need a.txt"),
    ] {
        place(folder.path(), ending);
        let program = folder.path().join("reader.c");
        let arguments = ["optimize", program.to_str().unwrap(), "--objective", "runtime"];
        let (code, said) = fail(&lake, &[&arguments[..], &["--arguments", ""]].concat());
        assert!(code == 2 && said.contains(&format!("{end}{MISSING}")), "{code} {said}");
        assert!(!said.contains("cache"), "{said}");
    }
}

#[test]
fn a_benchmark_says_itself_how_it_is_run() {
    let (folder, lake) = folder();
    place(folder.path(), "exit(1)");
    let input = folder.path().join("a.txt");
    let space = ["--episodes", "1", "--episode-length", "3"];
    run(&lake, &[&["generate", "-b", "benchmark://steplake-v0/orbits"], &space[..]].concat());
    for command in [&["measure"][..], &["verify", "--semantics", "1"]] {
        let (code, said) = fail(&lake, &[command, &["--input", input.to_str().unwrap()]].concat());
        assert!(code == 2 && said.contains("programs of your own"), "{code} {said}");
    }
    let (code, said) = fail(&lake, &["verify", "--input", input.to_str().unwrap()]);
    assert!(code == 2 && said.contains("give --semantics too"), "{code} {said}");
}
