//! What an interrupted run left behind.

use std::collections::{BTreeSet, HashMap, HashSet};

use arrow::array::RecordBatch;

use super::effects::least_cost;
use super::past_costs::{PastCosts, past_costs};
use super::past_trials::{PastTrials, past_trials};
use super::plan::{Plan, Stop};
use super::policy::{Policy, Tried};
use super::shard::Places;
use super::starts::First;
use super::walks::PastWalks;
use crate::lake::decode::{EpisodeEnd, StepColumns, are_of_run, benchmark_uris};
use crate::lake::episode_steps::{EpisodeSteps, Link};
use crate::lake::{LakeError, ScanColumns, Table, Writer};
use crate::model::{BenchmarkUri, EpisodeId, RunId, StateId, ValueType};

/// How far an interrupted run came. [`ResumeState::default`] is that of a new run.
///
/// Settled episodes are a prefix of the run's shard, since they are settled and committed in order.
/// Later episodes may have left steps. Those are discarded, and the episodes are played afresh: an
/// action that is not a pure function of the state may lead elsewhere this time, and no episode may
/// be put together from two.
#[derive(Debug, Default)]
pub struct ResumeState {
    pub(super) settled: u32,
    pub(super) steps: u64,
    /// The distinct states of the settled episodes; kept only if the plan stops at a number of
    /// states.
    pub(super) states: HashSet<StateId>,
    /// What the settled episodes tried; kept only for the policy that uses it.
    pub(super) tried: HashMap<BenchmarkUri, Tried>,
    /// What the settled episodes cost; read only for searches that look back.
    pub(super) past_costs: PastCosts,
    /// What the settled episodes did; read only for policies that expand states, and `frontier`.
    pub(super) past_trials: PastTrials,
    /// What the policy `frontier` knows.
    pub(super) past_walks: PastWalks,
    /// From this place on, all settled episodes are failed starts of programs that never started.
    pub(super) failed_starts_from: u32,
    /// From this place on, no settled episode has a step.
    pub(super) stepless_from: u32,
    /// Which programs started, and how the start of the others failed.
    pub(super) starts: HashMap<BenchmarkUri, First>,
}

impl ResumeState {
    /// Returns how many episodes of the run are settled.
    pub fn episodes(&self) -> u32 {
        self.settled
    }

    /// Returns how much of what the run stops at is settled: steps, states or episodes.
    pub fn towards(&self, stop: Stop) -> u64 {
        match stop {
            Stop::Steps(_) => self.steps,
            Stop::States(_) => self.states.len() as u64,
            Stop::Episodes(_) => self.settled.into(),
        }
    }

