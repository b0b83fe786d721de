//! Runs by request.

use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use steplake::environments::Environments;
use steplake::generate::{RunProgress, Shard, Stop};
use steplake::lake::{Lake, RunRow, Table};
use steplake::recording::{Keyframes, RunEnding, RunRequest, RunSummary, record_run};

use crate::fixtures::support::{assert_same, fail, rows, run};

const TOYS: &str = "generator://toy-v0/0..2";

fn request(stop: Stop) -> RunRequest {
    RunRequest { environment: "toy-v0".into(), seed: 3, ..RunRequest::new([TOYS], stop) }
}

fn record(lake: &Path, request: &RunRequest, interrupted: bool) -> RunSummary {
    let interrupt = Arc::new(AtomicBool::new(interrupted));
    record_run(&Environments::default(), lake, request, &RunProgress::default(), &interrupt)
        .unwrap()
}

fn runs(lake: &Path) -> Vec<RunRow> {
    Lake::open(lake).unwrap().snapshot().unwrap().runs().to_vec()
}

#[test]
fn a_request_records_what_the_command_records() {
    let folder = tempfile::tempdir().unwrap();
    let (called, typed) = (folder.path().join("called"), folder.path().join("typed"));
    let done = record(&called, &request(Stop::Episodes(6)), false);
    let toys = ["generate", "--env", "toy-v0", "--benchmark", TOYS, "--seed", "3"];
    let said = run(&typed, &[&toys[..], &["--episodes", "6"]].concat());
    assert_same(&called, &typed);
    assert_eq!((runs(&called).len(), &runs(&called)[0].arguments), (1, &runs(&typed)[0].arguments));
    assert!(runs(&called)[0].finished);
    assert_eq!(
        (done.run, done.ending, done.episodes),
        (runs(&called)[0].id, RunEnding::Complete, 6)
    );
    let steps = rows(&called, Table::Steps).len() - 6;
    assert_eq!(done.steps, steps as u64, "{said}");
    let states = rows(&called, Table::Observations).len();
    assert!(said.starts_with(&format!("recorded {steps} steps and {states} new states in ")));
    assert_eq!(done.states_new, states as u64);
}

#[test]
fn what_was_played_beyond_the_stop_is_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let interrupt = Arc::new(AtomicBool::new(false));
    // On a busy machine the jobs may well take turns, so that none runs ahead.
    let (mut discarded, mut seed) = (0, 0);
    while seed < 6 || discarded == 0 {
        assert!(seed < 1000, "no episode was played beyond the stop");
        let lake = folder.path().join(seed.to_string());
        let asked = RunRequest { seed, jobs: NonZero::new(4), ..request(Stop::States(60)) };
        let progress = RunProgress::default();
        let done =
            record_run(&Environments::default(), &lake, &asked, &progress, &interrupt).unwrap();
        let steps = rows(&lake, Table::Steps).len() as u64 - done.episodes;
        let states = rows(&lake, Table::Observations).len() as u64;
        assert_eq!((done.steps, done.states_new), (steps, states));
        discarded += progress.steps.load(Ordering::Relaxed) - steps;
        seed += 1;
    }
}

#[test]
fn an_interrupted_run_is_resumed_by_the_same_request() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    let asked = RunRequest { resume: true, ..request(Stop::Steps(300)) };
    record(&whole, &asked, false);
    let nothing = record(&parts, &asked, true);
    assert_eq!((nothing.ending, nothing.episodes), (RunEnding::Interrupted, 0));
    assert!(!runs(&parts)[0].finished);
    let done = record(&parts, &asked, false);
    assert_eq!((done.run, done.ending), (nothing.run, RunEnding::Complete));
    assert_same(&whole, &parts);
    let again = record(&parts, &asked, false);
    assert_eq!((again.run, again.ending, again.steps), (done.run, RunEnding::NothingLeft, 0));
    assert_eq!(runs(&parts).len(), 1);
}

/// A resumed run is found by the very bytes that an older steplake has written.
#[test]
fn the_arguments_of_a_run_are_written_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    record(&plain, &request(Stop::States(9)), false);
    assert_eq!(runs(&plain)[0].arguments, PLAIN);
    let full = folder.path().join("full");
    let asked = RunRequest {
        policy: "explore".parse().unwrap(),
        episode_length: 7,
        shard: "1/2".parse::<Shard>().ok(),
        keyframes: Some(Keyframes(NonZero::new(4))),
        observe: Some(vec!["Cost".into()]),
        rewards: Some(vec!["CostOz".into(), "Cost".into()]),
        step_cpu_seconds: 5,
        worker_memory_mib: 512,
        ..request(Stop::Episodes(6))
    };
    record(&full, &asked, false);
    assert_eq!(runs(&full)[0].arguments, FULL);
}

const PLAIN: &str = concat!(
    r#"{"action_space":"toy-v0","benchmark_count":3,"#,
    r#""benchmark_digest":"c8505e9fc01af144126861b9ad77357b8d5c1b1e26b7b58291083a1d0fcea83a","#,
    r#""benchmarks":["generator://toy-v0/0..2"],"episode_length":50,"ir":"all","#,
    r#""policy":"random","seed":3,"step_cpu_seconds":20,"stop":{"states":9},"#,
    r#""worker_memory_mib":4096}"#,
);
const FULL: &str = concat!(
    r#"{"action_space":"toy-v0","benchmark_count":3,"#,
    r#""benchmark_digest":"c8505e9fc01af144126861b9ad77357b8d5c1b1e26b7b58291083a1d0fcea83a","#,
    r#""benchmarks":["generator://toy-v0/0..2"],"episode_length":7,"ir":"keyframes=4","#,
    r#""observe":["Cost"],"policy":"explore","rewards":["CostOz","Cost"],"seed":3,"#,
    r#""shard":"1/2","step_cpu_seconds":5,"stop":{"episodes":6},"worker_memory_mib":512}"#,
);

#[test]
fn a_wrong_request_leaves_no_lake() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let episodes = || request(Stop::Episodes(1));
    for (wrong, word) in [
        (request(Stop::Steps(0)), "the number at which the run stops is 0"),
        (RunRequest { benchmarks: Vec::new(), ..episodes() }, "name one benchmark"),
        (RunRequest { episode_length: 0, ..episodes() }, "the length of an episode is 0"),
        (RunRequest { step_cpu_seconds: 0, ..episodes() }, "from 1 to"),
        (RunRequest { worker_memory_mib: 255, ..episodes() }, "from 256 to"),
        (RunRequest { environment: "tot-v0".into(), ..episodes() }, "`tot-v0`"),
        (RunRequest { observe: Some(vec!["Cots".into()]), ..episodes() }, "`Cots`"),
        (RunRequest { benchmarks: vec!["generator://toy-v0/x".into()], ..episodes() }, "toy-v0/x"),
        (RunRequest { shard: "0/2".parse().ok(), ..request(Stop::Steps(1)) }, "a shard requires"),
    ] {
        let (progress, never) = (RunProgress::default(), Arc::default());
        let error =
            record_run(&Environments::default(), &lake, &wrong, &progress, &never).unwrap_err();
        assert!(error.kind().is_of_caller(), "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert!(!lake.exists(), "{word}");
    }
    let short = ["generate", "--env", "toy-v0", "--benchmark", TOYS, "--episode-length", "0"];
    assert_eq!(fail(&lake, &[&short[..], &["--steps", "1"]].concat()).0, 2);
}
