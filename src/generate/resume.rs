//! What an interrupted run left behind.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use arrow::array::RecordBatch;

use super::effects::least_cost;
use super::past::Past;
use super::past_costs::{PastCosts, past_costs};
use super::past_trials::{PastTrials, past_trials};
use super::plan::{Plan, Stop};
use super::policy::{Policy, Tried};
use super::settled::Settled;
use super::shard::Places;
use super::starts::First;
use super::walks::PastWalks;
use crate::lake::decode::StepColumns;
use crate::lake::episode_steps::{EpisodeSteps, Link};
use crate::lake::{LakeError, ScanColumns, Writer};
use crate::model::{ActionIndex, BenchmarkUri, EpisodeId, RunId, StateId, ValueType};

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
    /// What the settled episodes tried, up to the first place that is not settled; kept only for
    /// the policy that uses it.
    pub(super) tried: HashMap<BenchmarkUri, Tried>,
    /// The same of those behind it.
    pub(super) past_tries: PastTries,
    /// What the settled episodes cost; read only for searches that look back.
    pub(super) past_costs: PastCosts,
    /// What the settled episodes did; read only for policies that expand states, and `frontier`.
    pub(super) past_trials: PastTrials,
    /// What the policy `frontier` knows.
    pub(super) past_walks: PastWalks,
    /// Which programs started, and how the start of the others failed.
    pub(super) starts: HashMap<BenchmarkUri, First>,
    /// All settled episodes.
    pub(super) all: Settled,
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

/// Which action each step of an episode took, and in which state.
pub(super) type PastTries = Past<Vec<(StateId, ActionIndex)>>;

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
    pub fn resume(writer: &mut Writer, run: RunId, plan: &Plan) -> Result<Self, LakeError> {
        writer.discard_open(run)?;
        let settled = Settled::read(&writer.lake().snapshot()?, &[run])?;
        Self::of(writer, settled, plan)
    }

    /// Reads what settled episodes did. No run has open ones.
    ///
    /// # Errors
    ///
    /// Errors of the store when it reads files.
    pub fn of(writer: &Writer, settled: Settled, plan: &Plan) -> Result<Self, LakeError> {
        let actions = &writer.lake.identity.action_space.actions;
        let actions = u32::try_from(actions.len()).unwrap_or(u32::MAX);
        let snapshot = writer.lake().snapshot()?;
        let places = Places::new(plan);
        let mut state = Self { settled: settled.places_from_the_first(plan), ..Self::default() };
        for (ordinal, episode) in settled.iter().filter(|(_, episode)| episode.is_of_program) {
            let uri = plan.benchmark(ordinal).clone();
            match episode.failure.clone().filter(|_| episode.steps == 0) {
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
        if plan.policy.proposes() && plan.policy.looks_back() {
            state.past_costs = past_costs(&snapshot, &settled, plan)?;
        }
        if plan.policy.expands() {
            state.past_trials = past_trials(&snapshot, &settled, plan)?;
        }
        state.all = settled;
        let columns = ["episode_id", "step_index", "state_id", "action"];
        let mut reader = StepReader { plan, actions, walk: EpisodeSteps::default(), last: None };
        for batch in snapshot.steps(ScanColumns::Named(&columns)) {
            reader.read(&batch?, &mut state);
        }
        Ok(state)
    }

    /// Reads what the policy `frontier` knows: the episodes of `earlier` runs, and the settled ones
    /// of the run itself. Other policies know nothing of earlier runs.
    ///
    /// # Errors
    ///
    /// Errors of the store when it reads files.
    pub fn know(
        &mut self,
        writer: &Writer,
        plan: &Plan,
        earlier: &BTreeSet<RunId>,
    ) -> Result<(), LakeError> {
        if plan.policy == Policy::Frontier {
            let actions = &writer.lake.identity.action_space.actions;
            let actions = u32::try_from(actions.len()).unwrap_or(u32::MAX);
            let snapshot = writer.lake().snapshot()?;
            let costs = writer.lake.identity.observations.iter();
            let mut costs = costs.filter(|space| space.name == plan.objective);
            // A lake has times in no such space.
            let cost = costs.next().map_or(ValueType::Float, |space| space.value_type);
            let least = least_cost(Some(cost));
            self.past_walks =
                PastWalks::read(&snapshot, earlier, &self.all, plan, (actions, least))?;
        }
        Ok(())
    }
}

/// Reads the steps of settled episodes: the states, and which action was tried in which.
struct StepReader<'a> {
    plan: &'a Plan,
    actions: u32,
    walk: EpisodeSteps<StateId>,
    /// The episode of the last step, and its place if it is settled.
    last: Option<(EpisodeId, Option<u32>)>,
}

impl StepReader<'_> {
    fn read(&mut self, batch: &RecordBatch, state: &mut ResumeState) {
        let steps = StepColumns::of(batch);
        let (chosen, states) = (steps.actions(), steps.states());
        for row in 0..steps.rows() {
            let id = EpisodeId(steps.episodes[row]);
            let place = match self.last {
                Some((last, place)) if last == id => place,
                _ => state.all.has(id).then(|| Places::new(self.plan).place(id.ordinal())),
            };
            self.last = Some((id, place));
            let Some(place) = place else { continue };
            let reached = states.get(row);
            let link = self.walk.advance(id.0, steps.indexes[row], reached);
            let later = state.later.get_mut(&place);
            if self.plan.policy == Policy::Explore
                && let (Link::Next(from), Some(action)) = (link, chosen.get(row))
            {
                if later.is_some() {
                    state.past_tries.of(self.plan, id.ordinal()).push((from, action));
                } else {
                    let uri = self.plan.benchmark(id.ordinal()).clone();
                    state.tried.entry(uri).or_default().note(from, action, self.actions);
                }
            }
            if matches!(self.plan.stop, Stop::States(_)) {
                match later {
                    Some(later) => later.states.extend(reached),
                    None => state.states.extend(reached),
                }
            }
        }
    }
}
