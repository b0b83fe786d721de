//! What the recorders of a run share.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::audit::AuditQueue;
use super::buffer::Buffer;
use super::first_programs::FirstPrograms;
use super::reservations::Reservations;
use steplake_env::{KeyframeCount, Session, SessionError, Started, WantedRewards, Watch};
use steplake_lake::EpisodeRow;
use steplake_model::{
    ActionFlags, ActionIndex, Benchmark, BenchmarkUri, EnvironmentSpec, EpisodeId, Name,
    ObservationIndex, Outcome, RunId, Scale, StateId, Value,
};

/// What the recorders of a run share.
#[derive(Debug)]
pub(super) struct RecorderContext {
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
    pub(super) first_programs: FirstPrograms,
    /// Actions that were seen to lead elsewhere next time, though their flags do not say so.
    pub(super) unreplayable: Mutex<Arc<[ActionIndex]>>,
    pub(super) audit: AuditQueue,
    pub(super) ordinal_next: AtomicU32,
    /// Tells this recording from others of the process.
    pub(super) recording: u64,
}

impl RecorderContext {
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

    /// Refuses a program whose first state, in which the session is, has the id of another one:
    /// see [`FirstPrograms::demand`]. A run that stores no IR compares nothing.
    pub(super) fn demand_own_id(
        &self,
        uri: &BenchmarkUri,
        state: StateId,
        session: &mut dyn Session,
    ) -> Result<(), SessionError> {
        if self.keyframes.is_none() {
            return Ok(());
        }
        let Value::Bytes(program) = session.observe(self.state_space)? else { return Ok(()) };
        let is_stored = self.reservations.is_stored(state);
        if is_stored {
            // The lake has to have what it was given.
            self.buffer.flush()?;
        }
        self.first_programs.demand(uri, state, is_stored, &program)
    }

    /// Returns what sessions should send along: what the caller `wished`, and what is recorded.
    pub(super) fn watch(&self, wished: &Watch) -> Watch {
        let mut spaces = wished.spaces.clone();
        for space in self.observed.iter().flatten() {
            if !spaces.contains(space) {
                spaces.push(*space);
            }
        }
        let unreplayable = Arc::clone(&self.unreplayable.lock());
        Watch { spaces, keyframes: self.keyframes, recording: self.recording, unreplayable }
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

    /// Notes that an action was seen to lead elsewhere.
    pub(super) fn doubt(&self, action: ActionIndex) {
        let mut known = self.unreplayable.lock();
        if !known.contains(&action) {
            *known = known.iter().copied().chain([action]).collect();
        }
    }

    /// Counts a step of an episode, and returns whether the state to which it led is a keyframe.
    /// `unreplayable` are the actions of which that is known since the episode began.
    pub(super) fn is_keyframe(
        &self,
        count: &mut KeyframeCount,
        unreplayable: &[ActionIndex],
        action: ActionIndex,
        outcome: &Outcome,
    ) -> bool {
        let &Outcome::State { changed, .. } = outcome else { return false };
        let flags = self.flags.get(action.place()).copied();
        let mut flags = flags.unwrap_or(ActionFlags::UNREMARKABLE);
        flags.replayable &= !unreplayable.contains(&action);
        self.keyframes.is_some_and(|every| count.step(every, changed, flags))
    }
}

/// Returns the BLAKE3 of a program's bytes, hex.
pub(super) fn program_digest(benchmark: &Benchmark) -> String {
    blake3::hash(&benchmark.program).to_hex().to_string()
}
