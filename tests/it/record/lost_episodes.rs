//! Runs that lost episodes, to a retraction or to a repair, and are taken up again.

use std::path::Path;

use serde_json::Value;
use steplake::env::toy::ToyEnvironment;
use steplake::generate::{ResumeState, RunPlan, Stop};
use steplake::lake::{Lake, Table};
use steplake::model::RunId;

use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{
    ToyPrograms, cells, is_measured, perform, run, steplake, toy_identity, toy_plan,
};

const EPISODES: u64 = 24;

/// What the policies differ in that makes a difference here: whether they look back, and at what.
const POLICIES: [&str; 6] = ["random", "explore", "hill-climbing", "greedy", "beam", "frontier"];

/// The plan of the tests, and the command that records it.
fn plan(policy: &'static str) -> (RunPlan, Vec<&'static str>) {
    let plan = toy_plan(policy, Stop::Episodes(EPISODES), 2);
    let command = [
        "generate",
        "--env",
        "toy-v0",
        "--benchmark",
        "generator://toy-v0/0..2",
        "--episodes",
        "24",
        "--episode-length",
        "20",
        "--seed",
        "7",
        "--policy",
        policy,
    ];
    (plan, command.to_vec())
}

/// What a lake says of episodes, steps and states, whichever run has them.
fn content(lake: &Path) -> Vec<Vec<String>> {
    let tables =
        [Table::Episodes, Table::Steps, Table::Observations, Table::Ir, Table::StateTransitions];
    let is_compared = |table: Table, column: &str| {
        // A transition has the rewards of its first step, and a later run has later steps.
        let is_of_first_step = table == Table::StateTransitions
            && ["first_", "reward_"].iter().any(|begin| column.starts_with(begin));
        !["episode_id", "run_id"].iter().any(|id| column.contains(id))
            && !is_measured(column)
            && column != "keyframe"
            && !is_of_first_step
    };
    // Where rows lie depends on when they were sealed.
    let sorted = |mut cells: Vec<String>| {
        cells.sort();
        cells
    };
    let content = |table| sorted(cells(lake, table, |column: &str| is_compared(table, column)));
    tables.into_iter().map(content).collect()
}

fn info(lake: &Path) -> Value {
    serde_json::from_str(&run(lake, &["info", "--format", "json"])).unwrap()
}

/// Resumes, and returns what is printed and what is warned of.
fn resume(lake: &Path, command: &[&str]) -> (String, String) {
    let output = steplake(lake).args(command).arg("--resume").output_in_time();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{command:?}: {err}");
    (out, err)
}

fn retract(lake: &Path, what: &[&str]) {
    run(lake, &[&["retract", "--reason", "a mistake"][..], what].concat());
}

/// Asserts that a lake has what one has in which nothing was lost, and that nothing is left to do.
fn assert_whole(lake: &Path, calm: &Path, command: &[&str]) {
    run(lake, &["seal"]);
    run(lake, &["dedup"]);
    let lost = content(calm).into_iter().zip(content(lake)).find(|(calm, lake)| calm != lake);
    if let Some((calm, lake)) = lost {
        let other = calm.iter().zip(&lake).find(|(calm, lake)| calm != lake);
        panic!("{command:?}: {} and {} cells, first {other:?}", calm.len(), lake.len());
    }
    run(lake, &["verify"]);
    let (said, warned) = resume(lake, command);
    assert!(said.contains("nothing is left to do") && warned.is_empty(), "{said}{warned}");
    let runs = info(lake)["runs"].clone();
    assert!(runs.as_array().unwrap().iter().all(|run| run["finished"] == true), "{runs}");
}

fn calm(folder: &Path, command: &[&str]) -> std::path::PathBuf {
    let path = folder.join("calm");
    run(&path, command);
    run(&path, &["seal"]);
    run(&path, &["dedup"]);
    path
}

#[test]
fn what_was_retracted_is_played_again_whatever_the_policy() {
    for policy in POLICIES {
        let folder = tempfile::tempdir().unwrap();
        let ((_, command), lake) = (plan(policy), folder.path().join("lake"));
        let calm = calm(folder.path(), &command);
        run(&lake, &command);
        retract(&lake, &["--benchmark", "generator://toy-v0/1"]);
        let (said, warned) = resume(&lake, &command);
        assert!(said.contains("; 8 episodes, "), "{policy}: {said}");
        assert!(
            warned.contains("run 1 lacks 8 episodes")
                && warned.contains("benchmark generator://toy-v0/1 was retracted (a mistake)")
                && warned.contains("as run 2"),
            "{warned}"
        );
        assert_whole(&lake, &calm, &command);
    }
}

