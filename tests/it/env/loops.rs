//! Schedules of loop nests, recorded, counted, asked, replayed and measured.

use std::path::Path;

use steplake::lake::{Lake, Table, to_the_end};

use crate::fixtures::support::{assert_same, fail, rows, run};

const PROGRAMS: [&str; 4] =
    ["-b", "benchmark://loops-v0/softmax-8x64", "-b", "benchmark://loops-v0/matmul-16x16x16"];

fn generate(lake: &Path, more: &[&str]) -> String {
    let begin = ["generate", "--env", "loops-v0", "--seed", "5"];
    run(lake, &[&begin[..], &PROGRAMS, more].concat())
}

fn number(lake: &Path, statement: &str) -> i64 {
    let answer = run(lake, &["sql", statement, "--format", "csv"]);
    answer.lines().nth(1).unwrap().parse().unwrap_or_else(|_| panic!("{statement}: {answer}"))
}

#[test]
fn a_lake_of_schedules_is_recorded_counted_replayed_and_measured() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let played = ["--episodes", "6", "--episode-length", "20", "--policy", "explore"];
    generate(&lake, &played);
    run(&lake, &["seal"]);
    let said = run(&lake, &["dedup"]);
    assert!(said.contains(" 0 conflicts, 0 failures"), "{said}");
    let said = run(&lake, &["verify", "--replay", "20"]);
    assert!(said.contains("transitions agree (100.00%)"), "{said}");
    let wrong = "SELECT count(*) FROM steps AS one \
        JOIN steps AS past ON past.episode_id = one.episode_id \
            AND past.step_index = one.step_index - 1 \
        JOIN observations AS old ON old.state_id = past.state_id \
        JOIN observations AS new ON new.state_id = one.state_id \
        WHERE one.\"reward_MovedBytesL1\" <> old.\"MovedBytesL1\" - new.\"MovedBytesL1\"";
    assert_eq!(number(&lake, wrong), 0);
    let least = "SELECT count(*) FROM observations \
        JOIN steps USING (state_id) JOIN benchmarks USING (benchmark_uri) \
        WHERE \"MovedBytesL3\" < \"CompulsoryBytes\"";
    assert_eq!(number(&lake, least), 0, "every array is moved at least once");
    let said = run(&lake, &["measure", "--cost", "MovedBytesL1", "--samples", "2"]);
    assert!(said.starts_with("Runtime: ") && said.contains("of 2 programs"), "{said}");
    let measured = "SELECT count(*) FROM measurements WHERE space = 'Runtime' \
        AND compilation LIKE 'text of loops-v0 %; clang -O3 %' AND cardinality(samples) = 2";
    assert!(number(&lake, measured) >= 2, "{said}");
    let all = number(&lake, "SELECT count(*) FROM measurements");
    run(&lake, &["measure", "--cost", "Loops", "--states", "best=3", "--samples", "1"]);
    let (before, fewest) = (all, number(&lake, "SELECT count(*) FROM measurements"));
    assert!(fewest - before <= 8, "the first states and three of each program");
    let (code, said) = fail(&lake, &["measure", "--states", "best=0"]);
    assert!(code == 2 && said.contains("write best, best=N, all or initial"), "{code} {said}");
    let speedups = run(&lake, &["query", "speedups", "--format", "csv"]);
    assert!(speedups.lines().count() >= 2, "{speedups}");
    let speeds = run(&lake, &["query", "throughput", "--format", "csv"]);
    let of_matmul = "benchmark://loops-v0/matmul-16x16x16,8192,3072,";
    assert!(speeds.lines().any(|line| line.starts_with(of_matmul)), "{speeds}");
    let report = Lake::open(&lake).unwrap().verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

#[test]
fn a_walk_through_schedules_is_the_same_with_any_number_of_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    let steps = ["--episodes", "6", "--episode-length", "30"];
    generate(&one, &[&steps[..], &["--jobs", "1"]].concat());
    generate(&two, &[&steps[..], &["--jobs", "2"]].concat());
    assert_same(&one, &two);
    assert_eq!(rows(&one, Table::Steps).len(), 6 * 31);
}