    /// Discards what the open episodes of `run` left in the lake, and reads what the settled ones
    /// did. Must precede the [`Recording`](crate::record::Recording) of the run, which reads what
    /// the lake knows.
    ///
    /// # Errors
    ///
    /// [`LakeError::RunHasGaps`] if episodes of the run were retracted, or lost in a repair;
    /// errors of the store when it reads or writes files.
    pub fn resume(writer: &mut Writer, run: RunId, plan: &Plan) -> Result<Self, LakeError> {
        demand_all_there(writer, run, plan)?;
        writer.discard_open(run)?;
        let actions = &writer.lake.identity.action_space.actions;
        let actions = u32::try_from(actions.len()).unwrap_or(u32::MAX);
        let snapshot = writer.lake().snapshot()?;
        let (mut state, mut ordinals) = (Self::default(), Vec::new());
        let after = |ordinal| Places::new(plan).place(ordinal) + 1;
        let columns = [&EpisodeEnd::NAMES[..], &["benchmark_uri"]].concat();
        for batch in snapshot.scan(Table::Episodes, ScanColumns::Named(&columns)) {
            let batch = batch?;
            let rows = EpisodeEnd::rows(&batch).zip(benchmark_uris(&batch));
            for (row, own_uri) in rows.filter(|(row, _)| row.id.run() == run) {
                state.settled += 1;
                state.steps += u64::try_from(row.steps).unwrap_or(0);
                ordinals.push(row.id.ordinal());
                if row.steps > 0 {
                    state.stepless_from = state.stepless_from.max(after(row.id.ordinal()));
                }
                let uri = plan.benchmark(row.id.ordinal()).clone();
                let is_own = own_uri == uri.as_str();
                match row.failure().filter(|_| row.steps == 0) {
                    // A started episode of the same program takes precedence.
                    Some(failure) if is_own => {
                        state.starts.entry(uri).or_insert(Err(failure));
                        continue;
                    }
                    None if is_own => {
                        state.starts.insert(uri, Ok(()));
                    }
                    // What choices made of the program says nothing about its own start.
                    _ => {}
                }
                state.failed_starts_from = state.failed_starts_from.max(after(row.id.ordinal()));
            }
        }
        if plan.policy.proposes() && plan.policy.looks_back() {
            state.past_costs = past_costs(&snapshot, run, plan, &ordinals)?;
        }
        if plan.policy.expands() {
            state.past_trials = past_trials(&snapshot, run, plan)?;
        }
        let columns = ["episode_id", "step_index", "state_id", "action"];
        let mut walk = EpisodeSteps::default();
        for batch in snapshot.steps(ScanColumns::Named(&columns)) {
            state.read_steps(&batch?, run, plan, actions, &mut walk);
        }
        Ok(state)
    }

    /// Reads what the policy `frontier` knows: the episodes of `earlier` runs, and the settled ones
    /// of `run` itself. Other policies know nothing of earlier runs.
    ///
    /// # Errors
    ///
    /// Errors of the store when it reads files.
    pub fn know(
        &mut self,
        writer: &Writer,
        run: RunId,
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
            self.past_walks = PastWalks::read(&snapshot, earlier, run, plan, (actions, least))?;
        }
        Ok(())
    }

    /// Reads the steps of a batch: the states, and which action was tried in which.
    fn read_steps(
        &mut self,
        batch: &RecordBatch,
        run: RunId,
        plan: &Plan,
        actions: u32,
        walk: &mut EpisodeSteps<StateId>,
    ) {
        let steps = StepColumns::of(batch);
        let (chosen, states) = (steps.actions(), steps.states());
        for (row, _) in are_of_run(batch, run).enumerate().filter(|&(_, is_of_run)| is_of_run) {
            let (id, state) = (EpisodeId(steps.episodes[row]), states.get(row));
            if matches!(plan.stop, Stop::States(_)) {
                self.states.extend(state);
            }
            if plan.policy == Policy::Explore
                && let Link::Next(from) = walk.advance(id.0, steps.indexes[row], state)
                && let Some(action) = chosen.get(row)
            {
                let tried = self.tried.entry(plan.benchmark(id.ordinal()).clone()).or_default();
                tried.note(from, action, actions);
            }
        }
    }
}

/// Refuses a run that lacks some of its recorded episodes: it would not go on from where it
/// stopped.
fn demand_all_there(writer: &Writer, run: RunId, plan: &Plan) -> Result<(), LakeError> {
    let snapshot = writer.lake().snapshot()?;
    let gaps = |what| LakeError::RunHasGaps { path: snapshot.path().to_owned(), run, what };
    if let Some(row) = snapshot.retractions().iter().find(|row| row.runs.contains(&run)) {
        let kind = row.kind.as_str();
        return Err(gaps(format!("{kind} {} was retracted ({})", row.value, row.reason)));
    }
    let closed = writer.closed_episodes(run)?;
    let place = |id: &EpisodeId| u64::from(Places::new(plan).place(id.ordinal()));
    let last = closed.last().map_or(0, |id| place(id) + 1);
    let missing = last - closed.len() as u64;
    if missing > 0 {
        let losses = if missing == 1 { "an episode" } else { "episodes" };
        return Err(gaps(format!("a repair had to drop {losses} of it")));
    }
    Ok(())
}
