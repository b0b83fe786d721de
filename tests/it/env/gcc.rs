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
fn a_search_makes_all_choices_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for policy in ["random-choices", "hill-climbing", "genetic"] {
        let search = |lake: &Path, jobs: &str| {
            let what = ["--policy", policy, "--objective", "obj_size", "--episodes", "24"];
            let more = ["--observe", "choices,asm_hash", "--jobs", jobs];
            generate(lake, &[&what[..], &more].concat());
        };
        let [one, two] = ["one", "two"].map(|name| folder.path().join(policy).join(name));
        search(&one, "1");
        search(&two, "2");
        assert_same(&one, &two);
        // Each episode is a state. Its program is of the same family as the program untouched.
        let steps = "SELECT count(*) FROM steps WHERE step_index = 0 AND action IS NULL";
        assert_eq!((number(&one, steps), rows(&one, Table::Steps).len()), (24, 24));
        let programs = "SELECT count(*) FROM (SELECT family FROM benchmarks \
            GROUP BY family HAVING sum(CASE WHEN benchmark_uri LIKE '%#%' THEN 0 ELSE 1 END) = 1)";
        assert_eq!(number(&one, programs), 2);
        assert_eq!(number(&one, "SELECT count(DISTINCT benchmark_uri) FROM episodes"), 24);
        let wrong = "SELECT count(*) FROM steps JOIN benchmarks USING (benchmark_uri) \
            WHERE state_id <> initial_state_id OR (steps.benchmark_uri LIKE '%#%' AND \
            split_part(CAST(steps.benchmark_uri AS VARCHAR), '#', 2) <> encode(state_id, 'hex'))";
        assert_eq!(number(&one, wrong), 0);
        run(&one, &["seal"]);
        run(&one, &["dedup"]);
        let said = run(&one, &["verify"]);
        assert!(said.contains("the IR of 24 states by SHA-1 and id"), "{said}");
        let best = run(&one, &["query", "best_choices", "--format", "csv"]);
        let best: Vec<Vec<&str>> =
            best.lines().skip(1).map(|line| line.split(',').collect()).collect();
        assert_eq!(best.len(), 2);
        // A program is found by its own name, with all of its states.
        let name = format!("benchmark={}", best[0][0]);
        let alone = run(&one, &["query", "best_choices", "--param", &name, "--format", "csv"]);
        assert_eq!(alone.lines().skip(1).collect::<Vec<_>>(), [best[0].join(",")]);
        // Where the compiler fails, there is no cost.
        let costs: i64 = best.iter().map(|row| row[3].parse::<i64>().unwrap()).sum();
        assert_eq!(costs, number(&one, "SELECT count(obj_size) FROM observations"));
        for row in best {
            let [first, lowest] = [1, 2].map(|at: usize| row[at].parse::<i64>().unwrap());
            assert!(lowest <= first, "{row:?}");
            assert_eq!(row[4].contains('-'), lowest < first, "{row:?}");
        }
        let outputs = run(&one, &["query", "shared_outputs", "--format", "csv"]);
        assert_eq!(outputs.lines().count(), 3, "{outputs}");
        assert!(outputs.starts_with("program,states,without_output,outputs,"), "{outputs}");
        let alone = run(&one, &["query", "shared_outputs", "--param", &name, "--format", "csv"]);
        assert_eq!(alone.lines().nth(1), outputs.lines().nth(1));
        let effects = ["query", "option_effects", "--param", "tries=1", "--format", "csv"];
        assert!(run(&one, &effects).contains("\n-O,"), "the level is among the options");
        let alone = run(&one, &[&effects[..], &["--param", &name]].concat());
        assert!(alone.contains("\n-O,"), "{alone}");
    }
}

#[test]
fn a_search_among_choices_has_no_steps_to_count_and_keeps_what_it_chose() {
    let folder = tempfile::tempdir().unwrap();
    let search = ["generate", "--env", "gcc-v0", "--policy", "genetic", "--steps", "9"];
    let (code, said) = fail(folder.path(), &[&search[..], &PROGRAMS].concat());
    assert!(code == 2 && said.contains("the option is --episodes"), "{code} {said}");
    let search = ["generate", "--env", "gcc-v0", "--policy", "random-choices", "--episodes", "2"];
    let (code, said) = fail(folder.path(), &[&search[..], &["--ir", "none"], &PROGRAMS].concat());
    assert!(code == 2 && said.contains("`--ir none`"), "{code} {said}");
}

#[test]
fn a_state_of_a_program_is_no_program_of_a_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("benchmark://steplake-v0/huffman#{}", "0".repeat(40));
    let (code, said) = fail(folder.path(), &["replay", "--env", "gcc-v0", &uri]);
    assert!(code == 2 && said.contains("of a lake"), "{code} {said}");
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
