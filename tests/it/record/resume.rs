//! Runs that are taken up again: what an interruption left open has no part in what becomes of
//! them.

use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int32Type, Int64Type};
use sha1::{Digest, Sha1};
use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::{Environment, Session, Start, Watch};
use steplake::generate::{Costed, ResumeState, RunPlan, Stop};
use steplake::lake::{
    BenchmarkRow, Lake, ObservationRow, Rows, ScanColumns, StepRow, Table, to_the_end,
};
use steplake::model::{ActionIndex, Baselines, EpisodeId, RunId, StateId, Value};
use steplake::record::{EpisodePlan, Recorder, Recording, RecordingOptions, Settle};

use crate::fixtures::support::{assert_same, play, play_on, rows, toy_lake, toy_plan};
use crate::fixtures::toy_lake::ir_row;

/// The first steps of an open episode that no replay gives: no toy program comes to these states.
fn strange_steps(run: RunId, plan: &RunPlan, ordinal: u32, new_benchmark: bool) -> Rows {
    let benchmark = &plan.benchmarks[ordinal as usize % plan.benchmarks.len()];
    let content = |index: u32| format!("strange {ordinal} {index}").into_bytes();
    let state = |index| StateId(Sha1::digest(format!("{ordinal} {index}")).into());
    let step = |index: u32| StepRow {
        action: (index > 0).then_some(ActionIndex(3)),
        state: Some(state(index)),
        keyframe: true,
        rewards: (index > 0).then(|| [1.0, 2.0, 3.0].into()),
        ..StepRow::new(EpisodeId::new(run, ordinal), index, benchmark.clone())
    };
    let observation = |index| ObservationRow {
        state: state(index),
        values: [Value::Int(77), Value::IntVector([7; 16].into())].map(Some).into(),
    };
    let ir = |index| ir_row(state(index), &content(index));
    let benchmark = new_benchmark.then(|| BenchmarkRow {
        program_digest: "strange".into(),
        baselines: Baselines(vec![("CostO0".into(), 77), ("CostOz".into(), 77)]),
        ..BenchmarkRow::new(benchmark.clone(), state(0))
    });
    Rows {
        benchmarks: benchmark.into_iter().collect(),
        steps: (0..6).map(step).collect(),
        observations: (0..6).map(observation).collect(),
        ir: (0..6).map(ir).collect(),
        ..Rows::default()
    }
}

#[test]
fn no_episode_is_put_together_from_two() {
    for policy in ["random", "explore"] {
        for settled in [0, 10] {
            let plan = toy_plan(policy, Stop::Episodes(37), 3);
            let (calm, lake) = toy_lake();
            drop(play(&lake, &plan));

            let (interrupted, lake) = toy_lake();
            let before = RunPlan { stop: Stop::Episodes(settled), ..plan.clone() };
            let mut writer = play(&lake, &before);
            let run = RunId(1);
            for ordinal in [settled, settled + 1, settled + 5] {
                let ordinal = u32::try_from(ordinal).unwrap();
                writer.append(&strange_steps(run, &plan, ordinal, settled == 0)).unwrap();
            }
            let (calm, interrupted) = (calm.path().join("lake"), interrupted.path().join("lake"));
            let strange =
                |table| rows(&interrupted, table).iter().filter(|row| row.contains("77")).count();
            assert!(strange(Table::Observations) >= 18);

            let resumed = ResumeState::resume(&mut writer, run, &plan).unwrap();
            drop(play_on(writer, run, &plan, resumed));
            assert_same(&calm, &interrupted);
            assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
        }
    }
}

/// The actions of the first episode of run 1, in order.
fn first_actions(lake: &Lake) -> Vec<ActionIndex> {
    let mut actions = Vec::new();
    let columns = ScanColumns::Named(&["episode_id", "step_index", "action"]);
    for batch in lake.snapshot().unwrap().scan(Table::Steps, columns) {
        let batch = batch.unwrap();
        let episodes = batch["episode_id"].as_primitive::<Int64Type>();
        let indices = batch["step_index"].as_primitive::<Int32Type>();
        let chosen = batch["action"].as_primitive::<Int32Type>();
        for row in 0..batch.num_rows() {
            if episodes.value(row) == EpisodeId::new(RunId(1), 0).0 && indices.value(row) > 0 {
                let action = ActionIndex(u32::try_from(chosen.value(row)).unwrap());
                actions.push((indices.value(row), action));
            }
        }
    }
    actions.sort_by_key(|&(index, _)| index);
    actions.into_iter().map(|(_, action)| action).collect()
}

