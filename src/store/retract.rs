//! Taking back what should not be in a lake.

use std::collections::BTreeSet;

use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};

use super::revision::Revision;
use super::{
    Maintenance, RetractionKind, RetractionRow, Snapshot, SnapshotId, SnapshotKind, StoreError,
    Table, Writer,
};
use crate::model::{BenchmarkUri, EpisodeId, RunId};

/// What is to be taken back with its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A program: its row, and all episodes about it.
    Benchmark(BenchmarkUri),
    /// All episodes of a run. Programs stay.
    Run(RunId),
}

/// What a retraction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retracted {
    /// The first snapshot without it.
    pub snapshot: SnapshotId,
    /// Episodes that are gone.
    pub episodes: u64,
    /// Steps that are gone.
    pub steps: u64,
    /// The runs that they were of. None of them can be gone on with.
    pub runs: Vec<RunId>,
}

impl Subject {
    fn kind(&self) -> RetractionKind {
        match self {
            Self::Benchmark(_) => RetractionKind::Benchmark,
            Self::Run(_) => RetractionKind::Run,
        }
    }

    fn value(&self) -> String {
        match self {
            Self::Benchmark(uri) => uri.as_str().to_owned(),
            Self::Run(run) => run.0.to_string(),
        }
    }

    /// The column that says whether a row is of it.
    fn column(&self) -> &'static str {
        match self {
            Self::Benchmark(_) => "benchmark_uri",
            Self::Run(_) => "episode_id",
        }
    }

    /// The tables that have rows of it.
    fn tables(&self) -> &'static [Table] {
        match self {
            Self::Benchmark(_) => &[Table::Benchmarks, Table::Episodes, Table::Steps],
            Self::Run(_) => &[Table::Episodes, Table::Steps],
        }
    }

    /// Which rows of a batch are not of it.
    fn others(&self, batch: &RecordBatch) -> BooleanArray {
        match self {
            Self::Benchmark(uri) => {
                let uris = cast(&batch["benchmark_uri"], &DataType::Utf8);
                let uris = uris.expect("a dictionary of text is text");
                let is_other = |other: Option<&str>| Some(other != Some(uri.as_str()));
                uris.as_string::<i32>().iter().map(is_other).collect()
            }
            Self::Run(run) => {
                let ids = batch["episode_id"].as_primitive::<Int64Type>().values().iter();
                ids.map(|&id| Some(EpisodeId(id).run() != *run)).collect()
            }
        }
    }

    /// The runs with rows of it, and of them those with hot ones.
    fn runs(&self, snapshot: &Snapshot) -> Result<[BTreeSet<RunId>; 2], StoreError> {
        let mut runs = [BTreeSet::new(), BTreeSet::new()];
        let mut add = |batch: &RecordBatch, place: usize| {
            let ids = batch["episode_id"].as_primitive::<Int64Type>().values().iter();
            let others = self.others(batch);
            let own = ids.enumerate().filter(|&(row, _)| !others.value(row));
            runs[place].extend(own.map(|(_, &id)| EpisodeId(id).run()));
        };
        for table in [Table::Episodes, Table::Steps] {
            for batch in snapshot.hot(table) {
                add(batch, 1);
            }
        }
        // Sealed steps have sealed episodes.
        for segment in snapshot.segments(Table::Episodes) {
            let mut columns = vec!["episode_id", self.column()];
            columns.dedup();
            let columns = super::ScanColumns::Named(&columns);
            for batch in snapshot.scan_segment(segment, columns) {
                add(&batch?, 0);
            }
        }
        let [sealed, hot] = runs;
        Ok([sealed.union(&hot).copied().collect(), hot])
    }
}

