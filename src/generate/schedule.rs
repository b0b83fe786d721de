//! Decides which episode is played next, and when a run is over. Pure: no sessions, no clock, no
//! threads.
//!
//! Episodes are numbered; episode `e` uses benchmark `e mod B`. They are played in any order, but
//! *settled* in the order of their numbers, and the run stops at the first settled episode that
//! fulfils its [`Stop`]. So what a run leaves depends on its plan alone.
//!
//! In a run with several shards, only the episodes of this shard count: each has a *place* among
//! them.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Plan, Shard, Stop};
use super::resume::{Done, ResumeState};
use super::shard::Places;
use crate::lake::EpisodeRow;
use crate::model::{EpisodeOutcome, StateId};

/// How many episodes per job may be played ahead of the oldest unsettled one. Episodes beyond the
/// stop of a run are discarded, so few are played ahead if the stop may come before them. Of those
/// that the run is sure to need, there are enough to keep the other jobs busy for the minute that
/// it may take to find the cause of a failure; but not more, since a resumed run plays unsettled
/// episodes again.
const AHEAD_PER_JOB: u32 = 4;
const AHEAD_PER_JOB_SURE: u32 = 256;

/// An episode that was played.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) row: EpisodeRow,
    /// The states that it reached, in order, including the initial one; none if the start failed
    /// before there was a state.
    pub(super) states: Vec<StateId>,
}

/// What a job has to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Play this episode, with at most `steps_max` steps.
    Play { ordinal: u32, steps_max: u32 },
    /// Ask again when something has settled.
    Wait,
    /// Nothing is left to do.
    Finished,
}

#[derive(Debug)]
pub(super) struct Schedule {
    places: Places,
    /// The stop, in episodes of the shard.
    stop: Stop,
    episode_length: u32,
    /// Number of places after which each benchmark has come.
    round: u32,
    /// Whether episodes of one benchmark wait for each other.
    serial: bool,
    /// Whether the run ends once the search of every program is over: its episodes have no steps
    /// then. A shard does not know of the other programs, and plays all of its episodes.
    exhausts: bool,
    jobs: u32,
    /// What is settled: all places below `done.settled`.
    done: ResumeState,
    /// What is settled behind those, by places: a run plays again what it lost.
    later: BTreeMap<u32, Done>,
    /// The places that are being played or wait to be settled.
    given: BTreeSet<u32>,
    played: BTreeMap<u32, Played>,
    over: bool,
}

impl ResumeState {
    /// Returns what is settled, unless the run is over: then nothing is left to play.
    pub fn unless_over(self, plan: &Plan) -> Option<Self> {
        Schedule::new(plan, self).into_resumed()
    }
}

impl Schedule {
    /// Returns the schedule of what `resumed` leaves of `plan`.
    pub(super) fn new(plan: &Plan, mut resumed: ResumeState) -> Self {
        let places = Places::new(plan);
        let later = std::mem::take(&mut resumed.later);
        let mut schedule = Self {
            places,
            stop: match plan.stop {
                Stop::Episodes(episodes) => Stop::Episodes(places.below(episodes)),
                other => other,
            },
            episode_length: plan.episode_length,
            round: places.round(),
            serial: plan.policy.looks_back(),
            exhausts: plan.policy.expands() && plan.shard == Shard::WHOLE,
            jobs: u32::try_from(plan.jobs).unwrap_or(u32::MAX),
            done: resumed,
            later,
            given: BTreeSet::new(),
            played: BTreeMap::new(),
            over: false,
        };
        schedule.over = schedule.ends_here();
        schedule
    }

    /// Returns how many episodes are settled.
    pub(super) fn settled(&self) -> u32 {
        self.done.settled + u32::try_from(self.later.len()).unwrap_or(u32::MAX)
    }

    /// Returns what it was made of, unless the run is over.
    fn into_resumed(mut self) -> Option<ResumeState> {
        self.done.later = self.later;
        (!self.over).then_some(self.done)
    }

    fn is_fulfilled(&self) -> bool {
        let (Stop::Steps(bound) | Stop::States(bound) | Stop::Episodes(bound)) = self.stop;
        self.done.towards(self.stop) >= bound
    }

    fn ends_here(&self) -> bool {
        self.is_fulfilled() || self.nothing_starts() || self.is_exhausted()
    }

