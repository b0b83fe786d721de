//! Tests of the schedule.

use std::sync::Arc;

use super::*;
use crate::generate::Costed;
use proptest::prelude::*;
use steplake_model::{EpisodeId, EpisodeOutcome, FailureKind, RunId};

fn plan(stop: Stop, policy: &str, jobs: usize) -> RunPlan {
    let benchmarks =
        (0..3).map(|seed| format!("generator://toy-v0/{seed}").parse().unwrap()).collect();
    RunPlan {
        benchmarks,
        action_space: "toy-v0".into(),
        policy: policy.parse().unwrap(),
        objective: String::new(),
        patience: 0,
        coreset: Arc::default(),
        reference: None,
        costed: Costed::EachState,
        stop,
        episode_length: 10,
        seed: 0,
        jobs,
        shard: Shard::WHOLE,
    }
}

/// Returns an episode that ends early for some ordinals, and reaches states that others reach
/// too.
fn play(ordinal: u32, steps_max: u32) -> PlayedEpisode {
    let steps = if ordinal % 4 == 1 { steps_max.min(3) } else { steps_max };
    let state = |step: u32| {
        let mut id = [0; 20];
        id[..4].copy_from_slice(&(ordinal / 2 + step % 5).to_le_bytes());
        StateId(id)
    };
    let row = EpisodeRow {
        policy: "random".into(),
        steps,
        ..EpisodeRow::new(
            EpisodeId::new(RunId(1), ordinal),
            "generator://toy-v0/0".parse().unwrap(),
        )
    };
    PlayedEpisode { row, states: (0..=steps).map(state).collect() }
}

/// Plays a plan, finishing the episodes in an order drawn from `order`. Returns what settled,
/// in order.
fn settled(plan: &RunPlan, order: &[usize]) -> Vec<(u32, u32)> {
    let mut schedule = EpisodeSchedule::new(plan, ResumeState::default());
    let (mut running, mut rows, mut turn) = (Vec::new(), Vec::new(), 0);
    loop {
        while running.len() < plan.jobs
            && let JobStep::Play { ordinal, steps_max } = schedule.next()
        {
            running.push((ordinal, steps_max));
        }
        if schedule.over {
            return rows;
        }
        assert!(!running.is_empty(), "nobody works and nothing is over");
        let (ordinal, steps_max) = running.swap_remove(order[turn % order.len()] % running.len());
        turn += 1;
        let new = schedule.take(play(ordinal, steps_max));
        rows.extend(new.iter().map(|row| (row.id.ordinal(), row.steps)));
    }
}

proptest! {
    #[test]
    fn what_settles_depends_on_the_plan_alone(
        order in prop::collection::vec(0_usize..8, 1..40),
        jobs in 1_usize..6,
        count in 1_u64..200,
        kind in 0_usize..3,
        explore in any::<bool>(),
    ) {
        let stop =
            [Stop::Steps(count), Stop::States(count / 4 + 1), Stop::Episodes(count / 8 + 1)];
        let stop = stop[kind];
        let policy = if explore { "explore" } else { "random" };
        let alone = settled(&plan(stop, policy, 1), &[0]);
        prop_assert_eq!(settled(&plan(stop, policy, jobs), &order), alone.clone());
        let steps: u64 = alone.iter().map(|&(_, steps)| u64::from(steps)).sum();
        match stop {
            Stop::Steps(steps_wanted) => prop_assert_eq!(steps, steps_wanted),
            Stop::Episodes(episodes) => prop_assert_eq!(alone.len() as u64, episodes),
            Stop::States(_) => {}
        }
    }
}