impl Maintenance {
    /// Takes a program or a run back: the segments that have rows of it are written anew without them,
    /// and one transaction puts these in their places, in a snapshot of its own, which has no derived
    /// tables: dedup makes them anew. What is closed is sealed first. Older snapshots have the rows
    /// still, until they expire and are collected.
    ///
    /// Numbers of runs and episodes are not given again. Observations and IR stay, also of states that no
    /// step has any more. The runs that lost episodes cannot be gone on with.
    ///
    /// # Errors
    ///
    /// [`StoreError::NothingToRetract`], also where it was retracted before; [`StoreError::Corrupt`] with
    /// a file that is damaged; [`StoreError::DiskFull`] and what else a disk does. Nothing is retracted
    /// then, though what was closed may be sealed, and what the affected runs left open be discarded, as
    /// it would be when they are gone on with.
    pub fn retract(
        &mut self,
        writer: &mut Writer,
        subject: &Subject,
        reason: &str,
    ) -> Result<Retracted, StoreError> {
        let [mut runs, hot] = self.find(subject)?;
        writer.seal()?;
        for run in hot {
            writer.discard_open(run)?;
        }
        if let Subject::Run(run) = subject {
            runs.insert(*run);
        }
        let lake = self.lake().clone();
        let snapshot = lake.sealed()?;
        let mut revision = Revision::new(SnapshotKind::Retract);
        let mut gone = [0; Table::ALL.len()];
        for &table in subject.tables() {
            for segment in snapshot.segments(table) {
                let keep = &mut |batch: &RecordBatch| subject.others(batch);
                gone[table as usize] +=
                    revision.rewrite(&lake, segment, &[subject.column()], keep)?;
            }
        }
        let runs = runs.into_iter().collect::<Vec<_>>();
        let row = retraction(subject.kind(), subject.value(), reason, runs.clone());
        revision.detail = detail(&row);
        revision.retraction = Some(row);
        let snapshot = self.revise(&revision)?;
        let (episodes, steps) = (gone[Table::Episodes as usize], gone[Table::Steps as usize]);
        Ok(Retracted { snapshot, episodes, steps, runs })
    }

    /// Takes the transitions of an action back, in a snapshot of its own, which has no derived tables:
    /// dedup makes them anew, without the action, and leaves it out from then on. The steps stay, since
    /// the states after them are real.
    ///
    /// # Errors
    ///
    /// [`StoreError::NothingToRetract`] where there is no such action, or where it was retracted before;
    /// what a disk does. Nothing is retracted then.
    pub fn retract_action(&mut self, name: &str, reason: &str) -> Result<SnapshotId, StoreError> {
        let lake = self.lake();
        let space = &lake.identity().action_space;
        let nothing = |what| StoreError::NothingToRetract { path: lake.path().to_owned(), what };
        if space.actions.iter().all(|action| action.name != name) {
            return Err(nothing(format!("action space {} has no action `{name}`", space.name)));
        }
        let kind = RetractionKind::Action;
        if let Some(before) = before(&lake.sealed()?, kind, name) {
            return Err(nothing(before));
        }
        let row = retraction(kind, name.to_owned(), reason, Vec::new());
        let mut revision = Revision::new(SnapshotKind::Retract);
        revision.detail = detail(&row);
        revision.retraction = Some(row);
        self.revise(&revision)
    }

    /// The runs with rows of it, and of them those with hot ones; an error where there is nothing.
    fn find(&self, subject: &Subject) -> Result<[BTreeSet<RunId>; 2], StoreError> {
        let snapshot = self.lake().snapshot()?;
        let runs = subject.runs(&snapshot)?;
        let nothing =
            |what| Err(StoreError::NothingToRetract { path: snapshot.path().to_owned(), what });
        let before = before(&snapshot, subject.kind(), &subject.value());
        match subject {
            Subject::Run(run) if snapshot.runs().iter().all(|row| row.id != *run) => {
                nothing(format!("there is no run {}; `steplake info` lists them", run.0))
            }
            Subject::Run(_) => before.map_or(Ok(runs), nothing),
            Subject::Benchmark(uri) if runs[0].is_empty() && !has_row(&snapshot, uri)? => {
                nothing(before.unwrap_or_else(|| {
                    format!(
                        "it has no benchmark {} (SELECT benchmark_uri FROM benchmarks lists them)",
                        uri.as_str()
                    )
                }))
            }
            Subject::Benchmark(_) => Ok(runs),
        }
    }
}

fn has_row(snapshot: &Snapshot, uri: &BenchmarkUri) -> Result<bool, StoreError> {
    let columns = super::ScanColumns::Named(&["benchmark_uri"]);
    for batch in snapshot.scan(Table::Benchmarks, columns) {
        if Subject::Benchmark(uri.clone()).others(&batch?).false_count() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What was said when it was retracted before.
fn before(snapshot: &Snapshot, kind: RetractionKind, value: &str) -> Option<String> {
    let mut rows = snapshot.retractions().iter();
    let row = rows.rfind(|row| row.kind == kind && row.value == value)?;
    let (kind, snapshot) = (kind.as_str(), row.snapshot);
    Some(format!("{kind} {value} was retracted before, in snapshot {snapshot} ({})", row.reason))
}

fn retraction(
    kind: RetractionKind,
    value: String,
    reason: &str,
    runs: Vec<RunId>,
) -> RetractionRow {
    let (id, snapshot) = (0, SnapshotId(0));
    RetractionRow { id, kind, value, reason: reason.to_owned(), snapshot, runs }
}

fn detail(row: &RetractionRow) -> String {
    format!("{} {}: {}", row.kind.as_str(), row.value, row.reason)
}