#[test]
fn what_is_lost_once_more_is_played_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let ((_, command), lake) = (plan("explore"), folder.path().join("lake"));
    let calm = calm(folder.path(), &command);
    run(&lake, &command);
    retract(&lake, &["--benchmark", "generator://toy-v0/1"]);
    resume(&lake, &command);
    // Both runs have episodes of them.
    let two = ["generator://toy-v0/1", "generator://toy-v0/2"];
    retract(&lake, &["--benchmark", two[0], "--benchmark", two[1]]);
    resume(&lake, &command);
    assert_whole(&lake, &calm, &command);
    retract(&lake, &["--run", "3"]);
    retract(&lake, &["--run", "1"]);
    resume(&lake, &command);
    assert_whole(&lake, &calm, &command);
    // A merge leaves out what was retracted, and not what was played again.
    let (merged, older) = (folder.path().join("merged"), calm.to_str().unwrap());
    let into = ["--into", merged.to_str().unwrap()];
    run(&lake, &[&["merge", lake.to_str().unwrap(), older][..], &into].concat());
    let episodes = |lake: &Path| info(lake)["tables"]["episodes"]["rows"].as_u64().unwrap();
    assert_eq!(episodes(&merged), 2 * EPISODES);
}

/// A lake with an unfinished run, whose episodes are sealed after each of these numbers of them.
fn in_parts(path: &Path, plan: &RunPlan, arguments: &str, parts: &[u64]) -> Lake {
    let lake = Lake::create(path, &toy_identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run(arguments, 0).unwrap();
    for &episodes in parts {
        let part = RunPlan { stop: Stop::Episodes(episodes), ..plan.clone() };
        let past = ResumeState::resume(&mut writer, run, &part).unwrap();
        let toy = ToyEnvironment::default();
        let performed = perform(&toy, &ToyPrograms, writer, run, &part, past);
        performed.ending.unwrap();
        writer = performed.writer;
        writer.discard_open(run).unwrap();
        writer.seal().unwrap();
    }
    lake
}

fn arguments(lake: &Path) -> String {
    Lake::open(lake).unwrap().snapshot().unwrap().runs()[0].arguments.clone()
}

#[test]
fn what_a_repair_dropped_is_played_again_whatever_the_policy() {
    // What `frontier` knows when it is taken up again is more than these parts tell.
    for policy in POLICIES.into_iter().filter(|policy| *policy != "frontier") {
        // Of the last ones, nothing tells that the run had them.
        for (parts, lacks) in [
            (&[7, 16, 20][..], "9 episodes"),
            (&[7, 16, EPISODES], "9 episodes"),
            (&[7, 16], "episodes"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (plan, command) = plan(policy);
            let calm = calm(folder.path(), &command);
            let path = folder.path().join("lake");
            let lake = in_parts(&path, &plan, &arguments(&calm), parts);
            if parts.ends_with(&[EPISODES]) {
                lake.writer().unwrap().finish_run(RunId(1)).unwrap();
            }
            let file = lake.snapshot().unwrap().segments(Table::Steps)[1].path.clone();
            std::fs::remove_file(file).unwrap();
            run(&path, &["verify", "--repair"]);
            let (said, warned) = resume(&path, &command);
            let played = 9 + EPISODES - parts.last().unwrap();
            assert!(said.contains(&format!("; {played} episodes, ")), "{policy}: {said}");
            assert!(
                warned.contains(&format!("run 1 lacks {lacks} ")) && warned.contains("as run 2"),
                "{warned}"
            );
            assert_whole(&path, &calm, &command);
        }
    }
}

#[test]
fn an_unfinished_run_that_lost_episodes_goes_on_as_another() {
    for policy in ["random", "genetic"] {
        let folder = tempfile::tempdir().unwrap();
        let (plan, command) = plan(policy);
        let calm = calm(folder.path(), &command);
        let path = folder.path().join("lake");
        in_parts(&path, &plan, &arguments(&calm), &[11]);
        retract(&path, &["--benchmark", "generator://toy-v0/0"]);
        let (said, warned) = resume(&path, &command);
        assert!(said.contains("; 17 episodes, "), "{policy}: {said}");
        assert!(warned.contains("run 1 lacks 4 episodes"), "{warned}");
        assert_whole(&path, &calm, &command);
    }
}
