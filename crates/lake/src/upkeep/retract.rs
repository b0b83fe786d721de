//! Retractions: programs, runs and actions that should not be in a lake.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use arrow::array::{BooleanArray, RecordBatch};

use super::maintenance::Maintenance;
use crate::kernel::schema::decode::{benchmark_uris, episode_ids};
use crate::kernel::versions::edit::VersionEdit;
use crate::kernel::versions::manifest::Derived;
use crate::kernel::{
    LakeError, RetractionKind, RetractionRow, ScanColumns, Snapshot, SnapshotId, SnapshotKind,
    Table, Writer,
};
use steplake_model::{BenchmarkUri, EpisodeId, RunId};

/// What to retract with its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetractionTarget {
    /// Programs: their rows, all episodes about them, and what was measured and found of them.
    Benchmarks(BTreeSet<BenchmarkUri>),
    /// All episodes of a run. Programs stay.
    Run(RunId),
}

/// The result of a retraction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retracted {
    /// The first snapshot without the rows.
    pub snapshot: SnapshotId,
    /// Number of episodes that are gone.
    pub episodes: u64,
    /// Number of steps that are gone.
    pub steps: u64,
    /// The runs of these episodes. What is resumed of them is played by another run.
    pub runs: Vec<RunId>,
}

/// Where a subject occurs in a lake.
#[derive(Debug, Default)]
struct Occurrences {
    /// For each part of the subject, the runs with rows of it.
    runs: BTreeMap<String, BTreeSet<RunId>>,
    /// The runs with hot rows of it.
    hot: BTreeSet<RunId>,
}

impl RetractionTarget {
    /// One program.
    pub fn benchmark(uri: BenchmarkUri) -> Self {
        Self::Benchmarks([uri].into())
    }

    fn kind(&self) -> RetractionKind {
        match self {
            Self::Benchmarks(_) => RetractionKind::Benchmark,
            Self::Run(_) => RetractionKind::Run,
        }
    }

    /// Returns its parts, as `retractions` names them.
    fn values(&self) -> Vec<String> {
        match self {
            Self::Benchmarks(uris) => uris.iter().map(|uri| uri.as_str().to_owned()).collect(),
            Self::Run(run) => vec![run.0.to_string()],
        }
    }

    /// Returns the column that tells whether a row belongs to it.
    fn column(&self) -> &'static str {
        match self {
            Self::Benchmarks(_) => "benchmark_uri",
            Self::Run(_) => "episode_id",
        }
    }

    /// Returns the tables with rows of it.
    fn tables(&self) -> &'static [Table] {
        match self {
            Self::Benchmarks(_) => &[
                Table::Benchmarks,
                Table::Episodes,
                Table::Steps,
                Table::Measurements,
                Table::Miscompilations,
            ],
            Self::Run(_) => &[Table::Episodes, Table::Steps],
        }
    }

    /// Returns which rows of a batch do not belong to it.
    fn others(&self, batch: &RecordBatch) -> BooleanArray {
        match self {
            Self::Benchmarks(wanted) => {
                let wanted = wanted.iter().map(BenchmarkUri::as_str).collect::<HashSet<_>>();
                benchmark_uris(batch).map(|uri| Some(!wanted.contains(uri))).collect()
            }
            Self::Run(run) => {
                let others = episode_ids(batch).iter().map(|&id| EpisodeId(id).run() != *run);
                others.map(Some).collect()
            }
        }
    }

    fn find(&self, snapshot: &Snapshot) -> Result<Occurrences, LakeError> {
        let mut found = Occurrences::default();
        let mut add = |batch: &RecordBatch, is_hot: bool| {
            let others = self.others(batch);
            let uris = match self {
                Self::Benchmarks(_) => benchmark_uris(batch).collect(),
                Self::Run(_) => Vec::new(),
            };
            for (row, &id) in episode_ids(batch).iter().enumerate() {
                if !others.value(row) {
                    let run = EpisodeId(id).run();
                    let part = uris.get(row).map_or_else(|| run.0.to_string(), ToString::to_string);
                    found.runs.entry(part).or_default().insert(run);
                    found.hot.extend(is_hot.then_some(run));
                }
            }
        };
        for table in [Table::Episodes, Table::Steps] {
            snapshot.hot(table).iter().for_each(|batch| add(batch, true));
        }
        // Sealed steps have sealed episodes.
        let mut columns = vec!["episode_id", self.column()];
        columns.dedup();
        for segment in snapshot.segments(Table::Episodes) {
            for batch in snapshot.scan_segment(segment, ScanColumns::Named(&columns)) {
                add(&batch?, false);
            }
        }
        Ok(found)
    }
}

