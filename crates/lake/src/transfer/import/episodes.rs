//! Programs, episodes and steps from the rows of a log.

use std::collections::{HashMap, HashSet};

use super::database::{Database, LogRow, ReadRow, benchmark_of};
use super::error::ImportError;
use super::known::{KnownRows, RowName, StepPosition};
use super::skipped::{Reason, Skipped};
use super::trie::{Path, TrieNode, TriePosition};
use crate::kernel::segments::segment_series::SegmentSeries;
use crate::kernel::{
    BenchmarkRow, EpisodeRow, KnownBenchmark, Lake, LakeError, Rows, Segment, StepRow, Table,
};
use steplake_model::{
    ActionIndex, Baselines, BenchmarkUri, EpisodeId, EpisodeOutcome, FailureKind, RunId, StateId,
};

/// The reward space that a log has.
const REWARD: &str = "IrInstructionCountOz";
/// The baseline that follows from a log: the cost of a program's first state.
const BASELINE: &str = "IrInstructionCountO0";
/// What is known of a failure.
const FAILURE: &str = "CompilerGym's compiler service failed or did not answer; its log says no \
                       more";
/// Steps that are collected before they are written.
const STEPS_AT_ONCE: usize = 65_536;

/// Makes episodes of the rows of one log. Each row with actions that the lake does not have becomes
/// one step.
pub(super) struct EpisodeImport<'a> {
    database: &'a Database,
    lake: &'a Lake,
    run: RunId,
    known: &'a mut KnownRows,
    benchmarks: &'a mut HashMap<String, KnownBenchmark>,
    /// States with observations.
    observed: &'a HashSet<StateId>,
    path: Option<Path>,
    open: Option<EpisodeRow>,
    rows: Rows,
    series: [(Table, SegmentSeries); 3],
    pub(super) made: ImportCounts,
    pub(super) skipped: Skipped,
}

/// What was made of a log.
#[derive(Debug, Default)]
pub(super) struct ImportCounts {
    pub(super) benchmarks: u64,
    pub(super) episodes: u32,
    pub(super) forks: u64,
    pub(super) steps: u64,
    pub(super) failures: u64,
    /// Rows that the lake had.
    pub(super) rows_known: u64,
    /// States without observations.
    pub(super) unobserved: HashSet<StateId>,
}

impl<'a> EpisodeImport<'a> {
    pub(super) fn new(
        database: &'a Database,
        lake: &'a Lake,
        run: RunId,
        known: &'a mut KnownRows,
        benchmarks: &'a mut HashMap<String, KnownBenchmark>,
        observed: &'a HashSet<StateId>,
    ) -> Self {
        let tables = [Table::Benchmarks, Table::Episodes, Table::Steps];
        Self {
            database,
            lake,
            run,
            known,
            benchmarks,
            observed,
            path: None,
            open: None,
            rows: Rows::default(),
            series: tables.map(|table| (table, SegmentSeries::new(lake, table))),
            made: ImportCounts::default(),
            skipped: Skipped::default(),
        }
    }

    /// Takes the next row of the log, in its order.
    pub(super) fn add(&mut self, row: ReadRow<'_>) -> Result<(), ImportError> {
        let row = match row {
            Ok(row) => row,
            Err((reason, example)) => {
                self.skipped.add(reason, || example);
                return Ok(());
            }
        };
        match self.take(&row)? {
            Ok(()) => {}
            Err(reason) => self.skip(reason, &row),
        }
        Ok(())
    }

    fn skip(&mut self, reason: Reason, row: &LogRow<'_>) {
        let (benchmark, actions) = (row.benchmark, row.actions);
        self.skipped.add(reason, || format!("{benchmark}, actions `{actions}`"));
    }

    fn take(&mut self, row: &LogRow<'_>) -> Result<Result<(), Reason>, ImportError> {
        let is_same = |path: &Path| path.benchmark.as_str() == row.benchmark;
        let mut path = match self.path.take().filter(is_same) {
            Some(path) => path,
            None => match benchmark_of(row.benchmark) {
                Some(benchmark) => Path::new(benchmark),
                None => return Ok(Err(Reason::Benchmark)),
            },
        };
        let actions = u32::try_from(self.lake.identity().action_space.actions.len());
        let position = path.go_to(row, actions.unwrap_or(u32::MAX));
        let node = match position {
            Ok(TriePosition::First) => self.first(&path.benchmark, row),
            Ok(TriePosition::After(action)) => self.next(&path.benchmark, path.end(), action, row),
            Err(reason) => {
                self.path = Some(path);
                return Ok(Err(reason));
            }
        };
        path.push(node?);
        self.path = Some(path);
        Ok(Ok(()))
    }

    /// Takes the row of a program's first state.
    fn first(&mut self, uri: &BenchmarkUri, row: &LogRow<'_>) -> Result<TrieNode, ImportError> {
        let state = row.state.expect("a first row without a state is skipped");
        self.add_benchmark(uri, state)?;
        let name = RowName::first(uri.as_str(), Some(state));
        let place = if let Some(place) = self.known.get(name) {
            self.made.rows_known += 1;
            place
        } else {
            let place = (self.begin(uri, state, None)?, 0);
            self.known.add(name, place);
            place
        };
        let done = false;
        let node = TrieNode {
            action: ActionIndex(0),
            state: Some(state),
            total: self.total(row),
            done,
            name,
            place,
        };
        Ok(node)
    }

