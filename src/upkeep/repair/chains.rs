//! Which episodes are whole.

use std::collections::{HashMap, HashSet};

use arrow::array::RecordBatch;

use crate::lake::decode::{EpisodeColumns, StepColumns};
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
        for row in EpisodeColumns::of(batch).rows() {
            let failed = matches!(row.outcome(), Some(EpisodeOutcome::Failed(_)));
            self.0.entry(row.id.0).or_default().row = Some(Row { steps: row.steps, failed });
        }
    }

    /// Takes rows of `steps`, in the order of their episodes.
    pub(super) fn steps(&mut self, batch: &RecordBatch, are_sealed: bool) {
        let steps = StepColumns::of(batch);
        for (&episode, &index) in steps.episodes.iter().zip(steps.indexes) {
            let chain = self.0.entry(episode).or_default();
            chain.has_gap |= index != chain.steps;
            chain.is_sealed |= are_sealed;
            chain.steps += 1;
        }
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
