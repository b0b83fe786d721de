//! Decides which episode is played next, and when a run is over. Pure: no sessions, no clock, no
//! threads.
//!
//! Episodes are numbered; episode `e` uses benchmark `e mod B`. They are played in any order, but
//! *settled* in the order of their numbers, and the run stops at the first settled episode that
//! fulfils its [`Stop`]. So what a run leaves depends on its plan alone.
//!
//! In a run with several shards, only the episodes of this shard count: each has a *place* among
//! them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::plan::{RunPlan, Shard, Stop};
use super::policies::Property;
use super::resume::{Done, ResumeState};
use super::shard::ShardEpisodes;
use steplake_lake::EpisodeRow;
use steplake_model::{EpisodeOutcome, StateId};

/// How many episodes per job may be played ahead of the oldest unsettled one. Episodes beyond the
/// stop of a run are discarded, so few are played ahead if the stop may come before them. Of those
/// that the run is sure to need, there are enough to keep the other jobs busy for the minute that
/// it may take to find the cause of a failure; but not more, since a resumed run plays unsettled
/// episodes again.
const AHEAD_PER_JOB: u32 = 4;
const AHEAD_PER_JOB_SURE: u32 = 256;

/// An episode that was played.
#[derive(Debug)]
pub(super) struct PlayedEpisode {
    pub(super) row: EpisodeRow,
    /// The states that it reached, in order, including the initial one; none if the start failed
    /// before there was a state.
    pub(super) states: Vec<StateId>,
}

/// What a job has to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JobStep {
    /// Play this episode, with at most `steps_max` steps.
    Play { ordinal: u32, steps_max: u32 },
    /// Ask again when something has settled.
    Wait,
    /// Nothing is left to do.
    Finished,
}

#[derive(Debug)]
pub(super) struct EpisodeSchedule {
    places: ShardEpisodes,
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
    played: BTreeMap<u32, PlayedEpisode>,
    over: bool,
}

impl ResumeState {
    /// Returns what is settled, unless the run is over: then nothing is left to play.
    pub fn unless_over(self, plan: &RunPlan) -> Option<Self> {
        EpisodeSchedule::new(plan, self).into_resumed()
    }
}

impl EpisodeSchedule {
    /// Returns the schedule of what `resumed` leaves of `plan`.
    pub(super) fn new(plan: &RunPlan, mut resumed: ResumeState) -> Self {
        let places = ShardEpisodes::new(plan);
        let later = std::mem::take(&mut resumed.later);
        let mut schedule = Self {
            places,
            stop: match plan.stop {
                Stop::Episodes(episodes) => Stop::Episodes(places.below(episodes)),
                other => other,
            },
            episode_length: plan.episode_length,
            round: places.round(),
            serial: plan.policy.has(Property::LooksBack),
            exhausts: plan.policy.has(Property::IsSystematic) && plan.shard == Shard::WHOLE,
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

    pub(super) fn next(&mut self) -> JobStep {
        if self.over {
            return JobStep::Finished;
        }
        // The benchmarks of which an episode has to be played first.
        let mut waiting = HashSet::new();
        for place in self.done.settled..self.done.settled.saturating_add(self.ahead()) {
            if matches!(self.stop, Stop::Episodes(episodes) if u64::from(place) >= episodes) {
                break;
            }
            if self.steps_of(place).is_some() {
                continue;
            }
            let waits = self.serial && !waiting.insert(place % self.round);
            if self.given.contains(&place) || waits {
                continue;
            }
            let Some(steps_max) = self.steps_max(place) else { break };
            self.given.insert(place);
            return JobStep::Play { ordinal: self.places.ordinal(place), steps_max };
        }
        JobStep::Wait
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
    pub(super) fn take(&mut self, played: PlayedEpisode) -> Vec<EpisodeRow> {
        self.played.insert(self.places.place(played.row.id.ordinal()), played);
        let mut rows = Vec::new();
        while !self.over {
            let place = self.done.settled;
            let done = if let Some(PlayedEpisode { row, states }) = self.played.remove(&place) {
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
mod tests;
