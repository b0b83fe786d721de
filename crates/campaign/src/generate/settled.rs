//! The settled episodes of a run: those that the lake has.

use std::collections::BTreeMap;

use super::plan::{RunPlan, Stop};
use super::shard::ShardEpisodes;
use steplake_lake::{ClosedEpisode, LakeError, Snapshot};
use steplake_model::{EpisodeId, Failure, RunId, base};

/// The settled episodes of a plan, by their ordinals. A retraction or a repair may have taken some,
/// and other runs may have played these again; so several runs may have them, but each once.
#[derive(Debug, Default)]
pub struct Settled(BTreeMap<u32, SettledEpisode>);

/// A settled episode.
#[derive(Debug, Clone)]
pub(super) struct SettledEpisode {
    pub(super) id: EpisodeId,
    /// Steps with an action.
    pub(super) steps: u32,
    /// How the compiler failed, if that ended the episode.
    pub(super) failure: Option<Failure>,
    /// Whether it is one of the program itself, not of what choices made of it.
    pub(super) is_of_program: bool,
}

impl SettledEpisode {
    /// Returns whether the compiler failed before the first action.
    pub(super) fn is_failed_start(&self) -> bool {
        self.steps == 0 && self.failure.is_some()
    }
}

impl Settled {
    /// Reads the closed episodes of `runs`, which have one plan. If several have an episode, it is
    /// that of the first.
    ///
    /// # Errors
    ///
    /// Errors of the store when it reads files.
    pub fn read(snapshot: &Snapshot, runs: &[RunId]) -> Result<Self, LakeError> {
        let mut episodes: BTreeMap<u32, SettledEpisode> = BTreeMap::new();
        let place = |id: EpisodeId| runs.iter().position(|&run| run == id.run());
        for episode in snapshot.episodes() {
            let ClosedEpisode { id, benchmark: uri, steps, failure } = episode?;
            if place(id).is_none() {
                continue;
            }
            let known = episodes.get(&id.ordinal());
            if known.is_none_or(|known| place(id) < place(known.id)) {
                let is_of_program = base(&uri) == uri;
                let episode = SettledEpisode { id, steps, failure, is_of_program };
                episodes.insert(id.ordinal(), episode);
            }
        }
        Ok(Self(episodes))
    }

    /// Returns how many there are.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns how many episodes are missing before the last one.
    pub fn missing(&self, plan: &RunPlan) -> u64 {
        let last = self.0.keys().next_back();
        last.map_or(0, |&last| u64::from(ShardEpisodes::new(plan).place(last)) + 1 - self.count())
    }

    /// Returns whether nothing is missing, and the plan's stop is reached. If it stops at a number
    /// of states, the episodes alone do not tell.
    pub fn is_whole(&self, plan: &RunPlan) -> bool {
        let is_reached = match plan.stop {
            Stop::Steps(steps) => {
                self.0.values().map(|it| u64::from(it.steps)).sum::<u64>() >= steps
            }
            Stop::States(_) => false,
            Stop::Episodes(episodes) => self.count() >= plan.own_episodes(episodes),
        };
        self.missing(plan) == 0 && is_reached
    }

    /// Returns whether `run` has no episode behind one that is missing, so that it can go on: what
    /// is missing was not its own.
    pub fn can_go_on(&self, run: RunId, plan: &RunPlan) -> bool {
        let first_missing = self.places_from_the_first(plan);
        let mut own = self.0.iter().rev().filter(|(_, it)| it.id.run() == run);
        own.next().is_none_or(|(&last, _)| ShardEpisodes::new(plan).place(last) < first_missing)
    }

    /// Returns the number of places from the first on that have a settled episode.
    pub(super) fn places_from_the_first(&self, plan: &RunPlan) -> u32 {
        let places = ShardEpisodes::new(plan);
        let together =
            (0..).zip(self.0.keys()).take_while(|&(place, &it)| places.place(it) == place);
        u32::try_from(together.count()).unwrap_or(u32::MAX)
    }

    /// Returns whether an episode is one of these.
    pub(super) fn has(&self, id: EpisodeId) -> bool {
        self.0.get(&id.ordinal()).is_some_and(|known| known.id == id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &SettledEpisode)> {
        self.0.iter().map(|(&ordinal, episode)| (ordinal, episode))
    }
}
