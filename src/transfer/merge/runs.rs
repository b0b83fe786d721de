//! Runs, and what was retracted of them, in all the lakes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::error::MergeError;
use super::source::Source;
use crate::lake::{LakeError, LossRow, RetractionKind, RetractionRow, RunRow, SnapshotId, sqlite};
use crate::model::RunId;

/// The runs of all lakes, each once, numbered anew.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// In the order of their new numbers.
    pub(super) rows: Vec<RunRow>,
    /// For each lake, the new numbers by the old ones.
    numbers: Vec<HashMap<RunId, RunId>>,
    /// All retractions, with new numbers.
    pub(super) retractions: Vec<RetractionRow>,
    /// What repairs of the lakes had dropped.
    pub(super) losses: Vec<LossRow>,
    /// Runs that were retracted whole.
    gone: HashSet<RunId>,
    /// Benchmarks that were retracted, and in which runs.
    gone_of: HashMap<String, HashSet<RunId>>,
}

impl Runs {
    /// Brings the runs of the lakes together. A run is told by its uid; numbers go by the time at
    /// which a run was begun, and then by the uid.
    pub(super) fn of(sources: &[Source]) -> Result<Self, MergeError> {
        let mut by_uid: BTreeMap<&str, (RunRow, usize)> = BTreeMap::new();
        for (place, source) in sources.iter().enumerate() {
            for row in source.snapshot.runs() {
                let (known, first) = by_uid.entry(&row.uid).or_insert_with(|| (row.clone(), place));
                let meant = |row: &RunRow| (row.arguments.clone(), row.started_at_ms);
                if meant(known) != meant(row) {
                    return Err(MergeError::RunDiffers {
                        uid: row.uid.clone(),
                        first: sources[*first].path(),
                        second: source.path(),
                    });
                }
                known.finished |= row.finished;
                known.repeated_windows = known.repeated_windows.max(row.repeated_windows);
            }
        }
        let mut rows = by_uid.into_values().map(|(row, _)| row).collect::<Vec<_>>();
        rows.sort_by(|a, b| (a.started_at_ms, &a.uid).cmp(&(b.started_at_ms, &b.uid)));
        for (row, number) in rows.iter_mut().zip(1..) {
            row.id = RunId(number);
        }
        let by_uid = rows.iter().map(|row| (&row.uid, row.id)).collect::<HashMap<_, _>>();
        let numbers = sources.iter().map(|source| {
            source.snapshot.runs().iter().map(|row| (row.id, by_uid[&row.uid])).collect()
        });
        let mut runs = Self { numbers: numbers.collect(), ..Self::default() };
        runs.rows = rows;
        for (place, source) in sources.iter().enumerate() {
            runs.take_retractions(place, source)?;
        }
        runs.sort_out();
        Ok(runs)
    }

    fn take_retractions(&mut self, place: usize, source: &Source) -> Result<(), MergeError> {
        for row in source.snapshot.retractions() {
            let runs = row.runs.iter().map(|&run| self.number(place, source, run));
            let runs = runs.collect::<Result<BTreeSet<_>, _>>()?.into_iter().collect::<Vec<_>>();
            let value = match (row.kind, runs.as_slice()) {
                (RetractionKind::Run, [run]) => run.0.to_string(),
                _ => row.value.clone(),
            };
            let (id, snapshot) = (0, SnapshotId(0));
            self.retractions.push(RetractionRow { id, value, snapshot, runs, ..row.clone() });
        }
        let losses = source.snapshot.losses().iter();
        self.losses.extend(losses.map(|row| LossRow { snapshot: SnapshotId(0), ..row.clone() }));
        Ok(())
    }

    /// Leaves each retraction once, in an order that does not depend on that of the lakes.
    fn sort_out(&mut self) {
        self.retractions.sort();
        self.retractions.dedup();
        self.losses.sort();
        self.losses.dedup();
        for row in &self.retractions {
            match row.kind {
                RetractionKind::Run => self.gone.extend(&row.runs),
                RetractionKind::Benchmark => {
                    self.gone_of.entry(row.value.clone()).or_default().extend(&row.runs);
                }
                RetractionKind::Action => {}
            }
        }
    }

    /// The new number of a run of the lake at this place.
    pub(super) fn number(
        &self,
        place: usize,
        source: &Source,
        run: RunId,
    ) -> Result<RunId, LakeError> {
        self.numbers[place].get(&run).copied().ok_or_else(|| {
            let log = source.path().join(sqlite::FILE_NAME);
            LakeError::corrupt(&log, format!("it does not list run {}", run.0))
        })
    }

    /// Whether the episodes about a benchmark in this run, by its new number, were retracted in one
    /// of the lakes: then they come from none.
    pub(super) fn is_retracted(&self, run: RunId, benchmark: &str) -> bool {
        let of_benchmark = || self.gone_of.get(benchmark).is_some_and(|runs| runs.contains(&run));
        self.gone.contains(&run) || of_benchmark()
    }

    /// Whether a benchmark was retracted in one of the lakes.
    pub(super) fn was_retracted(&self, benchmark: &str) -> bool {
        self.gone_of.contains_key(benchmark)
    }

    /// A run's name in all the lakes.
    pub(super) fn uid(&self, run: RunId) -> &str {
        self.rows.iter().find(|row| row.id == run).map_or("", |row| &row.uid)
    }
}
