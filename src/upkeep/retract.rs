//! Taking back what should not be in a lake.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use arrow::array::{BooleanArray, RecordBatch};

use super::maintenance::Maintenance;
use crate::lake::decode::{benchmark_uris, episode_ids};
use crate::lake::edit::VersionEdit;
use crate::lake::manifest::Derived;
use crate::lake::{
    LakeError, RetractionKind, RetractionRow, ScanColumns, Snapshot, SnapshotId, SnapshotKind,
    Table, Writer,
};
use crate::model::{BenchmarkUri, EpisodeId, RunId};

/// What is to be taken back with its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Programs: their rows, and all episodes about them.
    Benchmarks(BTreeSet<BenchmarkUri>),
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

/// What there is of a subject in a lake.
#[derive(Debug, Default)]
struct Found {
    /// Of each part of the subject, the runs with rows of it.
    runs: BTreeMap<String, BTreeSet<RunId>>,
    /// The runs with hot ones.
    hot: BTreeSet<RunId>,
}

impl Subject {
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

    /// Its parts, as `retractions` names them.
    fn values(&self) -> Vec<String> {
        match self {
            Self::Benchmarks(uris) => uris.iter().map(|uri| uri.as_str().to_owned()).collect(),
            Self::Run(run) => vec![run.0.to_string()],
        }
    }

    /// The column that says whether a row is of it.
    fn column(&self) -> &'static str {
        match self {
            Self::Benchmarks(_) => "benchmark_uri",
            Self::Run(_) => "episode_id",
        }
    }

    /// The tables that have rows of it.
    fn tables(&self) -> &'static [Table] {
        match self {
            Self::Benchmarks(_) => &[Table::Benchmarks, Table::Episodes, Table::Steps],
            Self::Run(_) => &[Table::Episodes, Table::Steps],
        }
    }

    /// Hands over the part of it that each row of a batch is of.
    fn each(&self, batch: &RecordBatch, visit: &mut dyn FnMut(usize, Option<&str>)) {
        match self {
            Self::Benchmarks(wanted) => {
                let wanted = wanted.iter().map(BenchmarkUri::as_str).collect::<HashSet<_>>();
                for (row, uri) in benchmark_uris(batch).enumerate() {
                    visit(row, Some(uri).filter(|uri| wanted.contains(uri)));
                }
            }
            Self::Run(run) => {
                let value = run.0.to_string();
                for (row, &id) in episode_ids(batch).iter().enumerate() {
                    visit(row, (EpisodeId(id).run() == *run).then_some(value.as_str()));
                }
            }
        }
    }

    /// Which rows of a batch are not of it.
    fn others(&self, batch: &RecordBatch) -> BooleanArray {
        let mut others = Vec::with_capacity(batch.num_rows());
        self.each(batch, &mut |_, part| others.push(part.is_none()));
        others.into()
    }

    fn find(&self, snapshot: &Snapshot) -> Result<Found, LakeError> {
        let mut found = Found::default();
        let mut add = |batch: &RecordBatch, is_hot: bool| {
            let ids = episode_ids(batch);
            self.each(batch, &mut |row, part| {
                let Some(part) = part else { return };
                let run = EpisodeId(ids[row]).run();
                match found.runs.get_mut(part) {
                    Some(runs) => drop(runs.insert(run)),
                    None => drop(found.runs.insert(part.to_owned(), [run].into())),
                }
                if is_hot {
                    found.hot.insert(run);
                }
            });
        };
        for table in [Table::Episodes, Table::Steps] {
            for batch in snapshot.hot(table) {
                add(batch, true);
            }
        }
        // Sealed steps have sealed episodes.
        for segment in snapshot.segments(Table::Episodes) {
            let mut columns = vec!["episode_id", self.column()];
            columns.dedup();
            let columns = ScanColumns::Named(&columns);
            for batch in snapshot.scan_segment(segment, columns) {
                add(&batch?, false);
            }
        }
        Ok(found)
    }
}

