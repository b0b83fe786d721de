//! Which episodes are whole.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use arrow::array::RecordBatch;

use crate::kernel::schema::decode::{EpisodeEnd, StepColumns};
use steplake_model::EpisodeOutcome;

/// What there is of each episode: one entry in memory each.
#[derive(Debug, Default)]
pub(super) struct Chains(HashMap<i64, EpisodeChain>);

#[derive(Debug, Default)]
struct EpisodeChain {
    /// How many rows of `steps` the row of the episode demands; `None` without that row.
    demanded: Option<RangeInclusive<i32>>,
    /// How many were seen.
    steps: i32,
    is_sealed: bool,
    /// Whether a step does not follow the one before.
    has_gap: bool,
}

impl Chains {
    /// Takes rows of `episodes`.
    pub(super) fn rows(&mut self, batch: &RecordBatch) {
        for row in EpisodeEnd::rows(batch) {
            let failed = matches!(row.outcome(), Some(EpisodeOutcome::Failed(_)));
            // An episode that failed at its start may have a state there.
            let least = if failed && row.steps == 0 { 0 } else { row.steps + 1 };
            let demanded = least..=row.steps + 1;
            self.0.entry(row.id.0).or_default().demanded = Some(demanded);
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

    /// Returns the episodes that lack something. An open episode is hot and lacks only its row.
    pub(super) fn broken(&self) -> HashSet<i64> {
        let is_whole = |chain: &EpisodeChain| {
            let has_its_rows = |rows: &RangeInclusive<i32>| rows.contains(&chain.steps);
            !chain.has_gap && chain.demanded.as_ref().map_or(!chain.is_sealed, has_its_rows)
        };
        self.0.iter().filter(|(_, chain)| !is_whole(chain)).map(|(&id, _)| id).collect()
    }
}