    /// Returns whether no program of the run starts, so that its stop cannot be reached.
    pub(super) fn nothing_starts(&self) -> bool {
        !matches!(self.stop, Stop::Episodes(_)) && self.lasts_a_round(self.done.failed_starts_from)
    }

    /// Returns whether the search of every program that starts is over before the run's stop.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausts
            && self.lasts_a_round(self.done.stepless_from)
            && !self.lasts_a_round(self.done.failed_starts_from)
    }

    /// Returns whether the run goes on, and all settled episodes from a place on are a round or
    /// more: one of each program at least.
    fn lasts_a_round(&self, from: u32) -> bool {
        !self.is_fulfilled() && self.done.settled - from >= self.round
    }

    pub(super) fn next(&mut self) -> Next {
        if self.over {
            return Next::Finished;
        }
        for place in self.done.settled..self.done.settled.saturating_add(self.ahead()) {
            if matches!(self.stop, Stop::Episodes(episodes) if u64::from(place) >= episodes) {
                break;
            }
            let is_taken = self.given.contains(&place) || self.later.contains_key(&place);
            if is_taken || self.waits_for_its_benchmark(place) {
                continue;
            }
            let Some(steps_max) = self.steps_max(place) else { break };
            self.given.insert(place);
            return Next::Play { ordinal: self.places.ordinal(place), steps_max };
        }
        Next::Wait
    }

    /// Returns how many places from the oldest unsettled one on may be played.
    fn ahead(&self) -> u32 {
        let most = self.jobs.saturating_mul(AHEAD_PER_JOB_SURE);
        let Stop::States(states) = self.stop else { return most };
        let missing = states.saturating_sub(self.done.states.len() as u64);
        // An episode reaches at most one state more than it has steps.
        let sure = missing.div_ceil(u64::from(self.episode_length) + 1);
        let least = self.jobs.saturating_mul(AHEAD_PER_JOB);
        u32::try_from(sure).unwrap_or(u32::MAX).clamp(least, most)
    }

    fn waits_for_its_benchmark(&self, place: u32) -> bool {
        self.serial
            && place.checked_sub(self.round).is_some_and(|earlier| {
                earlier >= self.done.settled && self.steps_of(earlier).is_none()
            })
    }

    /// Returns how long the episode may be, or `None` while that depends on episodes being played.
    /// A run with a number of steps ends with an episode that is cut to fit.
    fn steps_max(&self, place: u32) -> Option<u32> {
        let Stop::Steps(steps) = self.stop else { return Some(self.episode_length) };
        let full = u64::from(self.episode_length);
        let length = |earlier: u32| self.steps_of(earlier).map_or(full, u64::from);
        let planned: u64 = (self.done.settled..place).map(length).sum();
        let left = steps.saturating_sub(self.done.steps + planned);
        let sure = (self.done.settled..place).all(|earlier| self.steps_of(earlier).is_some());
        match u32::try_from(left.min(full)) {
            Ok(length) if u64::from(length) == full || (sure && length > 0) => Some(length),
            _ => None,
        }
    }

    /// The steps of an episode behind the first unsettled one, if it has been played.
    fn steps_of(&self, place: u32) -> Option<u32> {
        let played = self.played.get(&place).map(|played| played.row.steps);
        played.or_else(|| self.later.get(&place).map(|done| done.steps))
    }

    /// Takes a played episode, and returns the rows that are now settled, in order.
    pub(super) fn take(&mut self, played: Played) -> Vec<EpisodeRow> {
        self.played.insert(self.places.place(played.row.id.ordinal()), played);
        let mut rows = Vec::new();
        while !self.over {
            let place = self.done.settled;
            let done = if let Some(Played { row, states }) = self.played.remove(&place) {
                let has_started = !states.is_empty() && !is_failed_start(&row);
                let done = Done { steps: row.steps, has_started, states };
                rows.push(row);
                done
            } else if let Some(done) = self.later.remove(&place) {
                done
            } else {
                break;
            };
            self.given.remove(&place);
            self.settle(done);
        }
        rows
    }

    /// Settles the first unsettled episode.
    fn settle(&mut self, Done { steps, has_started, states }: Done) {
        self.done.settled += 1;
        self.done.steps += u64::from(steps);
        if has_started {
            self.done.failed_starts_from = self.done.settled;
        }
        if steps > 0 {
            self.done.stepless_from = self.done.settled;
        }
        if matches!(self.stop, Stop::States(_)) {
            self.done.states.extend(states);
        }
        self.over = self.ends_here();
    }

    /// Keeps further episodes from starting.
    pub(super) fn abandon(&mut self) {
        self.over = true;
    }
}

