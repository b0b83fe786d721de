//! Runs that are taken up again: what an interruption left open has no part in what becomes of them.

use std::time::Duration;

use sha1::{Digest, Sha1};
use steplake::model::{ActionIndex, Baselines, EpisodeId, Provenance, RunId, StateId, Value};
use steplake::record::generate::{Past, Plan, Policy, Stop};
use steplake::store::{BenchmarkRow, IrRow, ObservationRow, Rows, StepRow, Table};

use crate::support::{assert_same, play, play_on, rows, toy_lake, toy_plan};

/// The first steps of an open episode that no replay gives: no toy program comes to these states.
fn strange_steps(run: RunId, plan: &Plan, ordinal: u32, new_benchmark: bool) -> Rows {
    let benchmark = &plan.benchmarks[ordinal as usize % plan.benchmarks.len()];
    let content = |index: u32| format!("strange {ordinal} {index}").into_bytes();
    let state = |index| StateId(Sha1::digest(content(index)).into());
    let step = |index: u32| StepRow {
        episode: EpisodeId::new(run, ordinal),
        index,
        benchmark: benchmark.clone(),
        action: (index > 0).then_some(ActionIndex(3)),
        state: Some(state(index)),
        end_of_episode: false,
        rewards: (index > 0).then(|| [1.0, 2.0, 3.0].into()),
        wall_time: Duration::ZERO,
    };
    let observation = |index| ObservationRow {
        state: state(index),
        values: vec![Value::Scalar(77), Value::Vector([7; 16].into())],
    };
    let ir = |index| IrRow {
        state: state(index),
        compressed: zstd::bulk::compress(&content(index), 1).unwrap(),
        bytes: u32::try_from(content(index).len()).unwrap(),
    };
    let benchmark = new_benchmark.then(|| BenchmarkRow {
        uri: benchmark.clone(),
        program_digest: "strange".into(),
        provenance: Provenance::default(),
        initial_state: state(0),
        baselines: Baselines(vec![("CostO0".into(), 77), ("CostOz".into(), 77)]),
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
    for policy in [Policy::Random, Policy::Explore] {
        for settled in [0, 10] {
            let plan = toy_plan(policy, Stop::Episodes(37), 3);
            let (calm, lake) = toy_lake();
            drop(play(&lake, &plan));

            let (interrupted, lake) = toy_lake();
            let before = Plan { stop: Stop::Episodes(settled), ..plan.clone() };
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

            let past = Past::take_up(&mut writer, run, &plan).unwrap();
            drop(play_on(writer, run, &plan, past));
            assert_same(&calm, &interrupted);
            assert!(lake.verify(&mut |_, _| ()).unwrap().is_sound());
        }
    }
}
