//! Which episodes are whole.

use std::collections::{HashMap, HashSet};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};

use crate::model::EpisodeOutcome;

/// What there is of each episode: one entry in memory each.
#[derive(Debug, Default)]
pub(super) struct Chains(HashMap<i64, Chain>);

#[derive(Debug, Default)]
struct Chain {
    row: Option<Row>,
    /// Steps that were seen, from the first one on.
    steps: i32,
    is_sealed: bool,
    /// Whether a step does not follow the one before.
    has_gap: bool,
}

/// What the row of an episode says.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Steps with an action.
    steps: i32,
    failed: bool,
}

impl Chains {
    /// Takes rows of `episodes`.
    pub(super) fn rows(&mut self, batch: &RecordBatch) {
        let ids = batch["episode_id"].as_primitive::<Int64Type>().values().iter();
        let steps = batch["steps"].as_primitive::<Int32Type>().values().iter();
        let outcomes = batch["outcome"].as_string::<i32>().iter();
        for ((&id, &steps), outcome) in ids.zip(steps).zip(outcomes) {
            let outcome = outcome.unwrap_or_default().parse();
            let failed = matches!(outcome, Ok(EpisodeOutcome::Failed(_)));
            self.0.entry(id).or_default().row = Some(Row { steps, failed });
        }
    }

    /// Takes rows of sealed `steps`, in their order.
    pub(super) fn sealed(&mut self, batch: &RecordBatch) {
        for (id, index) in places(batch) {
            self.step(id, index, true);
        }
    }

    /// Takes all hot rows of `steps`, which are in no order.
    pub(super) fn hot<'a>(&mut self, batches: impl Iterator<Item = &'a RecordBatch>) {
        let mut all = batches.flat_map(places).collect::<Vec<_>>();
        all.sort_unstable();
        for (id, index) in all {
            self.step(id, index, false);
        }
    }

    fn step(&mut self, id: i64, index: i32, is_sealed: bool) {
        let chain = self.0.entry(id).or_default();
        chain.has_gap |= index != chain.steps;
        chain.is_sealed |= is_sealed;
        chain.steps += 1;
    }

    /// The episodes that lack something. An open one lacks its row, and is hot.
    pub(super) fn broken(&self) -> HashSet<i64> {
        let is_whole = |chain: &Chain| match chain.row {
            // One that failed before its first step has a row alone.
            Some(Row { steps: 0, failed: true }) if chain.steps == 0 => true,
            Some(row) => !chain.has_gap && chain.steps == row.steps + 1,
            None => !chain.has_gap && !chain.is_sealed,
        };
        self.0.iter().filter(|(_, chain)| !is_whole(chain)).map(|(&id, _)| id).collect()
    }
}

fn places(batch: &RecordBatch) -> Vec<(i64, i32)> {
    let ids = batch["episode_id"].as_primitive::<Int64Type>();
    let indices = batch["step_index"].as_primitive::<Int32Type>();
    (0..ids.len()).map(|row| (ids.value(row), indices.value(row))).collect()
}
