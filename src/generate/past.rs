//! What an interrupted run left behind.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int16Type, Int32Type, Int64Type};

use super::plan::{Plan, Stop};
use super::policy::{Policy, Tried};
use super::shard::Places;
use super::starts::First;
use crate::lake::{LakeError, ScanColumns, Table, Writer};
use crate::model::{ActionIndex, BenchmarkUri, EpisodeId, EpisodeOutcome, Failure, RunId, StateId};

/// How far an interrupted run came. [`Past::default`] is that of a new run.
///
/// Settled episodes are a prefix of the run's shard, since they are settled and committed in order.
/// Later episodes may have left steps. Those are discarded, and the episodes are played afresh: an
/// action that is not a pure function of the state may lead elsewhere this time, and no episode may
/// be put together from two.
#[derive(Debug, Default)]
pub struct Past {
    pub(super) settled: u32,
    pub(super) steps: u64,
    /// The distinct states of the settled episodes; kept only if the plan stops at a number of
    /// states.
    pub(super) states: HashSet<StateId>,
    /// What the settled episodes tried; kept only for the policy that uses it.
    pub(super) tried: HashMap<BenchmarkUri, Tried>,
    /// From this place on, all settled episodes are failed starts of programs that never started.
    pub(super) failed_starts_from: u32,
    /// Which programs started, and how the start of the others failed.
    pub(super) starts: HashMap<BenchmarkUri, First>,
}

/// A step of a settled episode.
struct Visited {
    ordinal: u32,
    index: u32,
    state: Option<StateId>,
    action: Option<ActionIndex>,
}

impl Past {
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
    pub fn take_up(writer: &mut Writer, run: RunId, plan: &Plan) -> Result<Self, LakeError> {
        demand_all_there(writer, run, plan)?;
        writer.discard_open(run)?;
        let actions = &writer.identity().action_space.actions;
        let actions = u16::try_from(actions.len()).unwrap_or(u16::MAX);
        let snapshot = writer.lake().snapshot()?;
        let mut past = Self::default();
        let columns = ["episode_id", "steps", "outcome", "detail"];
        let mut failed = Vec::new();
        for batch in snapshot.scan(Table::Episodes, ScanColumns::Named(&columns)) {
            past.read_episodes(&batch?, run, plan, &mut failed);
        }
        for ordinal in failed {
            if matches!(past.starts.get(plan.benchmark(ordinal)), Some(First::Started)) {
                past.note_start(ordinal, plan);
            }
        }
        let columns = ["episode_id", "step_index", "state_id", "action"];
        let mut visited = Vec::new();
        for batch in snapshot.scan(Table::Steps, ScanColumns::Named(&columns)) {
            past.read_steps(&batch?, run, plan, &mut visited);
        }
        past.note_tries(visited, plan, actions);
        Ok(past)
    }

    /// Reads the episodes of a batch; the failed starts among them go to `failed`.
    fn read_episodes(
        &mut self,
        batch: &RecordBatch,
        run: RunId,
        plan: &Plan,
        failed: &mut Vec<u32>,
    ) {
        let ids = column(batch, "episode_id").as_primitive::<Int64Type>();
        let steps = column(batch, "steps").as_primitive::<Int32Type>();
        let outcomes = column(batch, "outcome").as_string::<i32>();
        let details = column(batch, "detail").as_string::<i32>();
        for row in 0..batch.num_rows() {
            let id = EpisodeId(ids.value(row));
            if id.run() != run {
                continue;
            }
            self.settled += 1;
            self.steps += u64::try_from(steps.value(row)).unwrap_or(0);
            let uri = plan.benchmark(id.ordinal()).clone();
            match outcomes.value(row).parse() {
                Ok(EpisodeOutcome::Failed(kind)) if steps.value(row) == 0 => {
                    let detail = details.value(row).to_owned();
                    // A started episode of the same program takes precedence.
                    self.starts.entry(uri).or_insert(First::Failed(Failure { kind, detail }));
                    failed.push(id.ordinal());
                }
                _ => {
                    self.starts.insert(uri, First::Started);
                    self.note_start(id.ordinal(), plan);
                }
            }
        }
    }

    /// Notes that the program of an episode starts.
    fn note_start(&mut self, ordinal: u32, plan: &Plan) {
        let after = Places::new(plan).place(ordinal) + 1;
        self.failed_starts_from = self.failed_starts_from.max(after);
    }

    /// Reads the steps of a batch; for the policy that looks back, they go to `visited`.
    fn read_steps(
        &mut self,
        batch: &RecordBatch,
        run: RunId,
        plan: &Plan,
        visited: &mut Vec<Visited>,
    ) {
        let episodes = column(batch, "episode_id").as_primitive::<Int64Type>();
        let indices = column(batch, "step_index").as_primitive::<Int32Type>();
        let states = column(batch, "state_id").as_fixed_size_binary();
        let chosen = column(batch, "action").as_primitive::<Int16Type>();
        for row in 0..batch.num_rows() {
            let id = EpisodeId(episodes.value(row));
            if id.run() != run {
                continue;
            }
            let state = states.is_valid(row).then(|| StateId::from_slice(states.value(row)));
            if matches!(plan.stop, Stop::States(_)) {
                self.states.extend(state);
            }
            if plan.policy == Policy::Explore {
                visited.push(Visited {
                    ordinal: id.ordinal(),
                    index: u32::try_from(indices.value(row)).unwrap_or(0),
                    state,
                    action: u16::try_from(chosen.value(row)).ok().map(ActionIndex),
                });
            }
        }
    }

    /// Notes which action was tried in which state. The rows of an episode come in any order: what
    /// a seal or [`Writer::discard_open`] leaves of a frame stands behind rows that were appended
    /// later.
    fn note_tries(&mut self, mut visited: Vec<Visited>, plan: &Plan, actions: u16) {
        visited.sort_unstable_by_key(|step| (step.ordinal, step.index));
        for pair in visited.windows(2) {
            let [before, step] = pair else { continue };
            if (before.ordinal, before.index + 1) != (step.ordinal, step.index) {
                continue;
            }
            if let (Some(from), Some(action)) = (before.state, step.action) {
                let tried = self.tried.entry(plan.benchmark(step.ordinal).clone()).or_default();
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

/// Returns a requested column by its name.
fn column<'a>(batch: &'a RecordBatch, name: &str) -> &'a dyn Array {
    batch.column_by_name(name).expect("a scan has the columns that were asked for").as_ref()
}
