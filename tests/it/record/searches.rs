//! Searches: what they leave does not depend on the number of jobs, nor on interruptions.

use std::collections::BTreeSet;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use steplake::env::Environment;
use steplake::env::gcc::GccEnvironment;
use steplake::env::toy::{self, ToyEnvironment};
use steplake::generate::{ProgramProvider, ResumeState, RunPlan, RunProgress, Stop, generate};
use steplake::lake::{Lake, ScanColumns, Table, to_the_end};
use steplake::model::{Benchmark, BenchmarkUri, Provenance, RunId, StateId};
use steplake::record::{Recording, RecordingOptions, SpaceChoice, identity};

use crate::fixtures::support::{
    ToyPrograms, assert_same, fail, play, play_on, rows, run, toy_lake, toy_plan,
};

/// Policies that look for something.
const SEARCHES: [&str; 7] =
    ["hill-climbing", "genetic", "lamcts", "beam", "greedy", "random-patience", "frontier"];

#[test]
fn a_search_leaves_the_same_with_any_number_of_jobs() {
    for policy in SEARCHES {
        let (_one, one) = toy_lake();
        drop(play(&one, &toy_plan(policy, Stop::Episodes(320), 1)));
        let (_many, many) = toy_lake();
        drop(play(&many, &toy_plan(policy, Stop::Episodes(320), 3)));
        assert_same(one.path(), many.path());
        assert!(one.verify(&mut to_the_end).unwrap().is_sound());
    }
}

#[test]
fn a_search_goes_on_as_if_it_had_not_been_interrupted() {
    for policy in SEARCHES {
        for stop in [Stop::Episodes(330), Stop::Steps(4000)] {
            let plan = toy_plan(policy, stop, 2);
            let (_calm, calm) = toy_lake();
            drop(play(&calm, &plan));
            let (_stopped, stopped) = toy_lake();
            let before = RunPlan { stop: Stop::Episodes(151), ..plan.clone() };
            let mut writer = play(&stopped, &before);
            let mut resumed = ResumeState::resume(&mut writer, RunId(1), &plan).unwrap();
            resumed.know(&writer, &plan, &BTreeSet::new()).unwrap();
            assert_eq!(resumed.episodes(), 151);
            drop(play_on(writer, RunId(1), &plan, resumed));
            assert_same(calm.path(), stopped.path());
        }
    }
}

#[test]
fn a_frontier_run_goes_on_with_what_it_knew_of_earlier_runs() {
    let earlier = BTreeSet::from([RunId(1)]);
    let plan = toy_plan("frontier", Stop::Episodes(60), 2);
    // Two of the run's programs are known, and one that it does not have.
    let mut known = toy_plan("random", Stop::Episodes(30), 1);
    known.benchmarks.rotate_left(1);
    known.benchmarks.push(toy::benchmark(9).uri);
    let begin = |lake: &Lake, knows: bool| {
        let mut writer = play(lake, &known);
        let run = writer.begin_run("{}", 0).unwrap();
        let mut begun = ResumeState::default();
        if knows {
            begun.know(&writer, &plan, &earlier).unwrap();
        }
        (writer, run, begun)
    };
    let (_calm, calm) = toy_lake();
    let (writer, run, begun) = begin(&calm, true);
    drop(play_on(writer, run, &plan, begun));
    let (_stopped, stopped) = toy_lake();
    let (writer, run, begun) = begin(&stopped, true);
    let before = RunPlan { stop: Stop::Episodes(31), ..plan.clone() };
    let mut writer = play_on(writer, run, &before, begun);
    let mut resumed = ResumeState::resume(&mut writer, run, &plan).unwrap();
    resumed.know(&writer, &plan, &earlier).unwrap();
    drop(play_on(writer, run, &plan, resumed));
    assert_same(calm.path(), stopped.path());
    let (_ignorant, ignorant) = toy_lake();
    let (writer, run, begun) = begin(&ignorant, false);
    drop(play_on(writer, run, &plan, begun));
    assert_ne!(rows(calm.path(), Table::Steps), rows(ignorant.path(), Table::Steps));
}

