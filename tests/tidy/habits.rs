//! Sizes, names and habits of the code.

use std::fs;

use crate::lexer::tokens;
use crate::tree::{check, is_a, is_rust, is_source, root};

/// The only files that may say `unsafe`: the ring around foreign functions and shared memory.
const UNSAFE_FILES: &[&str] = &[
    "crates/cuda/src/compiler.rs",
    "crates/cuda/src/device.rs",
    "crates/python/src/glibc.rs",
    "src/env/llvm/codegen.rs",
    "src/env/llvm/engine.rs",
    "src/env/llvm/ffi.rs",
    "src/env/llvm/ir2vec.rs",
    "src/env/llvm/math.rs",
    "src/env/llvm/options.rs",
    "src/env/llvm/program.rs",
    "src/env/worker/flight_recorder.rs",
    "src/env/worker/limits.rs",
    "src/load/mapped.rs",
];

/// Names that say nothing about what a module holds.
const EMPTY_NAMES: &[&str] =
    &["common", "data", "helper", "helpers", "log", "misc", "util", "utils"];

const SOURCE_LINES_MAX: usize = 500;

/// Files that are too long to be read in one go.
fn size(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let long = lines > SOURCE_LINES_MAX;
    long.then(|| format!("{path}: {lines} lines, {SOURCE_LINES_MAX} are the most: split it"))
        .into_iter()
        .collect()
}

/// `unsafe` outside the ring.
fn unsafe_code(path: &str, text: &str, ring: &[&str]) -> Vec<String> {
    let found = !ring.contains(&path) && tokens(text).iter().any(|t| t.is("unsafe"));
    found
        .then(|| format!("{path}: `unsafe` outside of the ring that tests/tidy/habits.rs lists"))
        .into_iter()
        .collect()
}

/// Modules, files or inline ones, that are named after nothing.
fn module_names(path: &str, text: &str) -> Vec<String> {
    let files = path.trim_end_matches(".rs").split('/').map(str::to_owned);
    let tokens = tokens(text);
    let inline = tokens.windows(2).filter(|pair| pair[0].is("mod")).map(|pair| pair[1].text());
    files
        .chain(inline)
        .filter(|name| EMPTY_NAMES.contains(&name.as_str()))
        .map(|name| format!("{path}: a module called `{name}`: name it after what it holds"))
        .collect()
}

/// Tests that are skipped, expect any panic, or wait for the clock.
fn test_habits(path: &str, text: &str) -> Vec<String> {
    let (_, tests) = text.split_once("#[cfg(test)]").unwrap_or(("", ""));
    let tokens = tokens(if is_source(path) { tests } else { text });
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is(word));
    let mut problems = Vec::new();
    for at in 0..tokens.len() {
        let attribute = is(at, "#") && is(at + 1, "[");
        let sleep = is(at, "thread") && is(at + 1, ":") && is(at + 2, ":") && is(at + 3, "sleep");
        let habit = match () {
            () if attribute && is(at + 2, "ignore") => "#[ignore]: run it or delete it",
            () if attribute && is(at + 2, "should_panic") => "#[should_panic]: match the error",
            () if sleep => "thread::sleep: wait for the event itself",
            () => continue,
        };
        problems.push(format!("{path}: {habit}"));
    }
    problems
}

/// The only file of integration tests that starts programs by itself, and waits without a bound.
const STARTS_PROGRAMS: &str = "tests/it/fixtures/programs.rs";

/// Programs of integration tests that inherit ignored signals, and waits that may not end.
fn endless_waits(path: &str, text: &str) -> Vec<String> {
    static WAITS: [(&[&str], &str); 6] = [
        (&["Command", ":", ":", "new"], "Command::new: `program` gives it its default signals"),
        (&[".", "output", "(", ")"], ".output(): `output_in_time` has a bound"),
        (&[".", "wait", "(", ")"], ".wait(): `end_of` has a bound"),
        (&[".", "wait_with_output", "("], ".wait_with_output(): `output_of` has a bound"),
        (&[".", "recv", "(", ")"], ".recv(): `heard` has a bound"),
        (&["yield_now"], "yield_now: `until` has a bound"),
    ];
    if is_source(path) || path == STARTS_PROGRAMS || !path.contains("tests/") {
        return Vec::new();
    }
    let tokens = tokens(text);
    let begins = |at: usize, words: &[&str]| {
        words.iter().zip(&tokens[at..]).filter(|(word, token)| token.is(word)).count()
            == words.len()
    };
    let found = |at| WAITS.iter().filter(move |(words, _)| begins(at, words));
    let found = (0..tokens.len()).flat_map(found);
    found.map(|(_, habit)| format!("{path}: {habit}, see {STARTS_PROGRAMS}")).collect()
}

