//! Recorded rows with all that they were appended with, for whoever writes them to another lake.

use std::collections::HashSet;
use std::time::Duration;

use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};

use super::decode::{StepColumns, TextColumn, booleans, numbers, state_ids};
use super::rows::KnownBenchmark;
use super::table::Table;
use super::tables::{BenchmarkRow, EpisodeRow, StepRow};
use crate::kernel::error::LakeError;
use crate::kernel::segments::scan::ScanColumns;
use crate::kernel::snapshot::Snapshot;
use steplake_model::{BenchmarkUri, EpisodeId, EpisodeOutcome, Provenance, Rewards, StateId};

impl Snapshot {
    /// Reads the whole rows of `benchmarks`.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if a file is damaged.
    pub fn benchmark_rows(&self) -> Result<Vec<BenchmarkRow>, LakeError> {
        let mut rows = Vec::new();
        for known in self.benchmarks() {
            let known = known?;
            let KnownBenchmark { program_digest, initial_state, baselines } = known.known;
            let initial = initial_state.ok_or_else(|| self.unreadable("benchmarks", &known.uri))?;
            rows.push(BenchmarkRow {
                program_digest,
                execution: known.execution,
                baselines,
                ..BenchmarkRow::new(self.uri(&known.uri)?, initial)
            });
        }
        let columns = ["family", "licence", "origin", "compile_command"];
        let mut provenances = rows.iter_mut().map(|row| &mut row.provenance);
        for batch in self.scan(Table::Benchmarks, ScanColumns::Named(&columns)) {
            let batch = batch?;
            let columns = columns.map(|name| TextColumn::of(&batch, name));
            for (row, provenance) in (0..batch.num_rows()).zip(provenances.by_ref()) {
                let [family, licence, origin, compile_command] =
                    columns.map(|column| column.text(row).to_owned());
                *provenance = Provenance { family, licence, origin, compile_command };
            }
        }
        Ok(rows)
    }

    /// Reads the whole rows of `episodes`, sealed rows before hot ones.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if a file is damaged.
    pub fn episode_rows(&self) -> Result<Vec<EpisodeRow>, LakeError> {
        let mut rows = Vec::new();
        for batch in self.scan(Table::Episodes, ScanColumns::All) {
            let batch = batch?;
            let [ids, seeds, parents] = ["episode_id", "seed", "parent_episode_id"]
                .map(|name| numbers::<Int64Type>(&batch, name));
            let [parent_steps, steps] =
                ["parent_step_index", "steps"].map(|name| numbers::<Int32Type>(&batch, name));
            let [uris, policies, outcomes, details] =
                ["benchmark_uri", "policy", "outcome", "detail"]
                    .map(|name| TextColumn::of(&batch, name));
            for row in 0..batch.num_rows() {
                let parent = || (EpisodeId(parents.value(row)), parent_steps.value(row));
                let outcome = outcomes.text(row).parse::<EpisodeOutcome>();
                rows.push(EpisodeRow {
                    id: EpisodeId(ids.value(row)),
                    seed: seeds.value(row),
                    benchmark: self.uri(uris.text(row))?,
                    policy: policies.text(row).to_owned(),
                    parent: (parents.is_valid(row) && parent_steps.is_valid(row))
                        .then(parent)
                        .map(|(id, step)| (id, step.cast_unsigned())),
                    steps: steps.value(row).cast_unsigned(),
                    outcome: outcome.map_err(|text| self.unreadable("episodes", &text))?,
                    detail: details.get(row).map(str::to_owned),
                });
            }
        }
        Ok(rows)
    }

    /// Reads the whole rows of `steps`, some at a time, in the order of
    /// [`steps`](Snapshot::steps).
    pub fn step_rows(&self) -> impl Iterator<Item = Result<Vec<StepRow>, LakeError>> {
        let segments = self.segments(Table::Steps).iter();
        let sealed = segments.flat_map(|segment| self.scan_segment(segment, ScanColumns::All));
        let mut last: Option<BenchmarkUri> = None;
        sealed.chain(self.hot_steps(ScanColumns::All).map(Ok)).map(move |batch| {
            let batch: RecordBatch = batch?;
            let (steps, uris) = (StepColumns::of(&batch), TextColumn::of(&batch, "benchmark_uri"));
            let (actions, states, rewards) = (steps.actions(), steps.states(), steps.rewards());
            let (keyframes, ends) = (steps.keyframes(), booleans(&batch, "end_of_episode"));
            let rewards_of =
                |row| rewards.iter().map(|column| column.get(row)).collect::<Rewards>();
            let wall_times = steps.wall_times();
            let mut rows = Vec::with_capacity(batch.num_rows());
            for (row, &wall_time) in wall_times.iter().enumerate() {
                let text = uris.text(row);
                // Most steps are of the program of the step before.
                let known = last.take().filter(|known| known.as_str() == text);
                let benchmark = known.map_or_else(|| self.uri(text), Ok)?;
                last = Some(benchmark.clone());
                let (action, state) = (actions.get(row), states.get(row));
                rows.push(StepRow {
                    episode: EpisodeId(steps.episodes[row]),
                    index: steps.indexes[row].cast_unsigned(),
                    benchmark,
                    action,
                    state,
                    keyframe: keyframes.value(row),
                    end_of_episode: ends.value(row),
                    rewards: action.and(state).map(|_| rewards_of(row)),
                    wall_time: Duration::from_micros(wall_time.cast_unsigned()),
                });
            }
            Ok(rows)
        })
    }

    /// Reads which states have a row in `observations` or `ir`.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if a file is damaged.
    pub fn states_in(&self, table: Table) -> Result<HashSet<StateId>, LakeError> {
        let mut states = HashSet::new();
        for batch in self.scan(table, ScanColumns::Named(&["state_id"])) {
            states.extend(state_ids(&batch?, "state_id").flatten());
        }
        Ok(states)
    }

    fn uri(&self, text: &str) -> Result<BenchmarkUri, LakeError> {
        text.parse().map_err(|_no_name| self.unreadable("benchmarks", text))
    }

    /// The error for a text of another version, or of a damaged row.
    fn unreadable(&self, table: &str, text: &str) -> LakeError {
        LakeError::corrupt(self.path(), format!("`{table}` has a row with `{text}`"))
    }
}