impl Maintenance {
    /// Retracts programs or a run. Seals closed episodes first. Then it writes the segments with
    /// such rows again without them, and one transaction replaces these segments, in a snapshot of
    /// its own. The snapshot has no derived tables; a dedup makes them. Older snapshots still have
    /// the rows, until they expire and are collected.
    ///
    /// Numbers of runs and episodes are not reused. Observations and IR stay, even of states that
    /// no step has any more. Who resumes a run that lost episodes plays them again, as another run.
    ///
    /// # Errors
    ///
    /// [`LakeError::NothingToRetract`], also if it was retracted before; [`LakeError::Corrupt`]
    /// with the damaged file; [`LakeError::DiskFull`] and other disk errors. Nothing is then
    /// retracted, but closed episodes may be sealed, and open episodes of the affected runs
    /// discarded, as a resumption would do.
    pub fn retract(
        &mut self,
        writer: &mut Writer,
        subject: &RetractionTarget,
        reason: &str,
    ) -> Result<Retracted, LakeError> {
        let Occurrences { runs: mut of, hot } = self.find(subject)?;
        writer.seal()?;
        for run in hot {
            writer.discard_open(run)?;
        }
        if let RetractionTarget::Run(run) = subject {
            of.entry(run.0.to_string()).or_default().insert(*run);
        }
        let lake = self.lake().clone();
        let snapshot = lake.sealed()?;
        let row = |value: String| {
            let runs = of.get(&value).into_iter().flatten().copied().collect();
            retraction(subject.kind(), value, reason, runs)
        };
        let mut edit = retraction_edit(subject.values().into_iter().map(row).collect());
        let mut gone = [0; Table::ALL.len()];
        for &table in subject.tables() {
            for segment in snapshot.segments(table) {
                let keep = &|batch: &RecordBatch| subject.others(batch);
                gone[table as usize] += edit.rewrite(&lake, segment, &[subject.column()], keep)?;
            }
        }
        let runs = of.into_values().flatten().collect::<BTreeSet<_>>().into_iter().collect();
        let snapshot = self.apply(&edit)?;
        let (episodes, steps) = (gone[Table::Episodes as usize], gone[Table::Steps as usize]);
        Ok(Retracted { snapshot, episodes, steps, runs })
    }

    /// Retracts the transitions of an action, in a snapshot of its own. The snapshot has no derived
    /// tables; every later dedup leaves the action out. The steps stay, since the states after them
    /// are real.
    ///
    /// # Errors
    ///
    /// [`LakeError::NothingToRetract`] if there is no such action or it was retracted before; disk
    /// errors. Nothing is then retracted.
    pub fn retract_action(&mut self, name: &str, reason: &str) -> Result<SnapshotId, LakeError> {
        let lake = self.lake();
        let space = &lake.identity().action_space;
        let nothing = |what| LakeError::NothingToRetract { path: lake.path().to_owned(), what };
        if space.actions.iter().all(|action| action.name != name) {
            return Err(nothing(format!("action space {} has no action `{name}`", space.name)));
        }
        let kind = RetractionKind::Action;
        if let Some(before) = before(&lake.sealed()?, kind, name) {
            return Err(nothing(before));
        }
        let row = retraction(kind, name.to_owned(), reason, Vec::new());
        self.apply(&retraction_edit(vec![row]))
    }

    /// Finds a subject; returns an error if any part of it is not in the lake.
    fn find(&self, subject: &RetractionTarget) -> Result<Occurrences, LakeError> {
        let snapshot = self.lake().snapshot()?;
        let found = subject.find(&snapshot)?;
        let nothing =
            |what| Err(LakeError::NothingToRetract { path: snapshot.path().to_owned(), what });
        let before = |value: &str| before(&snapshot, subject.kind(), value);
        match subject {
            RetractionTarget::Run(run) if snapshot.runs().iter().all(|row| row.id != *run) => {
                nothing(format!("there is no run {}", run.0))
            }
            RetractionTarget::Run(run) => before(&run.0.to_string()).map_or(Ok(found), nothing),
            RetractionTarget::Benchmarks(uris) => {
                let known = snapshot.benchmark_uris()?;
                let Some(unknown) = uris.iter().find(|uri| !known.contains(uri)) else {
                    return Ok(found);
                };
                nothing(before(unknown.as_str()).unwrap_or_else(|| {
                    format!(
                        "it has no benchmark {unknown} (SELECT benchmark_uri FROM benchmarks lists \
                         them)"
                    )
                }))
            }
        }
    }
}

impl Snapshot {
    /// Returns the programs with rows in `benchmarks` or `episodes`. A program that never started
    /// has only episodes.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with a file that is damaged.
    pub fn benchmark_uris(&self) -> Result<BTreeSet<BenchmarkUri>, LakeError> {
        let mut known = HashSet::new();
        for table in [Table::Benchmarks, Table::Episodes] {
            for batch in self.scan(table, ScanColumns::Named(&["benchmark_uri"])) {
                known.extend(benchmark_uris(&batch?).map(str::to_owned));
            }
        }
        Ok(known.iter().filter_map(|uri| uri.parse().ok()).collect())
    }
}

/// Describes an earlier retraction of the same, if there is one.
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

/// The edit with these retractions, and with one line about them for the list of snapshots.
fn retraction_edit(retractions: Vec<RetractionRow>) -> VersionEdit {
    let detail = match retractions.as_slice() {
        [row] => format!("{} {}: {}", row.kind.as_str(), row.value, row.reason),
        [first, ..] => {
            format!("{} {}s: {}", retractions.len(), first.kind.as_str(), first.reason)
        }
        [] => String::new(),
    };
    let edit = VersionEdit::new(SnapshotKind::Retract, detail);
    VersionEdit { derived: Derived::Dropped, retractions, ..edit }
}