/// Whether a program does not start. What choices make of one is a program of its own.
fn is_failed_start(row: &EpisodeRow) -> bool {
    let is_itself = row.benchmark.base() == row.benchmark.as_str();
    row.steps == 0 && is_itself && matches!(row.outcome, EpisodeOutcome::Failed(_))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::generate::{Costed, Policy};
    use crate::model::{EpisodeId, EpisodeOutcome, FailureKind, RunId};
    use proptest::prelude::*;

    fn plan(stop: Stop, policy: Policy, jobs: usize) -> Plan {
        let benchmarks =
            (0..3).map(|seed| format!("generator://toy-v0/{seed}").parse().unwrap()).collect();
        Plan {
            benchmarks,
            action_space: "toy-v0".into(),
            policy,
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
    fn play(ordinal: u32, steps_max: u32) -> Played {
        let steps = if ordinal % 4 == 1 { steps_max.min(3) } else { steps_max };
        let state = |step: u32| {
            let mut id = [0; 20];
            id[..4].copy_from_slice(&(ordinal / 2 + step % 5).to_le_bytes());
            StateId(id)
        };
        let row = EpisodeRow {
            id: EpisodeId::new(RunId(1), ordinal),
            seed: 0,
            benchmark: "generator://toy-v0/0".parse().unwrap(),
            policy: "random".into(),
            parent: None,
            steps,
            outcome: EpisodeOutcome::Complete,
            detail: None,
        };
        Played { row, states: (0..=steps).map(state).collect() }
    }

    /// Plays a plan, finishing the episodes in an order drawn from `order`. Returns what settled,
    /// in order.
    fn settled(plan: &Plan, order: &[usize]) -> Vec<(u32, u32)> {
        let mut schedule = Schedule::new(plan, ResumeState::default());
        let (mut running, mut rows, mut turn) = (Vec::new(), Vec::new(), 0);
        loop {
            while running.len() < plan.jobs
                && let Next::Play { ordinal, steps_max } = schedule.next()
            {
                running.push((ordinal, steps_max));
            }
            if schedule.over {
                return rows;
            }
            assert!(!running.is_empty(), "nobody works and nothing is over");
            let (ordinal, steps_max) =
                running.swap_remove(order[turn % order.len()] % running.len());
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
            let policy = if explore { Policy::Explore } else { Policy::Random };
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
        let plan = plan(stop, Policy::Random, 2);
        let mut schedule = Schedule::new(&plan, resumed(&[(2, 10), (3, 4)]));
        assert_eq!(schedule.settled(), 3);
        assert_eq!(schedule.next(), Next::Play { ordinal: 1, steps_max: 10 });
        assert_eq!(schedule.next(), Next::Wait);
        let mut played = play(1, 10);
        played.row.steps = 10;
        let settled = schedule.take(played);
        assert_eq!(settled.iter().map(|row| row.id.ordinal()).collect::<Vec<_>>(), [1]);
        assert_eq!((schedule.next(), schedule.settled()), (Next::Finished, 4));

        // The last one is missing too: it is cut as it was.
        let mut schedule = Schedule::new(&plan, resumed(&[(2, 10)]));
        assert_eq!(schedule.next(), Next::Play { ordinal: 1, steps_max: 10 });
        let mut played = play(1, 10);
        played.row.steps = 10;
        assert_eq!(schedule.take(played).len(), 1);
        assert_eq!(schedule.next(), Next::Play { ordinal: 3, steps_max: 4 });
        assert!(Schedule::new(&plan, resumed(&[(2, 10)])).into_resumed().is_some());
    }

    #[test]
    fn a_run_that_was_over_stays_over() {
        let plan = plan(Stop::Episodes(2), Policy::Random, 2);
        let resumed =
            ResumeState { settled: 2, steps: 20, failed_starts_from: 2, ..ResumeState::default() };
        assert_eq!(Schedule::new(&plan, resumed).next(), Next::Finished);
    }

    #[test]
    fn jobs_play_all_that_is_sure_to_be_needed_while_one_episode_lasts() {
        // An episode reaches at most 11 states.
        for (states, ahead) in [(11 * 100, 100), (11 * 100 + 1, 101), (1, 8), (1 << 40, 512)] {
            let mut schedule = Schedule::new(
                &plan(Stop::States(states), Policy::Random, 2),
                ResumeState::default(),
            );
            for ordinal in 0..ahead {
                assert_eq!(schedule.next(), Next::Play { ordinal, steps_max: 10 });
                if ordinal > 0 {
                    assert!(schedule.take(play(ordinal, 10)).is_empty());
                }
            }
            assert_eq!(schedule.next(), Next::Wait, "{states} states");
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
            let mut schedule =
                Schedule::new(&plan(stop, Policy::Random, 2), ResumeState::default());
            assert_eq!(schedule.next(), Next::Play { ordinal: 0, steps_max: 10 });
            assert_eq!(schedule.take(play(0, 10)).len(), 1);
            // Failed starts that were played ahead are not settled.
            for ordinal in [4, 3, 5, 2] {
                assert!(
                    schedule.take(failed_start(ordinal)).is_empty() && !schedule.nothing_starts()
                );
            }
            let settled = schedule.take(failed_start(1));
            assert_eq!(settled.iter().map(|row| row.id.ordinal()).collect::<Vec<_>>(), [1, 2, 3]);
            assert!(schedule.nothing_starts());
            assert_eq!(schedule.next(), Next::Finished);
        }
        let mut schedule =
            Schedule::new(&plan(Stop::Episodes(9), Policy::Random, 2), ResumeState::default());
        let settled: usize = (0..9).map(|ordinal| schedule.take(failed_start(ordinal)).len()).sum();
        assert_eq!((settled, schedule.nothing_starts()), (9, false));
        let resumed =
            ResumeState { settled: 5, steps: 20, failed_starts_from: 2, ..ResumeState::default() };
        let plan = plan(Stop::Steps(100), Policy::Random, 2);
        assert!(Schedule::new(&plan, resumed).nothing_starts());
    }

    #[test]
    fn a_run_of_searches_that_are_over_ends_in_the_same_place() {
        let stepless = |ordinal| Played { states: vec![StateId([0; 20])], ..play(ordinal, 0) };
        let failed_start = |ordinal| Played { states: Vec::new(), ..play(ordinal, 0) };
        let greedy = |stop| plan(stop, Policy::Greedy, 2);
        for stop in [Stop::Steps(100), Stop::States(50), Stop::Episodes(9)] {
            let mut schedule = Schedule::new(&greedy(stop), ResumeState::default());
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
            assert_eq!(schedule.next(), Next::Finished);
        }
        // A shard, whose programs are not all, goes on.
        let shard = Plan { shard: "0/2".parse().unwrap(), ..greedy(Stop::Episodes(9)) };
        let mut schedule = Schedule::new(&shard, ResumeState::default());
        while let Next::Play { ordinal, .. } = schedule.next() {
            schedule.take(stepless(ordinal));
        }
        assert!(schedule.is_fulfilled() && !schedule.is_exhausted());
        // Other policies have no end, and what never starts is not over.
        let random = plan(Stop::Steps(100), Policy::Random, 2);
        let mut schedule = Schedule::new(&random, ResumeState::default());
        let settled = (0..6).map(|ordinal| schedule.take(stepless(ordinal)).len()).sum::<usize>();
        assert_eq!(settled, 6);
        assert!(!schedule.is_exhausted() && !schedule.over);
        let mut schedule = Schedule::new(&greedy(Stop::Episodes(9)), ResumeState::default());
        let settled = (0..9).map(|ordinal| schedule.take(failed_start(ordinal)).len());
        assert_eq!(settled.sum::<usize>(), 9);
        assert!(!schedule.is_exhausted());
        let resumed = ResumeState {
            settled: 5,
            failed_starts_from: 5,
            stepless_from: 2,
            ..Default::default()
        };
        assert!(Schedule::new(&greedy(Stop::Steps(100)), resumed).is_exhausted());
    }

    #[test]
    fn explore_waits_for_the_earlier_episode_of_the_same_benchmark() {
        let mut schedule =
            Schedule::new(&plan(Stop::Episodes(9), Policy::Explore, 8), ResumeState::default());
        for ordinal in 0..3 {
            assert_eq!(schedule.next(), Next::Play { ordinal, steps_max: 10 });
        }
        assert_eq!(schedule.next(), Next::Wait);
        assert!(schedule.take(play(1, 10)).is_empty());
        assert_eq!(schedule.next(), Next::Play { ordinal: 4, steps_max: 10 });
        assert_eq!(schedule.next(), Next::Wait);
    }
}