/// Paths that exist on one machine only.
fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let folders = ["work", "root", "home"].map(|name| format!("/{name}/"));
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let is_path = |(at, _): (usize, &str)| {
            !line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.~}*".contains(c))
        };
        if folders.iter().any(|folder| line.match_indices(folder.as_str()).any(is_path)) {
            problems.push(format!("{path}:{}: a path of one machine", number + 1));
        }
    }
    problems
}

#[test]
fn files_can_be_read_in_one_go() {
    check(size, |path| is_a(path, &["rs", "py", "sh", "h", "cpp", "sql"]));
}

#[test]
fn unsafe_code_stays_in_its_ring() {
    check(|path, text| unsafe_code(path, text, UNSAFE_FILES), is_rust);
    for path in UNSAFE_FILES {
        let text = fs::read_to_string(root().join(path)).unwrap_or_default();
        assert_eq!(unsafe_code(path, &text, &[]).len(), 1, "{path} needs no place in the ring");
    }
}

#[test]
fn modules_are_named_after_what_they_hold() {
    check(module_names, |path| is_rust(path) && is_source(path));
}

#[test]
fn tests_are_run_and_do_not_wait() {
    check(test_habits, is_rust);
}

#[test]
fn tests_give_default_signals_and_wait_with_a_bound() {
    check(endless_waits, |path| is_rust(path) && !path.starts_with("tests/tidy"));
}

#[test]
fn no_file_names_a_machine() {
    check(machine_paths, |path| path != "Cargo.lock");
}

#[test]
fn size_refuses_the_line_too_many() {
    assert_eq!(size("a.rs", &"\n".repeat(SOURCE_LINES_MAX)), [""; 0]);
    assert_eq!(size("a.rs", &"\n".repeat(SOURCE_LINES_MAX + 1)).len(), 1);
}

#[test]
fn unsafe_code_is_told_from_talk_of_it() {
    assert_eq!(unsafe_code("src/a.rs", "fn f() { unsafe { g() } }", &[]).len(), 1);
    let talk = "// unsafe
#[expect(unsafe_code)] const A: &str = \"unsafe\";";
    assert_eq!(unsafe_code("src/a.rs", talk, &[]), [""; 0]);
    assert_eq!(unsafe_code("src/a.rs", "unsafe {}", &["src/a.rs"]), [""; 0]);
}

#[test]
fn module_names_refuses_empty_ones() {
    assert_eq!(module_names("src/utils.rs", "").len(), 1);
    assert_eq!(module_names("src/env/common/mod.rs", "").len(), 1);
    assert_eq!(module_names("src/env/mod.rs", "mod helpers;\nmod tests {}").len(), 1);
    assert_eq!(module_names("src/datasets/catalog.rs", "mod logic;"), [""; 0]);
}

#[test]
fn test_habits_refuses_each() {
    for bad in ["#[ignore]", "#[should_panic]", "#[ignore = \"slow\"]", "std::thread::sleep(d)"] {
        assert_eq!(test_habits("tests/it/a.rs", &format!("{bad} fn t() {{}}")).len(), 1, "{bad}");
    }
    let good = "#[test] fn ignore() { should_panic(sleep) } // thread::sleep";
    assert_eq!(test_habits("tests/it/a.rs", good), [""; 0]);
    let watchdog = "fn f() { thread::sleep(d) }\n#[cfg(test)]\nmod tests {";
    assert_eq!(test_habits("src/a.rs", watchdog), [""; 0]);
    assert_eq!(test_habits("src/a.rs", &format!("{watchdog} {watchdog}")).len(), 1);
    assert_eq!(test_habits("crates/serve/src/a.rs", watchdog), [""; 0]);
    assert_eq!(test_habits("crates/serve/tests/a.rs", watchdog).len(), 1);
}

#[test]
fn endless_waits_are_told_from_those_with_a_bound() {
    let places = ["tests/it/a.rs", "crates/serve/tests/it/a.rs"];
    for bad in [
        "std::process::Command::new(a)",
        "child.wait().unwrap()",
        "child.wait_with_output()",
        "command.output()",
        "from.recv()",
        "std::thread::yield_now()",
    ] {
        for path in places {
            assert_eq!(endless_waits(path, bad).len(), 1, "{path}: {bad}");
        }
        assert_eq!(endless_waits("src/a.rs", bad), [""; 0]);
        assert_eq!(endless_waits(STARTS_PROGRAMS, bad), [""; 0]);
    }
    let good = "program(a).output_in_time(); heard(&from); wait(b); fn a() -> Command { }";
    assert_eq!(endless_waits(places[0], good), [""; 0]);
}

#[test]
fn machine_paths_are_told_from_other_slashes() {
    for name in ["work", "root", "home"] {
        assert_eq!(machine_paths("a", &format!("see\n`/{name}/x`")).len(), 1, "{name}");
        assert_eq!(machine_paths("a", &format!("src/{name}/x ~/{name}/x {name}/")), [""; 0]);
    }
}
