//! What an interrupted run has left behind.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int16Type, Int32Type, Int64Type};

use super::policy::Tried;
use super::{Plan, Policy, Stop};
use crate::model::{ActionIndex, BenchmarkUri, EpisodeId, EpisodeOutcome, Failure, RunId, StateId};
use crate::store::{ScanColumns, StoreError, Table, Writer};

/// Where an interrupted run stood. [`Past::default`] is that of a run that has just begun.
///
/// Settled episodes are a prefix of the run, since they are settled and committed in order. Episodes
/// beyond it may have left steps. Those are thrown away, and the episodes are played afresh: an action
/// that is no pure function of the state may lead elsewhere this time, and no episode is to be put
/// together from two.
#[derive(Debug, Default)]
pub struct Past {
    pub(super) settled: u32,
    pub(super) steps: u64,
    /// The distinct states of the settled episodes; kept only where the plan's stop is about states.
    pub(super) states: HashSet<StateId>,
    /// What the settled episodes tried; kept only for the policy that looks at it.
    pub(super) tried: HashMap<BenchmarkUri, Tried>,
    /// All settled episodes from this one on failed before their first step.
    pub(super) barren_from: u32,
    /// How the compiler failed over programs before the first step.
    pub(super) failures: HashMap<BenchmarkUri, Failure>,
    /// The last step that was read of each settled episode, and its state: episodes that were played at
    /// the same time lie interleaved in the hot log.
    pub(super) read: HashMap<u32, (u32, Option<StateId>)>,
}

impl Past {
    /// Takes back what the open episodes of `run` left in the lake, and reads what the settled ones did.
    /// A [`Recording`](crate::record::Recording) of the run begins after this, since it reads what the
    /// lake knows.
    ///
    /// # Errors
    ///
    /// What the store says about files that cannot be read, or written.
    pub fn take_up(writer: &mut Writer, run: RunId, plan: &Plan) -> Result<Self, StoreError> {
        writer.discard_open(run)?;
        let actions = &writer.identity().action_space.actions;
        let actions = u16::try_from(actions.len()).unwrap_or(u16::MAX);
        let snapshot = writer.lake().snapshot()?;
        let mut past = Self::default();
        let columns = ["episode_id", "steps", "outcome", "detail"];
        for batch in snapshot.scan(Table::Episodes, ScanColumns::Named(&columns)) {
            past.read_episodes(&batch?, run, plan);
        }
        let columns = ["episode_id", "step_index", "state_id", "action"];
        for batch in snapshot.scan(Table::Steps, ScanColumns::Named(&columns)) {
            past.read_steps(&batch?, run, plan, actions);
        }
        past.read = HashMap::new();
        Ok(past)
    }

    /// Takes the episodes of a batch into account.
    fn read_episodes(&mut self, batch: &RecordBatch, run: RunId, plan: &Plan) {
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
            match outcomes.value(row).parse() {
                Ok(EpisodeOutcome::Failed(kind)) if steps.value(row) == 0 => {
                    let uri = plan.benchmark(id.ordinal()).clone();
                    let detail = details.value(row).to_owned();
                    self.failures.entry(uri).or_insert(Failure { kind, detail });
                }
                _ => self.barren_from = self.barren_from.max(id.ordinal() + 1),
            }
        }
    }

    /// Takes the steps of a batch into account. The rows of an episode come in order, with rows of others
    /// between them.
    fn read_steps(&mut self, batch: &RecordBatch, run: RunId, plan: &Plan, actions: u16) {
        let episodes = column(batch, "episode_id").as_primitive::<Int64Type>();
        let indices = column(batch, "step_index").as_primitive::<Int32Type>();
        let states = column(batch, "state_id").as_fixed_size_binary();
        let chosen = column(batch, "action").as_primitive::<Int16Type>();
        for row in 0..batch.num_rows() {
            let id = EpisodeId(episodes.value(row));
            if id.run() != run {
                continue;
            }
            let ordinal = id.ordinal();
            let index = u32::try_from(indices.value(row)).unwrap_or(0);
            let state = states.is_valid(row).then(|| StateId::from_slice(states.value(row)));
            if matches!(plan.stop, Stop::States(_)) {
                self.states.extend(state);
            }
            if plan.policy == Policy::Explore {
                let before = self.read.insert(ordinal, (index, state));
                let from = before.filter(|&(last, _)| last + 1 == index).and_then(|(_, from)| from);
                if let (Some(from), Ok(action)) = (from, u16::try_from(chosen.value(row))) {
                    let uri = plan.benchmark(ordinal).clone();
                    let tried = self.tried.entry(uri).or_default();
                    tried.note(from, ActionIndex(action), actions);
                }
            }
        }
    }
}

/// A column that was asked for by this name.
fn column<'a>(batch: &'a RecordBatch, name: &str) -> &'a dyn Array {
    batch.column_by_name(name).expect("a scan has the columns that were asked for").as_ref()
}