#[test]
fn a_search_by_time_measures_each_state_once() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let search = ["--policy", "beam", "--objective", "Runtime", "--episode-length", "3"];
    let begin = ["generate", "--env", "loops-v0", "-b", "benchmark://loops-v0/sums-16x64"];
    let searched = [&begin[..], &search, &["--episodes", "6"]].concat();
    run(&lake, &searched);
    let count = |table| number(&lake, &format!("SELECT count(*) FROM {table}"));
    let reached = "SELECT count(DISTINCT state_id) FROM steps \
        WHERE state_id NOT IN (SELECT initial_state_id FROM benchmarks)";
    let states = number(&lake, reached);
    let (steps, measured) = (count("steps"), count("measurements"));
    assert!(measured >= 3 && measured == states, "{measured} of {states}");
    assert!(!run(&lake, &["sql", "SELECT * FROM observations LIMIT 1"]).contains("Runtime"));
    // The lake knows all times now, so the search goes where it went.
    run(&lake, &searched);
    assert_eq!((count("steps"), count("measurements")), (2 * steps, measured));
    let differ = "SELECT count(*) FROM steps AS one JOIN steps AS other \
        ON one.episode_id % 4294967296 = other.episode_id % 4294967296 \
            AND one.step_index = other.step_index \
        WHERE one.action <> other.action OR one.state_id <> other.state_id";
    assert_eq!(number(&lake, differ), 0);
    let report = Lake::open(&lake).unwrap().verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    let toy = ["generate", "--env", "toy-v0", "-b", "generator://toy-v0/0", "--episodes", "1"];
    let (code, said) = fail(&folder.path().join("toy"), &[&toy[..], &search[..4]].concat());
    assert!(code == 2 && said.contains("`Runtime` is no cost of toy-v0"), "{code} {said}");
}

#[test]
fn actions_are_replayed_and_their_state_is_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let begin = ["replay", "--env", "loops-v0"];
    let actions = ["benchmark://loops-v0/add-1000", "split[0,8]", "vectorize[1]", "stream[0]"];
    let state = run(&lake, &[&begin[..], &["--ir"], &actions].concat());
    assert!(state.ends_with("for n by 8\n  for n by 1 vectorize\n    %2\n"), "{state}");
    let text = run(&lake, &[&begin[..], &actions].concat());
    assert!(text.lines().last().unwrap().ends_with("stream[0]  (no change)"), "{text}");
    let last = text.lines().last().unwrap().split_whitespace().nth(1).unwrap().to_owned();
    let file = folder.path().join("there.loops");
    std::fs::write(&file, state).unwrap();
    let uri = format!("file://{}", file.canonicalize().unwrap().display());
    let there = run(&lake, &[&begin[..], &[&uri]].concat());
    assert!(there.contains(&last), "{there} does not begin in {last}");
    let of_cursor = ["--action-space", "loop_tool-v0", "benchmark://loops-v0/add-1000"];
    let moved = ["toggle_mode", "up", "toggle_mode", "up"];
    let state = run(&lake, &[&begin[..], &["--ir"], &of_cursor, &moved].concat());
    assert!(state.ends_with("cursor 1 resize\n"), "{state}");
}

#[test]
fn names_that_are_no_programs_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    for (name, words) in [
        ("benchmark://loops-v0/matmul-16x16", "with sizes for the letters"),
        ("benchmark://loops-v0/add-0", "a size is from 1"),
        ("benchmark://loops-v0/sine-4", "write OPERATION-N"),
        ("benchmark://steplake-v0/huffman", "known are benchmark://loops-v0"),
    ] {
        let (code, said) = fail(folder.path(), &["replay", "--env", "loops-v0", name]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(words), "{said}");
    }
}
