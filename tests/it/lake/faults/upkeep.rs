//! Faults under what changes sealed data: merge, retract, repair, expire and gc, each with the
//! dedup that the command does after it. Whatever happens, the lake says what it said before or
//! what it is to say after, and a second try ends as an undisturbed one.
//!
//! `STEPLAKE_FAULTS=all` breaks every operation; else it is every k-th, some dozens of each kind.

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::num::NonZeroU64;
use std::ops::ControlFlow::Continue;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steplake::lake::{Disk, DiskOperation, FaultEffect, Lake, LakeError, Table, to_the_end};
use steplake::transfer::merge::{self, MergeError, merge};
use steplake::upkeep::{Keep, RetractionTarget};

use super::{Image, Tally, is_reading, told};
use crate::fixtures::power::is_showing;
use crate::fixtures::support::scratch;
use crate::fixtures::toy_lake::uri;
use crate::lake::merge::two;
use crate::lake::{repair, retract};

/// Operations of one kind that are broken under one job, unless all are.
const CASES_MAX: usize = 6;

type Work = Box<dyn Fn(Disk, &Path) -> Result<(), LakeError>>;

/// Something that is done in a folder with lakes, and that can be gone on with when it was cut
/// short.
struct Job {
    name: &'static str,
    before: Image,
    /// The lake in the folder that comes of it.
    lake: &'static str,
    work: Work,
    /// Whether the lake is damaged before, or is none yet.
    begins_unsound: bool,
}

impl Job {
    fn new(
        name: &'static str,
        lake: &'static str,
        make: impl FnOnce(&Path),
        work: impl Fn(Disk, &Path) -> Result<(), LakeError> + 'static,
    ) -> Self {
        let folder = scratch();
        make(folder.path());
        let before = Image::of(folder.path());
        Self { name, before, lake, work: Box::new(work), begins_unsound: false }
    }

    fn retract(name: &'static str, act: fn(&Lake) -> Result<(), LakeError>) -> Self {
        let make = |folder: &Path| {
            let (lake, writer) = retract::record(&folder.join("lake"), Disk::default()).unwrap();
            drop(writer);
            retract::derive(&lake).unwrap();
        };
        Self::new(name, "lake", make, move |disk, folder| {
            let lake = Lake::open_on(disk, folder.join("lake"))?;
            let is_done = !lake.snapshot()?.retractions().is_empty();
            if !is_done {
                act(&lake)?;
            }
            retract::derive(&lake)
        })
    }

    fn repair(name: &'static str, damage: fn(&Lake)) -> Self {
        let make = |folder: &Path| damage(&repair::record(&folder.join("lake")));
        let work = |disk, folder: &Path| {
            let lake = Lake::open_on(disk, folder.join("lake"))?;
            lake.repair()?;
            retract::derive(&lake)
        };
        Self { begins_unsound: true, ..Self::new(name, "lake", make, work) }
    }

    fn merge() -> Self {
        let work = |disk: Disk, folder: &Path| {
            let into = folder.join("into");
            let lake = if into.join("lake.json").exists() {
                Lake::open_on(disk, into)?
            } else {
                let open = |name| Lake::open_on(disk.clone(), folder.join(name));
                let (lakes, few) = (
                    [open("first")?, open("second")?],
                    merge::MergeOptions { files_at_once: 2, ..merge::MergeOptions::default() },
                );
                let merged = merge(disk.clone(), &lakes, &into, &few, &mut |_, _| ());
                merged.map_err(store_error)?.0
            };
            retract::derive(&lake)
        };
        let make = |folder: &Path| drop(two(folder));
        Self { begins_unsound: true, ..Self::new("merge", "into", make, work) }
    }

    fn collect() -> Self {
        let make = |folder: &Path| {
            let (lake, mut writer) =
                retract::record(&folder.join("lake"), Disk::default()).unwrap();
            retract::derive(&lake).unwrap();
            writer.seal().unwrap();
            let run = RetractionTarget::Run(retract::RUNS[0]);
            lake.maintenance().unwrap().retract(&mut writer, &run, "why").unwrap();
            drop(writer);
            retract::derive(&lake).unwrap();
            for table in ["steps", "conflicts"] {
                let orphan = lake
                    .path()
                    .join("data")
                    .join(table)
                    .join(format!("{table}-0123456789abcdef.parquet"));
                std::fs::create_dir_all(orphan.parent().unwrap()).unwrap();
                std::fs::write(orphan, "left by a crash").unwrap();
            }
        };
        Self::new("expire and gc", "lake", make, |disk, folder| {
            let lake = Lake::open_on(disk, folder.join("lake"))?;
            let mut maintenance = lake.maintenance()?;
            maintenance.expire(Keep::Newest(NonZeroU64::new(2).unwrap()))?;
            maintenance.collect().map(drop)
        })
    }