/// Records a run that observes nothing.
fn walk_blindly(lake: &Lake) {
    let environment = ToyEnvironment::default();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let options =
        RecordingOptions { observations: Some(Vec::new()), ..RecordingOptions::default() };
    let recording = Recording::begin(writer, environment.spec(), run, &options).unwrap();
    let plan = toy_plan("random", Stop::Episodes(60), 1);
    let (progress, never) = (RunProgress::default(), false.into());
    let resumed = ResumeState::default();
    generate(&environment, &recording, &plan, &ToyPrograms, resumed, &progress, &never).unwrap();
    let mut writer = recording.close().unwrap();
    writer.finish_run(run).unwrap();
}

#[test]
fn costs_that_the_lake_does_not_have_are_computed_again() {
    for policy in ["hill-climbing", "beam", "frontier"] {
        go_on_without_costs(&toy_plan(policy, Stop::Episodes(60), 2));
    }
}

fn go_on_without_costs(plan: &RunPlan) {
    let (_calm, calm) = toy_lake();
    walk_blindly(&calm);
    drop(play(&calm, plan));
    let absent = |row: &String| row.contains("null");
    assert!(rows(calm.path(), Table::Observations).iter().any(absent));
    let (_stopped, stopped) = toy_lake();
    walk_blindly(&stopped);
    let mut writer = play(&stopped, &RunPlan { stop: Stop::Episodes(31), ..plan.clone() });
    let mut resumed = ResumeState::resume(&mut writer, RunId(2), plan).unwrap();
    resumed.know(&writer, plan, &BTreeSet::new()).unwrap();
    drop(play_on(writer, RunId(2), plan, resumed));
    assert_same(calm.path(), stopped.path());
}

/// A program for GCC.
struct Sum;

impl ProgramProvider for Sum {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, steplake::Error> {
        let source = "int sum(const int *a, int n) { int s = 0; while (n--) s += a[n]; return s; }";
        Ok(Benchmark {
            uri: uri.clone(),
            program: source.as_bytes().into(),
            provenance: Provenance { family: "sum".into(), ..Provenance::default() },
            execution: None,
        })
    }
}

#[test]
fn a_search_among_choices_goes_on_as_well() {
    let environment = GccEnvironment::open("").unwrap();
    let spec = environment.spec();
    let observations = Some(vec!["asm_size".to_owned()]);
    let choice = SpaceChoice { observations: observations.as_deref(), rewards: Some(&[]) };
    let identity = identity(spec, &spec.action_spaces[0], &choice).unwrap();
    for policy in ["random-choices", "hill-climbing", "genetic"] {
        let plan = |episodes| RunPlan {
            benchmarks: vec!["benchmark://sum-v0/sum".parse().unwrap()],
            action_space: spec.action_spaces[0].name.clone(),
            objective: "asm_size".into(),
            ..toy_plan(policy, Stop::Episodes(episodes), 2)
        };
        let play = |writer, run, plan: &RunPlan, resumed| {
            let options =
                RecordingOptions { observations: observations.clone(), ..Default::default() };
            let recording = Recording::begin(writer, spec, run, &options).unwrap();
            let (progress, never) = (RunProgress::default(), false.into());
            generate(&environment, &recording, plan, &Sum, resumed, &progress, &never).unwrap();
            recording.close().unwrap()
        };
        let [(_calm, calm), (_stopped, stopped)] = [(); 2].map(|()| {
            let folder = tempfile::tempdir().unwrap();
            let lake = Lake::create(folder.path().join("lake"), &identity).unwrap();
            (folder, lake)
        });
        let begun = || ResumeState::default();
        let mut writer = calm.writer().unwrap();
        let run = writer.begin_run("{}", 0).unwrap();
        drop(play(writer, run, &plan(26), begun()));
        let mut writer = stopped.writer().unwrap();
        writer.begin_run("{}", 0).unwrap();
        let mut writer = play(writer, run, &plan(15), begun());
        let resumed = ResumeState::resume(&mut writer, run, &plan(26)).unwrap();
        drop(play(writer, run, &plan(26), resumed));
        assert_same(calm.path(), stopped.path());
    }
}