impl Maintenance {
    /// Takes programs or a run back: the segments that have rows of it are written anew without
    /// them, and one transaction puts these in their places, in a snapshot of its own, which has no
    /// derived tables: dedup makes them anew. What is closed is sealed first. Older snapshots have
    /// the rows still, until they expire and are collected.
    ///
    /// Numbers of runs and episodes are not given again. Observations and IR stay, also of states
    /// that no step has any more. The runs that lost episodes cannot be gone on with.
    ///
    /// # Errors
    ///
    /// [`LakeError::NothingToRetract`], also where it was retracted before;
    /// [`LakeError::Corrupt`] with a file that is damaged; [`LakeError::DiskFull`] and what else
    /// a disk does. Nothing is retracted then, though what was closed may be sealed, and what the
    /// affected runs left open be discarded, as it would be when they are gone on with.
    pub fn retract(
        &mut self,
        writer: &mut Writer,
        subject: &Subject,
        reason: &str,
    ) -> Result<Retracted, LakeError> {
        let Found { runs: mut of, hot } = self.find(subject)?;
        writer.seal()?;
        for run in hot {
            writer.discard_open(run)?;
        }
        if let Subject::Run(run) = subject {
            of.entry(run.0.to_string()).or_default().insert(*run);
        }
        let lake = self.lake().clone();
        let snapshot = lake.sealed()?;
        let mut edit = retraction_edit();
        let mut gone = [0; Table::ALL.len()];
        for &table in subject.tables() {
            for segment in snapshot.segments(table) {
                let keep = &mut |batch: &RecordBatch| subject.others(batch);
                gone[table as usize] += edit.rewrite(&lake, segment, &[subject.column()], keep)?;
            }
        }
        let row = |value: String| {
            let runs = of.get(&value).into_iter().flatten().copied().collect();
            retraction(subject.kind(), value, reason, runs)
        };
        edit.retractions = subject.values().into_iter().map(row).collect();
        edit.detail = detail(&edit.retractions);
        let runs = of.into_values().flatten().collect::<BTreeSet<_>>().into_iter().collect();
        let snapshot = self.apply(&edit)?;
        let (episodes, steps) = (gone[Table::Episodes as usize], gone[Table::Steps as usize]);
        Ok(Retracted { snapshot, episodes, steps, runs })
    }

    /// Takes the transitions of an action back, in a snapshot of its own, which has no derived
    /// tables: dedup makes them anew, without the action, and leaves it out from then on. The steps
    /// stay, since the states after them are real.
    ///
    /// # Errors
    ///
    /// [`LakeError::NothingToRetract`] where there is no such action, or where it was retracted
    /// before; what a disk does. Nothing is retracted then.
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
        let mut edit = retraction_edit();
        edit.detail = detail(std::slice::from_ref(&row));
        edit.retractions = vec![row];
        self.apply(&edit)
    }

    /// What there is of it; an error where there is nothing, of any part of it.
    fn find(&self, subject: &Subject) -> Result<Found, LakeError> {
        let snapshot = self.lake().snapshot()?;
        let found = subject.find(&snapshot)?;
        let nothing =
            |what| Err(LakeError::NothingToRetract { path: snapshot.path().to_owned(), what });
        let before = |value: &str| before(&snapshot, subject.kind(), value);
        match subject {
            Subject::Run(run) if snapshot.runs().iter().all(|row| row.id != *run) => {
                nothing(format!("there is no run {}", run.0))
            }
            Subject::Run(run) => before(&run.0.to_string()).map_or(Ok(found), nothing),
            Subject::Benchmarks(uris) => {
                let known = snapshot.benchmark_uris()?;
                let Some(unknown) = uris.iter().find(|uri| !known.contains(uri)) else {
                    return Ok(found);
                };
                nothing(before(unknown.as_str()).unwrap_or_else(|| {
                    format!(
                        "it has no benchmark {unknown} (SELECT benchmark_uri FROM benchmarks lists them)"
                    )
                }))
            }
        }
    }
}

impl Snapshot {
    /// The programs that the lake has rows of, be it that of an episode that could not begin.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with a file that is damaged.
    pub fn benchmark_uris(&self) -> Result<BTreeSet<BenchmarkUri>, LakeError> {
        let mut known = HashSet::new();
        for table in [Table::Benchmarks, Table::Episodes] {
            for batch in self.scan(table, ScanColumns::Named(&["benchmark_uri"])) {
                for uri in benchmark_uris(&batch?) {
                    if !known.contains(uri) {
                        known.insert(uri.to_owned());
                    }
                }
            }
        }
        Ok(known.iter().filter_map(|uri| uri.parse().ok()).collect())
    }
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

/// One line for the list of snapshots.
fn detail(rows: &[RetractionRow]) -> String {
    match rows {
        [row] => format!("{} {}: {}", row.kind.as_str(), row.value, row.reason),
        [first, ..] => format!("{} {}s: {}", rows.len(), first.kind.as_str(), first.reason),
        [] => String::new(),
    }
}

fn retraction_edit() -> VersionEdit {
    let edit = VersionEdit::new(SnapshotKind::Retract, String::new());
    VersionEdit { derived: Derived::Dropped, ..edit }
}
