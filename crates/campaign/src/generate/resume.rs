//! What an interrupted run left behind.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::earlier::Earlier;
use super::first_starts::FirstStart;
use super::past::{Past, each_walk};
use super::plan::{RunPlan, Stop};
use super::policies::{Property, least_cost};
use super::settled::Settled;
use super::shard::ShardEpisodes;
use steplake_lake::{LakeError, Snapshot, Writer};
use steplake_model::{BenchmarkUri, RunId, StateId, ValueType};

/// How far an interrupted run came. [`ResumeState::default`] is that of a new run.
///
/// Settled episodes are committed in order, so they are a prefix of the run's shard, unless a
/// retraction or a repair took some: those are played again. Later episodes may have left steps.
/// Those are discarded, and the episodes are played afresh: an action that is not a pure function
/// of the state may lead elsewhere this time, and no episode may be put together from two.
#[derive(Debug, Default)]
pub struct ResumeState {
    /// The number of places from the first on that are settled. The next fields are about these.
    pub(super) settled: u32,
    pub(super) steps: u64,
    /// The distinct states of the settled episodes; kept only if the plan stops at a number of
    /// states.
    pub(super) states: HashSet<StateId>,
    /// From this place on, all settled episodes are failed starts of programs that never started.
    pub(super) failed_starts_from: u32,
    /// From this place on, no settled episode has a step.
    pub(super) stepless_from: u32,
    /// What is settled behind the first place that is not, by places.
    pub(super) later: BTreeMap<u32, Done>,
    /// What the settled episodes came to; read only for policies that look back. Takes some 50
    /// bytes for each step.
    pub(super) past: Past,
    /// What the policy knows of earlier runs, if it knows of any.
    pub(super) earlier: Earlier,
    /// Which programs started, and how the start of the others failed.
    pub(super) starts: HashMap<BenchmarkUri, FirstStart>,
}

/// What a settled episode did, as far as it counts towards the end of a run.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) steps: u32,
    /// Whether its program started.
    pub(super) has_started: bool,
    /// The states that it reached; needed only if the run stops at a number of states.
    pub(super) states: Vec<StateId>,
}

impl ResumeState {
    /// Returns how many episodes of the run are settled.
    pub fn episodes(&self) -> u32 {
        self.settled + u32::try_from(self.later.len()).unwrap_or(u32::MAX)
    }

    /// Returns how much of what the run stops at is settled: steps, states or episodes.
    pub fn towards(&self, stop: Stop) -> u64 {
        let later = self.later.values();
        match stop {
            Stop::Steps(_) => self.steps + later.map(|it| u64::from(it.steps)).sum::<u64>(),
            Stop::States(_) => {
                let later = later.flat_map(|it| &it.states).collect::<HashSet<_>>();
                let new = later.into_iter().filter(|state| !self.states.contains(state)).count();
                (self.states.len() + new) as u64
            }
            Stop::Episodes(_) => self.episodes().into(),
        }
    }

    /// Discards what the open episodes of `run` left in the lake, and reads what the settled ones
    /// did. Must precede the [`Recording`](crate::record::Recording) of the run, which reads what
    /// the lake knows.
    ///
    /// # Errors
    ///
    /// Errors of the store when it reads or writes files.
    pub fn resume(writer: &mut Writer, run: RunId, plan: &RunPlan) -> Result<Self, LakeError> {
        writer.discard_open(run)?;
        let settled = Settled::read(&writer.lake().snapshot()?, &[run])?;
        Self::of(writer, &settled, plan)
    }

    /// Reads what settled episodes did. No run has open ones.
    ///
    /// # Errors
    ///
    /// Errors of the store when it reads files.
    pub fn of(writer: &Writer, settled: &Settled, plan: &RunPlan) -> Result<Self, LakeError> {
        let places = ShardEpisodes::new(plan);
        let mut state = Self { settled: settled.places_from_the_first(plan), ..Self::default() };
        for (ordinal, episode) in settled.iter().filter(|(_, episode)| episode.is_of_program) {
            let uri = plan.benchmark(ordinal).clone();
            match episode.failure.clone().filter(|_| episode.is_failed_start()) {
                // A started episode of the same program takes precedence.
                Some(failure) => {
                    state.starts.entry(uri).or_insert(Err(failure));
                }
                None => {
                    state.starts.insert(uri, Ok(()));
                }
            }
        }
        for (ordinal, episode) in settled.iter() {
            let (place, steps) = (places.place(ordinal), episode.steps);
            // What choices made of the program says nothing about its own start.
            let has_started = !episode.is_of_program
                || matches!(state.starts.get(plan.benchmark(ordinal)), Some(Ok(())));
            if place >= state.settled {
                state.later.insert(place, Done { steps, has_started, states: Vec::new() });
                continue;
            }
            state.steps += u64::from(steps);
            if has_started {
                state.failed_starts_from = place + 1;
            }
            if steps > 0 {
                state.stepless_from = place + 1;
            }
        }
        state.read_walks(&writer.lake().snapshot()?, settled, plan)?;
        Ok(state)
    }

    /// Reads the states of the settled episodes, and what their actions led to.
    fn read_walks(
        &mut self,
        snapshot: &Snapshot,
        settled: &Settled,
        plan: &RunPlan,
    ) -> Result<(), LakeError> {
        let (places, looks_back) = (ShardEpisodes::new(plan), plan.policy.has(Property::LooksBack));
        let mut walks = HashMap::new();
        each_walk(snapshot, |id, walk| {
            if !settled.has(id) {
                return;
            }
            if matches!(plan.stop, Stop::States(_)) {
                match self.later.get_mut(&places.place(id.ordinal())) {
                    Some(later) => later.states.extend(walk.states()),
                    None => self.states.extend(walk.states()),
                }
            }
            if looks_back {
                walks.insert(id.ordinal(), walk);
            }
        })?;
        for (ordinal, episode) in settled.iter().filter(|_| looks_back) {
            // A failed start may have a state, on which the compiler failed: nobody learns of it.
            let walk = walks.remove(&ordinal).filter(|_| !episode.is_failed_start());
            self.past.add(plan, ordinal, walk.unwrap_or_default());
        }
        if plan.policy.has(Property::Searches) { self.past.price(snapshot, plan) } else { Ok(()) }
    }

    /// Reads what the policy knows of `earlier` runs. Most policies know nothing of them.
    ///
    /// # Errors
    ///
    /// Errors of the store when it reads files.
    pub fn know(
        &mut self,
        writer: &Writer,
        plan: &RunPlan,
        earlier: &BTreeSet<RunId>,
    ) -> Result<(), LakeError> {
        if plan.policy.has(Property::KnowsEarlierRuns) {
            let identity = writer.lake().identity();
            let actions = u32::try_from(identity.action_space.actions.len()).unwrap_or(u32::MAX);
            let mut costs = identity.observations.iter().filter(|it| it.name == plan.objective);
            // A lake has times in no such space.
            let cost = costs.next().map_or(ValueType::Float, |space| space.value_type);
            let snapshot = writer.lake().snapshot()?;
            let knows = (actions, least_cost(Some(cost)));
            self.earlier = Earlier::read(&snapshot, earlier, plan, knows)?;
        }
        Ok(())
    }
}