#[test]
fn a_resumed_run_knows_what_was_tried_wherever_the_rows_lie() {
    let plan = toy_plan("explore", Stop::Episodes(37), 1);
    let (_calm, calm) = toy_lake();
    drop(play(&calm, &plan));
    let actions = first_actions(&calm);
    assert_eq!(actions.len(), 20);

    let (_interrupted, interrupted) = toy_lake();
    let mut writer = interrupted.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let environment = ToyEnvironment::default();
    let options =
        RecordingOptions { flush_interval: Duration::from_hours(1), ..RecordingOptions::default() };
    let recording = Recording::begin(writer, environment.spec(), run, &options).unwrap();
    let begin = |ordinal: u32, settle| -> Recorder {
        let mut recorder = recording.recorder(environment.session().unwrap());
        let (seed, policy) = (plan.seed, plan.policy.as_str().to_owned());
        recorder.plan(EpisodePlan { ordinal: Some(ordinal), seed, policy, settle, only: None });
        let (benchmark, watch) = (toy::benchmark(ordinal), Watch::default());
        let (action_space, baselines) = (toy::NAME, None);
        let start = Start { benchmark: &benchmark, action_space, baselines, watch: &watch };
        recorder.start(&start).unwrap();
        recorder
    };
    // The first frame has the beginning of an episode that closes and one that stays open, the
    // second one the rest of the former.
    let (mut closes, open) = (begin(0, Settle::AtItsEnd), begin(1, Settle::ByCaller));
    recording.flush().unwrap();
    for &action in &actions {
        closes.apply(action).unwrap();
    }
    closes.finish().unwrap();
    let mut writer = recording.close().unwrap();
    drop(open);

    let resumed = ResumeState::resume(&mut writer, run, &plan).unwrap();
    drop(play_on(writer, run, &plan, resumed));
    assert_same(calm.path(), interrupted.path());
}

/// How many states have a cost in the lake, and how many have none.
fn costs(lake: &Lake) -> [usize; 2] {
    let mut counts = [0, 0];
    let columns = ScanColumns::Named(&["Cost"]);
    for batch in lake.snapshot().unwrap().scan(Table::Observations, columns) {
        let column = &batch.unwrap()["Cost"];
        counts[0] += column.len() - column.null_count();
        counts[1] += column.null_count();
    }
    counts
}

#[test]
fn a_search_that_costs_one_state_of_a_sequence_observes_no_other_and_can_be_taken_up_again() {
    let last = || Costed::LastState;
    let lowest = || Costed::LowestOf("Cost".into());
    for (policy, costed) in [
        ("hill-climbing", last()),
        ("hill-climbing", lowest()),
        ("genetic", last()),
        ("genetic", lowest()),
        ("lamcts", last()),
    ] {
        let plan = RunPlan { costed, ..toy_plan(policy, Stop::Episodes(37), 1) };
        let (calm, lake) = toy_lake();
        drop(play(&lake, &plan));
        let [known, unknown] = costs(&lake);
        assert!((10..=37).contains(&known) && unknown > 100, "{known} {unknown}");

        let (interrupted, lake) = toy_lake();
        let before = RunPlan { stop: Stop::Episodes(20), ..plan.clone() };
        let mut writer = play(&lake, &before);
        let run = RunId(1);
        let resumed = ResumeState::resume(&mut writer, run, &plan).unwrap();
        drop(play_on(writer, run, &plan, resumed));
        assert_same(&calm.path().join("lake"), &interrupted.path().join("lake"));
    }
}

/// Of a state that another episode looked at, the lake knows a cost that the search did not hear
/// of.
#[test]
fn a_search_that_is_taken_up_again_hears_of_the_costs_that_it_looked_at_alone() {
    for (policy, seed) in [("hill-climbing", 0), ("hill-climbing", 1), ("lamcts", 0), ("lamcts", 1)]
    {
        let costed = Costed::LastState;
        let plan = RunPlan { costed, seed, ..toy_plan(policy, Stop::Episodes(300), 1) };
        let (calm, lake) = toy_lake();
        drop(play(&lake, &plan));
        let (interrupted, lake) = toy_lake();
        let mut writer = play(&lake, &RunPlan { stop: Stop::Episodes(151), ..plan.clone() });
        let run = RunId(1);
        let resumed = ResumeState::resume(&mut writer, run, &plan).unwrap();
        drop(play_on(writer, run, &plan, resumed));
        assert_same(&calm.path().join("lake"), &interrupted.path().join("lake"));
    }
}