#[test]
fn what_is_missing_is_played_and_what_is_there_is_not() {
    let done = |steps| Done { steps, has_started: true, states: Vec::new() };
    // The episode at place 3 was cut to fit.
    let resumed = |later: &[(u32, u32)]| ResumeState {
        settled: 1,
        steps: 10,
        failed_starts_from: 1,
        later: later.iter().map(|&(place, steps)| (place, done(steps))).collect(),
        ..ResumeState::default()
    };
    let stop = Stop::Steps(34);
    let plan = plan(stop, "random", 2);
    let mut schedule = EpisodeSchedule::new(&plan, resumed(&[(2, 10), (3, 4)]));
    assert_eq!(schedule.settled(), 3);
    assert_eq!(schedule.next(), JobStep::Play { ordinal: 1, steps_max: 10 });
    assert_eq!(schedule.next(), JobStep::Wait);
    let mut played = play(1, 10);
    played.row.steps = 10;
    let settled = schedule.take(played);
    assert_eq!(settled.iter().map(|row| row.id.ordinal()).collect::<Vec<_>>(), [1]);
    assert_eq!((schedule.next(), schedule.settled()), (JobStep::Finished, 4));

    // The last one is missing too: it is cut as it was.
    let mut schedule = EpisodeSchedule::new(&plan, resumed(&[(2, 10)]));
    assert_eq!(schedule.next(), JobStep::Play { ordinal: 1, steps_max: 10 });
    let mut played = play(1, 10);
    played.row.steps = 10;
    assert_eq!(schedule.take(played).len(), 1);
    assert_eq!(schedule.next(), JobStep::Play { ordinal: 3, steps_max: 4 });
    assert!(EpisodeSchedule::new(&plan, resumed(&[(2, 10)])).into_resumed().is_some());
}

#[test]
fn what_is_missing_of_one_benchmark_is_played_one_after_the_other() {
    // Of benchmark 1, place 4 is there; 1 and 7 are missing.
    let there = Done { steps: 10, has_started: true, states: Vec::new() };
    let resumed = ResumeState {
        settled: 1,
        steps: 10,
        failed_starts_from: 1,
        later: [(4, there)].into(),
        ..ResumeState::default()
    };
    let plan = plan(Stop::Episodes(9), "hill-climbing", 8);
    let mut schedule = EpisodeSchedule::new(&plan, resumed);
    for ordinal in [1, 2, 3] {
        assert_eq!(schedule.next(), JobStep::Play { ordinal, steps_max: 10 });
    }
    assert_eq!(schedule.next(), JobStep::Wait);
    assert_eq!(schedule.take(play(1, 10)).len(), 1);
    assert_eq!(schedule.next(), JobStep::Play { ordinal: 7, steps_max: 10 });
    assert_eq!(schedule.next(), JobStep::Wait);
}

#[test]
fn a_run_that_was_over_stays_over() {
    let plan = plan(Stop::Episodes(2), "random", 2);
    let resumed =
        ResumeState { settled: 2, steps: 20, failed_starts_from: 2, ..ResumeState::default() };
    assert_eq!(EpisodeSchedule::new(&plan, resumed).next(), JobStep::Finished);
}

#[test]
fn jobs_play_all_that_is_sure_to_be_needed_while_one_episode_lasts() {
    // An episode reaches at most 11 states.
    for (states, ahead) in [(11 * 100, 100), (11 * 100 + 1, 101), (1, 8), (1 << 40, 512)] {
        let mut schedule =
            EpisodeSchedule::new(&plan(Stop::States(states), "random", 2), ResumeState::default());
        for ordinal in 0..ahead {
            assert_eq!(schedule.next(), JobStep::Play { ordinal, steps_max: 10 });
            if ordinal > 0 {
                assert!(schedule.take(play(ordinal, 10)).is_empty());
            }
        }
        assert_eq!(schedule.next(), JobStep::Wait, "{states} states");
    }
}

