//! Runs, retractions and losses of all lakes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use super::error::MergeError;
use super::source::SourceLake;
use crate::kernel::versions::sqlite;
use crate::kernel::{LakeError, LossRow, RetractionKind, RetractionRow, RunRow, SnapshotId};
use steplake_model::RunId;

/// The runs of all lakes, each once, with new numbers.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// In the order of their new numbers.
    pub(super) rows: Vec<RunRow>,
    /// For each lake, its folder, and the new number of each run by its old one.
    numbers: Vec<(PathBuf, HashMap<RunId, RunId>)>,
    /// All retractions, with new numbers.
    pub(super) retractions: Vec<RetractionRow>,
    /// What repairs of the lakes dropped.
    pub(super) losses: Vec<LossRow>,
    /// Runs that were retracted completely.
    retracted: HashSet<RunId>,
    /// The runs from which each benchmark was retracted.
    retracted_benchmarks: HashMap<String, HashSet<RunId>>,
}

impl Runs {
    /// Combines the runs of the lakes. A run is identified by its uid, and numbered by its start
    /// time and then by its uid. With `keeps_numbers`, the runs of the first lake keep theirs, and
    /// the others come after these.
    pub(super) fn of(sources: &[SourceLake], keeps_numbers: bool) -> Result<Self, MergeError> {
        let mut by_uid: BTreeMap<&str, (RunRow, usize)> = BTreeMap::new();
        for (place, source) in sources.iter().enumerate() {
            for row in source.snapshot.runs() {
                let (known, first) = by_uid.entry(&row.uid).or_insert_with(|| (row.clone(), place));
                let identity = |row: &RunRow| (row.arguments.clone(), row.started_at_ms);
                if identity(known) != identity(row) {
                    let what = format!("the arguments or the start of run {} differ", row.uid);
                    let advice = "one of the two lakes was tampered with";
                    return Err(MergeError::differs(what, &sources[*first], source, advice));
                }
                known.finished |= row.finished;
                known.repeated_windows = known.repeated_windows.max(row.repeated_windows);
                known.audited_steps = known.audited_steps.max(row.audited_steps);
                known.differing_steps = known.differing_steps.max(row.differing_steps);
            }
        }
        let mut rows = by_uid.into_values().map(|(row, _)| row).collect::<Vec<_>>();
        let kept = sources.first().filter(|_| keeps_numbers);
        let kept = kept.map_or(&[][..], |first| first.snapshot.runs()).iter();
        let kept = kept.map(|row| (row.uid.clone(), row.id)).collect::<HashMap<_, _>>();
        rows.sort_by(|a, b| (a.started_at_ms, &a.uid).cmp(&(b.started_at_ms, &b.uid)));
        let mut next = kept.values().map(|id| id.0).max().unwrap_or(0);
        for row in &mut rows {
            row.id = kept.get(&row.uid).copied().unwrap_or_else(|| {
                next += 1;
                RunId(next)
            });
        }
        rows.sort_by_key(|row| row.id);
        let by_uid = rows.iter().map(|row| (&row.uid, row.id)).collect::<HashMap<_, _>>();
        let numbers = sources.iter().map(|source| {
            let runs = source.snapshot.runs().iter();
            (source.path(), runs.map(|row| (row.id, by_uid[&row.uid])).collect())
        });
        let mut runs = Self { numbers: numbers.collect(), ..Self::default() };
        runs.rows = rows;
        runs.add_lists(sources)?;
        Ok(runs)
    }

    /// Adds each retraction and loss once, in an order that does not depend on that of the lakes.
    fn add_lists(&mut self, sources: &[SourceLake]) -> Result<(), LakeError> {
        let (id, snapshot) = (0, SnapshotId(0));
        for (place, source) in sources.iter().enumerate() {
            for row in source.snapshot.retractions() {
                let runs = row.runs.iter().map(|&run| self.number(place, run));
                let runs = runs.collect::<Result<BTreeSet<_>, _>>()?.into_iter().collect();
                let mut row = RetractionRow { id, snapshot, runs, ..row.clone() };
                if let (RetractionKind::Run, [run]) = (row.kind, row.runs.as_slice()) {
                    row.value = run.0.to_string();
                }
                self.retractions.push(row);
            }
            let losses = source.snapshot.losses().iter();
            self.losses.extend(losses.map(|row| LossRow { snapshot, ..row.clone() }));
        }
        self.retractions.sort();
        self.retractions.dedup();
        self.losses.sort();
        self.losses.dedup();
        for row in &self.retractions {
            match row.kind {
                RetractionKind::Run => self.retracted.extend(&row.runs),
                RetractionKind::Benchmark => {
                    let runs = self.retracted_benchmarks.entry(row.value.clone()).or_default();
                    runs.extend(&row.runs);
                }
                RetractionKind::Action => {}
            }
        }
        Ok(())
    }

    /// Returns the new number of a run of the lake at this place.
    pub(super) fn number(&self, place: usize, run: RunId) -> Result<RunId, LakeError> {
        let (lake, numbers) = &self.numbers[place];
        numbers.get(&run).copied().ok_or_else(|| {
            let what = format!("it does not list run {}", run.0);
            LakeError::corrupt(&lake.join(sqlite::FILE_NAME), what)
        })
    }

    /// Returns whether one of the lakes retracted the episodes of a benchmark in this run, given by
    /// its new number. They are then taken from no lake.
    pub(super) fn is_retracted(&self, run: RunId, benchmark: &str) -> bool {
        let runs = self.retracted_benchmarks.get(benchmark);
        self.retracted.contains(&run) || runs.is_some_and(|runs| runs.contains(&run))
    }

    /// Returns whether one of the lakes retracted a benchmark.
    pub(super) fn was_retracted(&self, benchmark: &str) -> bool {
        self.retracted_benchmarks.contains_key(benchmark)
    }

    /// Returns the uid of a run.
    pub(super) fn uid(&self, run: RunId) -> &str {
        self.rows.iter().find(|row| row.id == run).map_or("", |row| &row.uid)
    }
}