/// The lowest costs of the episodes of a lake, in their order.
fn lowest_costs(lake: &Lake) -> Vec<i64> {
    let snapshot = lake.snapshot().unwrap();
    let mut costs = std::collections::HashMap::new();
    for batch in snapshot.scan(Table::Observations, ScanColumns::Named(&["state_id", "Cost"])) {
        let batch = batch.unwrap();
        let states = batch["state_id"].as_fixed_size_binary();
        let values = batch["Cost"].as_primitive::<Int64Type>();
        let states = states.iter().map(|state| StateId::from_slice(state.unwrap()));
        costs.extend(states.zip(values.values().iter().copied()));
    }
    let mut lowest = std::collections::BTreeMap::new();
    for batch in snapshot.scan(Table::Steps, ScanColumns::Named(&["episode_id", "state_id"])) {
        let batch = batch.unwrap();
        let episodes = batch["episode_id"].as_primitive::<Int64Type>();
        let states = batch["state_id"].as_fixed_size_binary();
        for (episode, state) in episodes.values().iter().zip(states.iter()) {
            // The compiler fails on some actions.
            let Some(state) = state else { continue };
            let cost = costs[&StateId::from_slice(state)];
            let known = lowest.entry(*episode).or_insert(cost);
            *known = cost.min(*known);
        }
    }
    lowest.into_values().collect()
}

#[test]
fn a_search_learns_from_what_it_recorded() {
    for policy in ["hill-climbing", "genetic", "lamcts", "beam"] {
        let (_folder, lake) = toy_lake();
        // Short episodes, so that a program is not optimised by chance.
        let plan = RunPlan { episode_length: 4, ..toy_plan(policy, Stop::Episodes(900), 2) };
        drop(play(&lake, &plan));
        let (_other, chance) = toy_lake();
        drop(play(&chance, &RunPlan { policy: "random".parse().unwrap(), ..plan }));
        let sum = |lake: &Lake| lowest_costs(lake)[500..].iter().sum::<i64>();
        let (found, drawn) = (sum(&lake), sum(&chance));
        assert!(found < drawn, "{policy}: {found} {drawn}");
    }
}

#[test]
fn a_run_ends_once_every_search_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let begin = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..2"];
    let stops = [
        ("beam", "--steps"),
        ("beam", "--states"),
        ("beam", "--episodes"),
        ("greedy", "--steps"),
        ("greedy", "--episodes"),
    ];
    for (policy, stop) in stops {
        let lake = folder.path().join(format!("{policy}{stop}"));
        let search = ["--policy", policy, "--objective", "Cost", "--episode-length", "2"];
        let ended = run(&lake, &[&begin[..], &search, &[stop, "1000000"]].concat());
        assert!(ended.contains("the run ended before its stop"), "{ended}");
        // The last round of the three programs has no steps, and none before it was so.
        let last = "SELECT steps > 0 AS goes_on FROM episodes ORDER BY episode_id DESC LIMIT 4";
        let last = run(&lake, &["sql", last, "--format", "csv"]);
        assert_eq!(last.lines().skip(1).collect::<Vec<_>>(), ["false", "false", "false", "true"]);
        let again = run(&lake, &[&begin[..], &search, &[stop, "1000000", "--resume"]].concat());
        assert!(again.contains("nothing is left to do"), "{again}");
    }
}

#[test]
fn a_search_records_what_it_looks_for() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let begin = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..1"];
    let search = ["--policy", "hill-climbing", "--episodes", "6", "--episode-length", "5"];
    let named = ["--observe", "Bits", "--objective", "Cost"];
    run(&lake, &[&begin[..], &search, &named].concat());
    let statement = "SELECT count(*) FROM observations WHERE \"Cost\" IS NULL OR \"Bits\" IS NULL";
    assert_eq!(run(&lake, &["sql", statement, "--format", "csv"]).lines().nth(1), Some("0"));
    let again = run(&lake, &[&begin[..], &search, &named, &["--resume"]].concat());
    assert!(again.contains("nothing is left to do"), "{again}");
    for (more, word) in [
        (["--policy", "random-choices", "--episodes", "1"], "are not given by choices"),
        (["--objective", "Cost", "--episodes", "1"], "`random` does not search"),
        (["--policy", "genetic", "--objective", "Cots"], "did you mean `Cost`"),
    ] {
        let episodes = if more.contains(&"Cots") { &["--episodes", "1"][..] } else { &[] };
        let (code, said) = fail(&lake, &[&begin[..], &more, episodes].concat());
        assert!(code == 2 && said.contains(word), "{code} {said}");
    }
}
