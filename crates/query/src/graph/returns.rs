//! `returns('REWARD SPACE' [, steps [, gamma]])`: the discounted rewards of each step and of the
//! steps after it.

use std::iter;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use datafusion::common::Result;

use super::arguments::CallArguments;
use super::columns::{integers, numbers};
use super::question::{AnswerRequest, BATCH_ROWS, GraphQuestion, RequiredData, make_room};
use crate::errors::error::stored;
use crate::sources::views::reward_column_name;
use steplake_lake::{LakeError, Segment, Snapshot, Table};

/// The most steps of a limited sum.
const STEPS_MAX: u32 = 1000;

/// For each step with an action, its reward and its return. The return is the sum of its reward and
/// those of the later steps of the episode, each discounted once more than the one before, over a
/// number of steps or to the end of the episode. A missing reward counts as 0. This reads steps,
/// including hot steps and those of open episodes, and not the graph.
pub(super) fn question(arguments: &CallArguments<'_>) -> Result<GraphQuestion> {
    let steps = arguments.count(1)?;
    if steps.is_some_and(|steps| !(1..=STEPS_MAX).contains(&steps)) {
        let problem =
            format!("returns are of 1 to {STEPS_MAX} steps; NULL goes to the end of the episode");
        return Err(arguments.wrong(problem));
    }
    let (reward, gamma) = (reward_column_name(&arguments.reward(0)?), arguments.gamma(2)?);
    let columns = [
        ("episode_id", DataType::Int64, false),
        ("step_index", DataType::Int32, false),
        ("reward", DataType::Float64, true),
        ("return", DataType::Float64, false),
    ];
    Ok(GraphQuestion::new(columns, RequiredData::default(), move |given, asked| {
        let (snapshot, asked) = (given.snapshot, Arc::clone(asked));
        let names = ["episode_id", "step_index", "action", &reward].map(str::to_owned);
        let sealed = sealed(&snapshot, names.clone());
        let last = Arc::clone(&asked);
        let hot = iter::once_with(move || hot(&snapshot, &names, &last));
        let source: StepBatches = Box::new(sealed.chain(hot));
        let rows = Vec::new();
        let mut returned = Returned { steps, gamma, asked, source, rows, sent: 0, complete: 0 };
        Ok(Box::new(iter::from_fn(move || returned.next().transpose())))
    }))
}

/// A step with an action.
#[derive(Debug, Clone, Copy)]
struct RewardedStep {
    episode: i64,
    index: i32,
    /// NaN if there is none.
    reward: f64,
    total: f64,
}

/// The steps with an action of a batch, whose last column is the reward.
fn steps(batch: &RecordBatch) -> impl Iterator<Item = RewardedStep> {
    let episodes = batch["episode_id"].as_primitive::<Int64Type>().values();
    let indexes = batch["step_index"].as_primitive::<Int32Type>().values();
    let (actions, rewards) = (&batch["action"], batch.column(3).as_primitive::<Float64Type>());
    let taken = (0..batch.num_rows()).filter(|&row| actions.is_valid(row));
    taken.map(move |row| {
        let reward = if rewards.is_valid(row) { rewards.value(row) } else { f64::NAN };
        RewardedStep { episode: episodes[row], index: indexes[row], reward, total: 0.0 }
    })
}

/// Batches of steps; the steps of an episode are consecutive.
type StepBatches = Box<dyn Iterator<Item = Result<Vec<RewardedStep>>> + Send>;

/// Steps with their returns, an episode at a time.
struct Returned {
    steps: Option<u32>,
    gamma: f64,
    asked: Arc<AnswerRequest>,
    source: StepBatches,
    /// Steps in order, those of the last episode perhaps not yet complete.
    rows: Vec<RewardedStep>,
    /// The number of rows that are in batches.
    sent: usize,
    /// The number of rows that have their returns.
    complete: usize,
}

impl Returned {
    /// The next batch.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.complete - self.sent < BATCH_ROWS {
            self.asked.token.check()?;
            self.rows.drain(..self.sent);
            (self.complete, self.sent) = (self.complete - self.sent, 0);
            let Some(more) = self.source.next() else {
                self.end_episode();
                break;
            };
            let more = more?;
            make_room(&mut self.rows, more.len(), &self.asked.memory)?;
            for step in more {
                if self.rows.last().is_some_and(|before| before.episode != step.episode) {
                    self.end_episode();
                }
                self.rows.push(step);
            }
        }
        let end = self.complete.min(self.sent + BATCH_ROWS);
        let some = &self.rows[self.sent..end];
        self.sent = end;
        if some.is_empty() {
            return Ok(None);
        }
        let batch = self.asked.batch(some.len(), |column| {
            Ok(match column {
                "episode_id" => integers(some.iter().map(|step| Some(step.episode))),
                "step_index" => {
                    Arc::new(some.iter().map(|step| Some(step.index)).collect::<Int32Array>())
                }
                "reward" => numbers(some.iter().map(|step| step.reward)),
                _ => numbers(some.iter().map(|step| step.total)),
            })
        });
        batch.map(Some)
    }

    /// Computes the returns of the last episode, which is complete.
    fn end_episode(&mut self) {
        let episode = &mut self.rows[self.complete..];
        let reward = |step: &RewardedStep| if step.reward.is_nan() { 0.0 } else { step.reward };
        if let Some(steps) = self.steps {
            for at in 0..episode.len() {
                let following = &episode[at..episode.len().min(at + steps as usize)];
                let rewards = following.iter().rev();
                episode[at].total = rewards.fold(0.0, |sum, step| reward(step) + self.gamma * sum);
            }
        } else {
            let mut total = 0.0;
            for step in episode.iter_mut().rev() {
                total = reward(step) + self.gamma * total;
                step.total = total;
            }
        }
        self.complete = self.rows.len();
    }
}

/// The sealed steps. A segment has whole episodes, one after another.
fn sealed(snapshot: &Arc<Snapshot>, names: [String; 4]) -> StepBatches {
    let open = {
        let snapshot = Arc::clone(snapshot);
        move |segment: &Segment| {
            let names = names.each_ref().map(String::as_str);
            let parts = Snapshot::parts(segment, u64::MAX)?;
            let scans = parts.iter().map(|part| snapshot.scan_part(part, &names));
            scans.collect::<Result<Vec<_>, LakeError>>()
        }
    };
    let segments = snapshot.segments(Table::Steps).to_vec().into_iter();
    Box::new(segments.flat_map(move |segment| -> StepBatches {
        match open(&segment) {
            Ok(scans) => {
                let batches = scans.into_iter().flatten();
                Box::new(batches.map(|batch| Ok(steps(&batch.map_err(stored)?).collect())))
            }
            Err(error) => Box::new(iter::once(Err(stored(error)))),
        }
    }))
}

/// The hot steps, sorted: the hot log has them in any order.
fn hot(
    snapshot: &Snapshot,
    names: &[String; 4],
    asked: &AnswerRequest,
) -> Result<Vec<RewardedStep>> {
    let mut taken = Vec::new();
    for batch in snapshot.hot(Table::Steps) {
        asked.token.check()?;
        make_room(&mut taken, batch.num_rows(), &asked.memory)?;
        let places = names.iter().map(|name| batch.schema().index_of(name));
        let batch = batch.project(&places.collect::<Result<Vec<_>, _>>()?)?;
        taken.extend(steps(&batch));
    }
    taken.sort_unstable_by_key(|step| (step.episode, step.index));
    Ok(taken)
}