#[test]
fn a_run_of_failed_starts_ends_in_the_same_place() {
    let failed_start = |ordinal| {
        let mut played = play(ordinal, 0);
        (played.row.outcome, played.states) =
            (EpisodeOutcome::Failed(FailureKind::Crash), Vec::new());
        played
    };
    for stop in [Stop::Steps(100), Stop::States(50)] {
        let mut schedule = EpisodeSchedule::new(&plan(stop, "random", 2), ResumeState::default());
        assert_eq!(schedule.next(), JobStep::Play { ordinal: 0, steps_max: 10 });
        assert_eq!(schedule.take(play(0, 10)).len(), 1);
        // Failed starts that were played ahead are not settled.
        for ordinal in [4, 3, 5, 2] {
            assert!(schedule.take(failed_start(ordinal)).is_empty() && !schedule.nothing_starts());
        }
        let settled = schedule.take(failed_start(1));
        assert_eq!(settled.iter().map(|row| row.id.ordinal()).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(schedule.nothing_starts());
        assert_eq!(schedule.next(), JobStep::Finished);
    }
    let mut schedule =
        EpisodeSchedule::new(&plan(Stop::Episodes(9), "random", 2), ResumeState::default());
    let settled: usize = (0..9).map(|ordinal| schedule.take(failed_start(ordinal)).len()).sum();
    assert_eq!((settled, schedule.nothing_starts()), (9, false));
    let resumed =
        ResumeState { settled: 5, steps: 20, failed_starts_from: 2, ..ResumeState::default() };
    let plan = plan(Stop::Steps(100), "random", 2);
    assert!(EpisodeSchedule::new(&plan, resumed).nothing_starts());
}

#[test]
fn a_run_of_searches_that_are_over_ends_in_the_same_place() {
    let stepless = |ordinal| PlayedEpisode { states: vec![StateId([0; 20])], ..play(ordinal, 0) };
    let failed_start = |ordinal| PlayedEpisode { states: Vec::new(), ..play(ordinal, 0) };
    let greedy = |stop| plan(stop, "greedy", 2);
    for stop in [Stop::Steps(100), Stop::States(50), Stop::Episodes(9)] {
        let mut schedule = EpisodeSchedule::new(&greedy(stop), ResumeState::default());
        // The search of the third program goes on for one more episode, and the second one
        // does not start. Episodes that were played ahead are not settled.
        assert_eq!(schedule.take(stepless(0)).len(), 1);
        assert!(schedule.take(play(2, 10)).is_empty());
        for ordinal in [5, 3, 4, 6] {
            assert!(schedule.take(stepless(ordinal)).is_empty() && !schedule.is_exhausted());
        }
        let settled = schedule.take(failed_start(1));
        assert_eq!(settled.len(), 5);
        assert!(schedule.is_exhausted() && !schedule.nothing_starts());
        assert_eq!(schedule.next(), JobStep::Finished);
    }
    // A shard, whose programs are not all, goes on.
    let shard = RunPlan { shard: "0/2".parse().unwrap(), ..greedy(Stop::Episodes(9)) };
    let mut schedule = EpisodeSchedule::new(&shard, ResumeState::default());
    while let JobStep::Play { ordinal, .. } = schedule.next() {
        schedule.take(stepless(ordinal));
    }
    assert!(schedule.is_fulfilled() && !schedule.is_exhausted());
    // Other policies have no end, and what never starts is not over.
    let random = plan(Stop::Steps(100), "random", 2);
    let mut schedule = EpisodeSchedule::new(&random, ResumeState::default());
    let settled = (0..6).map(|ordinal| schedule.take(stepless(ordinal)).len()).sum::<usize>();
    assert_eq!(settled, 6);
    assert!(!schedule.is_exhausted() && !schedule.over);
    let mut schedule = EpisodeSchedule::new(&greedy(Stop::Episodes(9)), ResumeState::default());
    let settled = (0..9).map(|ordinal| schedule.take(failed_start(ordinal)).len());
    assert_eq!(settled.sum::<usize>(), 9);
    assert!(!schedule.is_exhausted());
    let resumed =
        ResumeState { settled: 5, failed_starts_from: 5, stepless_from: 2, ..Default::default() };
    assert!(EpisodeSchedule::new(&greedy(Stop::Steps(100)), resumed).is_exhausted());
}

#[test]
fn explore_waits_for_the_earlier_episode_of_the_same_benchmark() {
    let mut schedule =
        EpisodeSchedule::new(&plan(Stop::Episodes(9), "explore", 8), ResumeState::default());
    for ordinal in 0..3 {
        assert_eq!(schedule.next(), JobStep::Play { ordinal, steps_max: 10 });
    }
    assert_eq!(schedule.next(), JobStep::Wait);
    assert!(schedule.take(play(1, 10)).is_empty());
    assert_eq!(schedule.next(), JobStep::Play { ordinal: 4, steps_max: 10 });
    assert_eq!(schedule.next(), JobStep::Wait);
}