    /// Takes a row that continues another.
    fn next(
        &mut self,
        uri: &BenchmarkUri,
        before: &TrieNode,
        action: ActionIndex,
        row: &LogRow<'_>,
    ) -> Result<TrieNode, ImportError> {
        let name = before.name.next(action, row.state);
        // At a failure, the logger writes what its wrapper makes of it.
        let total = if row.state.is_some() { self.total(row) } else { f64::NAN };
        let node =
            |place| TrieNode { action, state: row.state, total, done: row.done, name, place };
        if let Some(place) = self.known.get(name) {
            self.made.rows_known += 1;
            return Ok(node(place));
        }
        let open = self.open.as_ref().map(|open| (open.id, open.steps));
        let (episode, index) = if open == Some(before.place) && !before.done {
            before.place
        } else {
            let state = before.state.expect("a row after a failure is skipped");
            // Sequences without a common action are episodes of their own.
            let parent = Some(before.place).filter(|&(_, index)| index > 0);
            (self.begin(uri, state, parent)?, 0)
        };
        self.add_step((episode, index + 1), uri, before, &node(before.place));
        let place = (episode, index + 1);
        self.known.add(name, place);
        Ok(node(place))
    }

    fn total(&mut self, row: &LogRow<'_>) -> f64 {
        if row.total.is_nan() {
            self.skip(Reason::Reward, row);
        }
        row.total
    }

    fn add_benchmark(&mut self, uri: &BenchmarkUri, state: StateId) -> Result<(), ImportError> {
        if let Some(known) = self.benchmarks.get(uri.as_str()) {
            return match known.initial_state {
                Some(here) if here != state => Err(ImportError::OtherProgram {
                    path: self.database.path().to_owned(),
                    benchmark: uri.to_string(),
                    here,
                    there: state,
                }),
                _ => Ok(()),
            };
        }
        let names = &self.lake.identity().baselines;
        let has_baseline = names.iter().any(|name| name == BASELINE);
        let count = if has_baseline { self.database.count_of(state)? } else { None };
        let baselines = count.map(|count| (BASELINE.to_owned(), count)).into_iter().collect();
        let row = BenchmarkRow {
            baselines: Baselines(baselines),
            ..BenchmarkRow::new(uri.clone(), state)
        };
        let known = KnownBenchmark {
            program_digest: String::new(),
            initial_state: Some(state),
            baselines: row.baselines.clone(),
        };
        self.benchmarks.insert(uri.to_string(), known);
        self.rows.benchmarks.push(row);
        self.made.benchmarks += 1;
        Ok(())
    }

    /// Begins an episode in a state: that of a program, or that of a place in another episode.
    fn begin(
        &mut self,
        uri: &BenchmarkUri,
        state: StateId,
        parent: Option<StepPosition>,
    ) -> Result<EpisodeId, ImportError> {
        self.close()?;
        let id = EpisodeId::new(self.run, self.made.episodes);
        self.made.episodes += 1;
        self.made.forks += u64::from(parent.is_some());
        self.open = Some(EpisodeRow { parent, ..EpisodeRow::new(id, uri.clone()) });
        self.rows.steps.push(StepRow { state: Some(state), ..StepRow::new(id, 0, uri.clone()) });
        self.need(state);
        Ok(id)
    }

    fn add_step(
        &mut self,
        place: StepPosition,
        uri: &BenchmarkUri,
        before: &TrieNode,
        node: &TrieNode,
    ) {
        let (episode, index) = place;
        let open = self.open.as_mut().expect("an episode was begun");
        open.steps = index;
        if node.state.is_none() {
            open.outcome = EpisodeOutcome::Failed(FailureKind::Crash);
            open.detail = Some(FAILURE.to_owned());
            self.made.failures += 1;
        } else if node.done {
            open.outcome = EpisodeOutcome::Ended;
        }
        let reward = |name: &str| match name {
            REWARD => node.total - before.total,
            _ => f64::NAN,
        };
        let spaces = &self.lake.identity().rewards;
        self.rows.steps.push(StepRow {
            action: Some(node.action),
            state: node.state,
            end_of_episode: node.done || node.state.is_none(),
            rewards: node.state.map(|_| spaces.iter().map(|space| reward(&space.name)).collect()),
            ..StepRow::new(episode, index, uri.clone())
        });
        self.made.steps += 1;
        if let Some(state) = node.state {
            self.need(state);
        }
    }

    fn need(&mut self, state: StateId) {
        if !self.observed.contains(&state) {
            self.made.unobserved.insert(state);
        }
    }

    /// Closes the open episode.
    fn close(&mut self) -> Result<(), LakeError> {
        let Some(row) = self.open.take() else { return Ok(()) };
        self.rows.episodes.push(row);
        if self.rows.steps.len() >= STEPS_AT_ONCE { self.write() } else { Ok(()) }
    }

    /// Writes the rows of closed episodes.
    fn write(&mut self) -> Result<(), LakeError> {
        let rows = std::mem::take(&mut self.rows);
        for (table, batch) in self.lake.schemas.encode(&rows) {
            let series = self.series.iter_mut().find(|(of, _)| *of == table);
            series.expect("there are rows of three tables").1.write(&batch)?;
        }
        self.series.iter_mut().try_for_each(|(_, series)| series.boundary())
    }

    /// Ends the log. Returns the segments, which are durable, what was made, and what was skipped.
    pub(super) fn finish(mut self) -> Result<(Vec<Segment>, ImportCounts, Skipped), LakeError> {
        self.close()?;
        self.write()?;
        let mut segments = Vec::new();
        for (_, series) in self.series {
            segments.extend(series.finish()?);
        }
        Ok((segments, self.made, self.skipped))
    }
}
