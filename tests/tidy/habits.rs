//! Names and habits of the code.

use crate::tree::{check, is_rust, is_source};

/// Names that say nothing about what a module holds.
const EMPTY_NAMES: &[&str] =
    &["common", "data", "helper", "helpers", "log", "misc", "util", "utils"];

/// The lines of a Rust text that are no comments, with their numbers.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines.filter(|(_, line)| !line.starts_with("//"))
}

/// Files and folders that are named after nothing.
fn module_names(path: &str) -> Vec<String> {
    let names = path.trim_end_matches(".rs").split('/').filter(|name| EMPTY_NAMES.contains(name));
    names.map(|name| format!("{path}: called `{name}`: name it after what it holds")).collect()
}

/// Tests that are skipped, expect any panic, or wait for the clock.
fn test_habits(path: &str, text: &str) -> Vec<String> {
    const HABITS: [(&str, &str); 3] = [
        ("#[ignore", "#[ignore]: run it or delete it"),
        ("#[should_panic", "#[should_panic]: match the error"),
        ("thread::sleep", "thread::sleep: wait for the event itself"),
    ];
    let (code, tests) = text.split_once("#[cfg(test)]").unwrap_or((text, ""));
    let above = if is_source(path) { code.lines().count() } else { 0 };
    let tests = if is_source(path) { tests } else { text };
    problems(path, tests, &HABITS, above)
}

/// The only file of integration tests that starts programs by itself, and waits without a bound.
const STARTS_PROGRAMS: &str = "tests/it/fixtures/programs.rs";

/// Programs of integration tests that inherit ignored signals, and waits that may not end.
fn endless_waits(path: &str, text: &str) -> Vec<String> {
    const WAITS: [(&str, &str); 6] = [
        ("Command::new", "Command::new: `program` gives it its default signals"),
        (".output()", ".output(): `output_in_time` has a bound"),
        (".wait()", ".wait(): `end_of` has a bound"),
        (".wait_with_output(", ".wait_with_output(): `output_of` has a bound"),
        (".recv()", ".recv(): `heard` has a bound"),
        ("yield_now", "yield_now: `until` has a bound"),
    ];
    if is_source(path) || path == STARTS_PROGRAMS || !path.contains("tests/") {
        return Vec::new();
    }
    let found = problems(path, text, &WAITS, 0);
    found.into_iter().map(|problem| format!("{problem}, see {STARTS_PROGRAMS}")).collect()
}

/// A problem for each line of code with one of these texts.
fn problems(path: &str, text: &str, habits: &[(&str, &str)], above: usize) -> Vec<String> {
    let found = |(number, line): (usize, &str)| {
        let habit = habits.iter().find(|(words, _)| line.contains(words))?;
        Some(format!("{path}:{}: {}", above + number, habit.1))
    };
    code_lines(text).filter_map(found).collect()
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
fn modules_are_named_after_what_they_hold() {
    check(|path, _| module_names(path), |path| is_rust(path) && is_source(path));
}

#[test]
fn tests_are_run_and_do_not_wait() {
    check(test_habits, |path| is_rust(path) && !path.starts_with("tests/tidy"));
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
fn module_names_refuses_empty_ones() {
    assert_eq!(module_names("src/utils.rs").len(), 1);
    assert_eq!(module_names("crates/env/src/common/mod.rs").len(), 1);
    assert_eq!(module_names("src/datasets/catalog.rs"), [""; 0]);
}

#[test]
fn test_habits_refuses_each() {
    for bad in ["#[ignore]", "#[should_panic]", "#[ignore = \"slow\"]", "std::thread::sleep(d)"] {
        assert_eq!(test_habits("tests/it/a.rs", &format!("{bad} fn t() {{}}")).len(), 1, "{bad}");
    }
    let good = "#[test]\nfn ignore() { should_panic(sleep) }\n// thread::sleep";
    assert_eq!(test_habits("tests/it/a.rs", good), [""; 0]);
    let watchdog = "fn f() { thread::sleep(d) }\n#[cfg(test)]\nmod tests {";
    assert_eq!(test_habits("src/a.rs", watchdog), [""; 0]);
    assert_eq!(test_habits("src/a.rs", &format!("{watchdog} {watchdog}")).len(), 1);
    assert_eq!(test_habits("crates/flight/src/a.rs", watchdog), [""; 0]);
    assert_eq!(test_habits("crates/flight/tests/a.rs", watchdog).len(), 1);
}

#[test]
fn endless_waits_are_told_from_those_with_a_bound() {
    let places = ["tests/it/a.rs", "crates/flight/tests/it/a.rs"];
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