    fn all() -> Vec<Self> {
        vec![
            Self::retract("retract a benchmark", |lake| {
                take_back(lake, &RetractionTarget::benchmark(uri(1)))
            }),
            Self::retract("retract a run", |lake| {
                take_back(lake, &RetractionTarget::Run(retract::RUNS[0]))
            }),
            Self::retract("retract an action", |lake| {
                lake.maintenance()?.retract_action("a1", "why").map(drop)
            }),
            Self::repair("repair of files", |lake| {
                for table in [Table::Benchmarks, Table::Steps, Table::Ir, Table::StateTransitions] {
                    repair::flip(&repair::second_file(lake, table));
                }
            }),
            Self::repair("repair of the database", |lake| {
                repair::flip(&repair::second_file(lake, Table::Observations));
                let log = rusqlite::Connection::open(lake.path().join("hot.sqlite")).unwrap();
                log.execute("UPDATE runs SET started_at_ms = 7", []).unwrap();
            }),
            Self::merge(),
            Self::collect(),
        ]
    }

    /// A copy of what there is before.
    fn lay(&self) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = scratch();
        self.before.lay(folder.path());
        let lake = folder.path().join(self.lake);
        (folder, lake)
    }

    /// How many operations of a kind there are when nothing fails.
    fn count(&self, counts: fn(&DiskOperation<'_>) -> bool) -> usize {
        let (folder, _) = self.lay();
        let count = Arc::new(AtomicUsize::new(0));
        let shared = Arc::clone(&count);
        let disk = Disk::with_faults(move |operation| {
            shared.fetch_add(usize::from(counts(&operation)), Ordering::Relaxed);
            FaultEffect::Proceed
        });
        (self.work)(disk, folder.path()).unwrap();
        count.load(Ordering::Relaxed)
    }
}

fn take_back(lake: &Lake, subject: &RetractionTarget) -> Result<(), LakeError> {
    let (mut maintenance, mut writer) = (lake.maintenance()?, lake.writer()?);
    maintenance.retract(&mut writer, subject, "why").map(drop)
}

fn store_error(error: MergeError) -> LakeError {
    match error {
        MergeError::Store(error) => error,
        other => panic!("{other}"),
    }
}

/// What can be said of a lake's rows: those of recorded tables, and those of derived ones.
#[derive(Debug, Default, PartialEq)]
struct Rows {
    recorded: BTreeSet<String>,
    derived: BTreeSet<String>,
}

impl Rows {
    fn of(lake: &Path) -> Result<Self, LakeError> {
        let lines = told(&Lake::open(lake)?.snapshot()?)?;
        let is_derived = |line: &String| {
            let derived = Table::ALL.into_iter().filter(|table| table.is_derived());
            derived.into_iter().any(|table| line.starts_with(&format!("{table} ")))
        };
        let count = lines.len();
        let (derived, recorded) = lines.into_iter().partition::<BTreeSet<_>, _>(is_derived);
        // IR that is asked for by state may be none for several of them.
        assert!(derived.len() + recorded.len() + 9 >= count, "a row stands twice");
        Ok(Self { recorded, derived })
    }
}

