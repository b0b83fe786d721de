//! What the recorders of a run share.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::buffer::Buffer;
use super::reservations::Reservations;
use crate::env::{KeyframeCount, SessionError, Started, WantedRewards, Watch};
use crate::lake::EpisodeRow;
use crate::model::{
    ActionFlags, ActionIndex, Benchmark, EnvironmentSpec, EpisodeId, Name, ObservationIndex,
    Outcome, RunId, Scale,
};

/// What the recorders of a run share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) run: RunId,
    pub(super) buffer: Buffer,
    /// For each observation column of the lake, the space that is recorded there.
    pub(super) observed: Vec<Option<ObservationIndex>>,
    /// Those of the recorded spaces that are observed apart from steps. Where the compiler fails on
    /// one, a state has null there, unless the step that led there has failed with it.
    pub(super) apart: Vec<ObservationIndex>,
    /// Those on which the compiler must not fail.
    pub(super) compiled: Vec<ObservationIndex>,
    /// Number of states that have null where the compiler failed.
    pub(super) unobserved: AtomicU64,
    /// For each reward column of the lake, the place of the recorded space among those of the
    /// environment.
    pub(super) rewards: Vec<Option<usize>>,
    /// Those of the recorded rewards whose cost is observed on request.
    pub(super) requested: Arc<WantedRewards>,
    pub(super) spec: Arc<EnvironmentSpec>,
    pub(super) keyframes: Option<NonZeroU32>,
    /// The space that serialises a state.
    pub(super) state_space: ObservationIndex,
    /// The flags of each action.
    pub(super) flags: Vec<ActionFlags>,
    /// The baselines that the run records: those that are not on request, and those that its
    /// rewards need.
    pub(super) recorded_baselines: Vec<String>,
    /// The names of the environment's baselines, without those on request.
    pub(super) baselines: Vec<Name>,
    pub(super) reservations: Reservations,
    pub(super) ordinal_next: AtomicU32,
    /// Tells this recording from others of the process.
    pub(super) recording: u64,
}

impl Shared {
    /// Writes the rows of settled episodes.
    pub(super) fn settle(&self, mut settled: Vec<EpisodeRow>) -> Result<(), SessionError> {
        if settled.is_empty() {
            return Ok(());
        }
        self.buffer.push(|rows| {
            let count = settled.len();
            rows.episodes.append(&mut settled);
            (count, 0)
        })
    }

    pub(super) fn next_episode(&self) -> EpisodeId {
        EpisodeId::new(self.run, self.ordinal_next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns what sessions should send along: what the caller `wished`, and what is recorded.
    pub(super) fn watch(&self, wished: &Watch) -> Watch {
        let mut spaces = wished.spaces.clone();
        for space in self.observed.iter().flatten() {
            if !spaces.contains(space) {
                spaces.push(*space);
            }
        }
        Watch { spaces, keyframes: self.keyframes, recording: self.recording }
    }

    /// Returns the spaces besides those that are recorded in which the compiler must not fail on
    /// the first state of an episode: the costs of the recorded rewards on request, and those of
    /// their baselines that the session did not find.
    pub(super) fn needed_at_start(&self, started: &Started) -> Vec<ObservationIndex> {
        let spaces = &self.spec.reward_spaces;
        let requested = self.rewards.iter().flatten().map(|&place| &spaces[place]);
        let requested = requested.filter(|space| self.spec.is_on_request(space));
        let needed = requested.flat_map(|space| {
            let baselines = match &space.scale {
                Scale::Absolute => [None, None],
                Scale::Initial => [Some(&space.initial), None],
                Scale::Baseline(name) => [Some(&space.initial), Some(name)],
            };
            let is_missing = |name: &&Name| started.baselines.get(name).is_none();
            let missing = baselines.into_iter().flatten().filter(is_missing);
            std::iter::once(&space.cost).chain(missing)
        });
        let needed = needed.filter(|name| self.spec.is_compiled(name));
        let needed = needed.filter_map(|name| self.spec.observation_index(name));
        let mut needed: Vec<_> = needed.collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// Counts a step, and returns whether the state to which it led is a keyframe.
    pub(super) fn is_keyframe(
        &self,
        count: &mut KeyframeCount,
        action: ActionIndex,
        outcome: &Outcome,
    ) -> bool {
        let &Outcome::State { changed, .. } = outcome else { return false };
        let flags = self.flags.get(action.place()).copied();
        let flags = flags.unwrap_or(ActionFlags::UNREMARKABLE);
        self.keyframes.is_some_and(|every| count.step(every, changed, flags))
    }
}

/// Returns the BLAKE3 of a program's bytes, hex.
pub(super) fn program_digest(benchmark: &Benchmark) -> String {
    blake3::hash(&benchmark.program).to_hex().to_string()
}
