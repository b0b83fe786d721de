//! GCC's flags, recorded, counted, asked and replayed with the compiler of this machine.

use std::path::Path;

use steplake::lake::Table;

use crate::fixtures::support::{assert_same, fail, rows, run};

const PROGRAMS: [&str; 4] =
    ["--benchmark", "benchmark://steplake-v0/huffman", "--benchmark", "generator://csmith-v0/3"];

fn generate(lake: &Path, more: &[&str]) -> String {
    let begin = ["generate", "--env", "gcc-v0", "--seed", "5"];
    run(lake, &[&begin[..], &PROGRAMS, more].concat())
}

fn number(lake: &Path, statement: &str) -> i64 {
    let answer = run(lake, &["sql", statement, "--format", "csv"]);
    answer.lines().nth(1).unwrap().parse().unwrap_or_else(|_| panic!("{statement}: {answer}"))
}

#[test]
fn a_lake_of_sizes_is_recorded_counted_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let spaces = ["--observe", "obj_size", "--rewards", "obj_size,obj_size_Os"];
    generate(&lake, &[&spaces[..], &["--episodes", "4", "--episode-length", "6"]].concat());
    run(&lake, &["seal"]);
    let said = run(&lake, &["dedup"]);
    assert!(said.contains(" 0 conflicts, 0 failures"), "{said}");
    let said = run(&lake, &["verify", "--replay", "20"]);
    assert!(said.contains("transitions agree (100.00%)"), "{said}");
    assert_eq!(number(&lake, "SELECT count(*) FROM observations WHERE obj_size IS NULL"), 0);
    assert!(number(&lake, "SELECT min(obj_size) FROM observations") > 500);
    let absent = "SELECT count(*) FROM benchmarks WHERE obj_size_O0 IS NULL OR obj_size_Os IS NULL";
    assert_eq!(number(&lake, absent), 0);
    // A reward is what a step saves.
    let wrong = "SELECT count(*) FROM steps AS one \
        JOIN steps AS past ON past.episode_id = one.episode_id \
            AND past.step_index = one.step_index - 1 \
        JOIN observations AS old ON old.state_id = past.state_id \
        JOIN observations AS new ON new.state_id = one.state_id \
        WHERE one.reward_obj_size <> old.obj_size - new.obj_size";
    assert_eq!(number(&lake, wrong), 0);
}

#[test]
fn a_walk_through_choices_is_the_same_with_any_number_of_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    let steps = ["--episodes", "6", "--episode-length", "40"];
    generate(&one, &[&steps[..], &["--jobs", "1"]].concat());
    generate(&two, &[&steps[..], &["--jobs", "2"]].concat());
    assert_same(&one, &two);
    assert_eq!(rows(&one, Table::Steps).len(), 6 * 41);
}

#[test]
fn actions_are_replayed_and_their_state_is_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let begin = ["replay", "--env", "gcc-v0"];
    let actions = ["benchmark://steplake-v0/huffman", "--", "-O2", "-fno-gcse"];
    let state = run(&lake, &[&begin[..], &["--ir"], &actions].concat());
    assert!(state.starts_with("// gcc-v0 state 1: -O2 -fno-gcse\n# 1 \"huffman.c\"\n"), "{state}");
    let text = run(&lake, &[&begin[..], &actions].concat());
    let last = text.lines().last().unwrap().split_whitespace().nth(1).unwrap().to_owned();
    let file = folder.path().join("there.i");
    std::fs::write(&file, state).unwrap();
    let uri = format!("file://{}", file.canonicalize().unwrap().display());
    let there = run(&lake, &[&begin[..], &[&uri]].concat());
    assert!(there.contains(&last), "{there} does not begin in {last}");
}

#[test]
fn a_compiler_that_is_not_here_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = fail(folder.path(), &["env", "describe", "gcc-v0/gcc-99"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("there is no `gcc-99` here: apt-get install gcc-99"), "{said}");
}