/// What a fault does.
struct Fault {
    name: &'static str,
    counts: fn(&DiskOperation<'_>) -> bool,
    verdict: fn(&DiskOperation<'_>) -> FaultEffect,
    /// Whether it stays, once it is there.
    stays: bool,
}

fn is_change(operation: &DiskOperation<'_>) -> bool {
    !is_reading(operation) && !is_showing(operation)
}

fn takes_room(operation: &DiskOperation<'_>) -> bool {
    use DiskOperation::{Commit, Create, CreateDir, Scratch, Write};
    let takes_room =
        matches!(operation, CreateDir(_) | Create(_) | Write(..) | Commit(_) | Scratch(..));
    takes_room && !is_showing(operation)
}

fn is_write(operation: &DiskOperation<'_>) -> bool {
    matches!(operation, DiskOperation::Write(..)) && !is_showing(operation)
}

fn eio(_: &DiskOperation<'_>) -> FaultEffect {
    FaultEffect::Fail(Error::from_raw_os_error(5))
}

fn full(_: &DiskOperation<'_>) -> FaultEffect {
    FaultEffect::Fail(ErrorKind::StorageFull.into())
}

fn third(operation: &DiskOperation<'_>) -> FaultEffect {
    match operation {
        DiskOperation::Write(_, bytes) | DiskOperation::Read(_, bytes) => {
            FaultEffect::Short(bytes / 3)
        }
        _ => FaultEffect::Proceed,
    }
}

const FAULTS: [Fault; 8] = [
    Fault { name: "an error of writing", counts: is_change, verdict: eio, stays: false },
    Fault { name: "a disk that takes nothing more", counts: is_change, verdict: eio, stays: true },
    Fault { name: "a disk full for a moment", counts: takes_room, verdict: full, stays: false },
    Fault { name: "a full disk", counts: takes_room, verdict: full, stays: true },
    Fault { name: "a short write", counts: is_write, verdict: third, stays: false },
    Fault { name: "an error of reading", counts: is_reading, verdict: eio, stays: false },
    Fault { name: "a disk that reads nothing more", counts: is_reading, verdict: eio, stays: true },
    Fault { name: "a reading cut short", counts: is_reading, verdict: third, stays: false },
];

impl Fault {
    /// A disk on which it comes at the `n`-th operation of its kind.
    fn disk(&self, at: usize) -> Disk {
        let (counts, verdict, stays) = (self.counts, self.verdict, self.stays);
        let done = AtomicUsize::new(0);
        Disk::with_faults(move |operation| {
            if !counts(&operation) {
                return FaultEffect::Proceed;
            }
            let now = done.fetch_add(1, Ordering::Relaxed);
            if now == at || stays && now > at { verdict(&operation) } else { FaultEffect::Proceed }
        })
    }
}

/// Every k-th of so many operations.
fn places(count: usize, offset: usize) -> impl Iterator<Item = usize> {
    let all = std::env::var("STEPLAKE_FAULTS").is_ok_and(|which| which == "all");
    let step = if all { 1 } else { count.div_ceil(CASES_MAX).max(1) };
    (offset % step..count).step_by(step)
}

/// Asserts that a lake that was left alone with a fault says nothing wrong, and has lost nothing.
fn judge_left(job: &Job, case: &str, lake: &Path, before: &Rows, after: &Rows) {
    let found = match Rows::of(lake) {
        Ok(found) => found,
        Err(error) => {
            assert!(job.begins_unsound, "{case}: {error}");
            let named = error.to_string().contains(lake.to_str().unwrap());
            assert!(named, "{case}: an error that names no file: {error}");
            return;
        }
    };
    let either = before.recorded.union(&after.recorded).cloned().collect::<BTreeSet<_>>();
    let strange = found.recorded.difference(&either).collect::<Vec<_>>();
    assert!(strange.is_empty(), "{case}: {strange:#?}");
    let lost = after.recorded.difference(&found.recorded);
    let lost = lost.filter(|row| before.recorded.contains(*row)).collect::<Vec<_>>();
    assert!(lost.is_empty(), "{case}: {lost:#?}");
    let is_known = [&before.derived, &after.derived].contains(&&found.derived);
    assert!(is_known || found.derived.is_empty(), "{case}: {:#?}", found.derived);
    if !job.begins_unsound {
        let report = Lake::open(lake).unwrap().verify(&mut to_the_end).unwrap();
        assert!(report.is_sound(), "{case}: {:?}", report.findings);
    }
}

/// Asserts that a lake holds what it is to hold, and that each snapshot of it is sound or given up.
fn judge_done(case: &str, lake: &Path, after: &Rows) {
    let found = Rows::of(lake).unwrap_or_else(|error| panic!("{case}: {error}"));
    let (lacks, more) = (
        after.recorded.difference(&found.recorded).collect::<Vec<_>>(),
        found.recorded.difference(&after.recorded).collect::<Vec<_>>(),
    );
    assert!(lacks.is_empty() && more.is_empty(), "{case}: it lacks {lacks:#?}, and has {more:#?}");
    assert_eq!(found.derived, after.derived, "{case}");
    let lake = Lake::open(lake).unwrap();
    for row in lake.snapshot().unwrap().history() {
        match lake.verify_states(Some(row.id), &mut to_the_end, &mut |_| Continue(())) {
            Ok(report) => assert!(report.is_sound(), "{case}: {} {:?}", row.id, report.findings),
            Err(LakeError::LostSnapshot { .. }) => {}
            Err(error) => panic!("{case}: snapshot {}: {error}", row.id),
        }
    }
}

fn break_all(fault_numbers: std::ops::Range<usize>) {
    for job in Job::all() {
        let (folder, lake) = job.lay();
        // Of a repair, what there was before the damage is not known here: only what stays of it
        // counts.
        let before = Rows::of(&lake).unwrap_or_default();
        (job.work)(Disk::default(), folder.path()).unwrap();
        let after = Rows::of(&lake).unwrap();
        judge_done(job.name, &lake, &after);
        for number in fault_numbers.clone() {
            let fault = &FAULTS[number];
            let mut tally = Tally::default();
            for at in places(job.count(fault.counts), number) {
                let case = format!("{}, {} at operation {at}", job.name, fault.name);
                let (folder, lake) = job.lay();
                let result = (job.work)(fault.disk(at), folder.path());
                match &result {
                    Ok(()) => {
                        judge_done(&case, &lake, &after);
                        tally.right += 1;
                    }
                    Err(error) => {
                        tally.refuse(&case, folder.path(), error);
                        let is_full = matches!(error, LakeError::DiskFull { .. });
                        assert!(is_full || !fault.name.contains("full"), "{case}: {error}");
                        judge_left(&job, &case, &lake, &before, &after);
                    }
                }
                let again = (job.work)(Disk::default(), folder.path());
                again.unwrap_or_else(|error| panic!("{case}, a second time: {error}"));
                judge_done(&case, &lake, &after);
            }
            tally.report(&format!("{} under {}", fault.name, job.name), 0);
        }
    }
}

#[test]
fn errors_of_writing_under_upkeep_are_told_and_made_up_for() {
    break_all(0..2);
}

#[test]
fn full_disks_and_short_writes_under_upkeep_are_told_and_made_up_for() {
    break_all(2..5);
}

#[test]
fn errors_of_reading_under_upkeep_are_told_and_made_up_for() {
    break_all(5..8);
}

/// A disk that never reads one file of a lake.
fn without(name: std::ffi::OsString) -> Disk {
    Disk::with_faults(move |operation| match operation {
        DiskOperation::Open(path) | DiskOperation::Read(path, _)
            if path.file_name() == Some(&name) =>
        {
            eio(&operation)
        }
        _ => FaultEffect::Proceed,
    })
}

#[test]
fn a_file_that_the_disk_never_reads_is_dropped_and_the_rest_stays() {
    for is_log_lost in [false, true] {
        let folder = scratch();
        let lake = repair::record(&folder.path().join("lake"));
        let before = Rows::of(lake.path()).unwrap().recorded;
        let file = repair::second_file(&lake, Table::Ir);
        if is_log_lost {
            std::fs::remove_file(lake.path().join("hot.sqlite")).unwrap();
        }
        let disk = without(file.file_name().unwrap().to_owned());
        let done = Lake::open_on(disk, lake.path()).unwrap().repair().unwrap();
        assert_eq!(done.restored.is_some(), is_log_lost, "{done:?}");
        assert!(done.losses.iter().any(|loss| loss.table == Table::Ir), "{done:?}");
        retract::derive(&lake).unwrap();
        let report = lake.verify(&mut to_the_end).unwrap();
        assert!(report.is_sound(), "{:?}", report.findings);
        let left = Rows::of(lake.path()).unwrap().recorded;
        let gone = before.difference(&left).filter(|row| row.starts_with("steps "));
        // What was not sealed goes with the log.
        let hot = if is_log_lost { 2 * 4 + 2 } else { 0 };
        assert_eq!(gone.count(), hot, "log lost: {is_log_lost}");
        assert_eq!(lake.snapshot().unwrap().segments(Table::Ir).len(), 1);
    }
}
