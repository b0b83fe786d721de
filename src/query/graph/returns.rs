//! `returns('REWARD SPACE' [, steps [, gamma]])`: what each step brought, with the steps after it.

use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, SchemaRef};
use datafusion::common::Result;

use super::arguments::Arguments;
use super::columns::{integers, numbers, schema};
use super::function::{BATCH_ROWS, Question, Rows};
use super::source::{GraphSource, failed};
use crate::lake::{LakeError, ScanColumns, Table};
use crate::query::views::reward_column_name;

/// Steps that are added up at most, where not all are.
const STEPS_MAX: u32 = 1000;

/// For each step with an action its reward and its return: its own reward, and those of the steps
/// after it in the episode, each discounted once more than the one before; of so many steps
/// together, or to the end of the episode. A missing reward counts as 0. It reads steps, not the
/// graph: hot ones and those of open episodes too.
#[derive(Debug)]
struct Returns {
    space: String,
    steps: Option<u32>,
    gamma: f64,
}

pub(super) fn question(arguments: &Arguments<'_>) -> Result<Arc<dyn Question>> {
    let steps = arguments.count(1)?;
    if steps.is_some_and(|steps| !(1..=STEPS_MAX).contains(&steps)) {
        let problem =
            format!("returns are of 1 to {STEPS_MAX} steps; NULL goes to the end of the episode");
        return Err(arguments.wrong(problem));
    }
    Ok(Arc::new(Returns { space: arguments.reward(0)?, steps, gamma: arguments.gamma(2)? }))
}

/// A step with an action.
#[derive(Debug, Clone, Copy)]
struct Taken {
    episode: i64,
    index: i32,
    /// NaN where there is none.
    reward: f64,
    total: f64,
}

/// Steps in order, those of the last episode perhaps not yet complete.
struct Gathered<'a> {
    question: &'a Returns,
    rows: &'a Rows<'a>,
    steps: Vec<Taken>,
    /// Where the last episode begins.
    last: usize,
}

impl Gathered<'_> {
    fn push(&mut self, step: Taken) -> Result<()> {
        if self.steps.last().is_some_and(|before| before.episode != step.episode) {
            if self.steps.len() >= BATCH_ROWS {
                self.send()?;
            }
            self.question.add_up(&mut self.steps[self.last..]);
            self.last = self.steps.len();
        }
        self.steps.push(step);
        Ok(())
    }

    /// Sends all, the last episode being complete.
    fn send(&mut self) -> Result<()> {
        self.question.add_up(&mut self.steps[self.last..]);
        self.rows.send_all(&self.steps, |some, column| {
            Ok(match column {
                "episode_id" => integers(some.iter().map(|step| Some(step.episode))),
                "step_index" => Arc::new(
                    some.iter().map(|step| Some(step.index)).collect::<arrow::array::Int32Array>(),
                ),
                "reward" => numbers(some.iter().map(|step| step.reward)),
                _ => numbers(some.iter().map(|step| step.total)),
            })
        })?;
        self.steps.clear();
        self.last = 0;
        Ok(())
    }

    fn read(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows.asker().waits()?;
        steps(batch).into_iter().try_for_each(|step| self.push(step))
    }
}

/// The steps with an action of a batch: its columns are the episode, the index, the action and the
/// reward.
fn steps(batch: &RecordBatch) -> Vec<Taken> {
    let episodes = batch.column(0).as_primitive::<Int64Type>().values();
    let indices = batch.column(1).as_primitive::<Int32Type>().values();
    let (actions, rewards) = (batch.column(2), batch.column(3).as_primitive::<Float64Type>());
    let step = |row: usize| {
        let reward = if rewards.is_valid(row) { rewards.value(row) } else { f64::NAN };
        Taken { episode: episodes[row], index: indices[row], reward, total: 0.0 }
    };
    (0..batch.num_rows()).filter(|&row| actions.is_valid(row)).map(step).collect()
}

impl Returns {
    /// Puts the returns into the steps of one episode.
    fn add_up(&self, episode: &mut [Taken]) {
        let reward = |step: &Taken| if step.reward.is_nan() { 0.0 } else { step.reward };
        let Some(steps) = self.steps else {
            let mut total = 0.0;
            for step in episode.iter_mut().rev() {
                total = reward(step) + self.gamma * total;
                step.total = total;
            }
            return;
        };
        for at in 0..episode.len() {
            let following = &episode[at..episode.len().min(at + steps as usize)];
            let total =
                following.iter().rev().fold(0.0, |sum, step| reward(step) + self.gamma * sum);
            episode[at].total = total;
        }
    }
}

impl Question for Returns {
    fn schema(&self) -> SchemaRef {
        schema([
            ("episode_id", DataType::Int64, false),
            ("step_index", DataType::Int32, false),
            ("reward", DataType::Float64, true),
            ("return", DataType::Float64, false),
        ])
    }

    fn reads_graph(&self) -> bool {
        false
    }

    fn answer(&self, source: &GraphSource, rows: &Rows<'_>) -> Result<()> {
        let snapshot = &source.snapshot;
        let broken = |error: LakeError| failed(error.into());
        let column = reward_column_name(&self.space);
        let names = ["episode_id", "step_index", "action", &column];
        let mut gathered = Gathered { question: self, rows, steps: Vec::new(), last: 0 };
        // A segment has its episodes whole, and one after another.
        for segment in snapshot.segments(Table::Steps) {
            for batch in snapshot.scan_segment(segment, ScanColumns::Named(&names)) {
                gathered.read(&batch.map_err(broken)?)?;
            }
        }
        let project = |batch: &RecordBatch| {
            let places = names.iter().map(|name| batch.schema().index_of(name));
            Ok(steps(&batch.project(&places.collect::<Result<Vec<_>, _>>()?)?))
        };
        let hot = snapshot.hot(Table::Steps).iter().map(project).collect::<Result<Vec<_>>>()?;
        let mut hot = hot.concat();
        hot.sort_unstable_by_key(|step| (step.episode, step.index));
        hot.into_iter().try_for_each(|step| gathered.push(step))?;
        gathered.send()
    }
}
