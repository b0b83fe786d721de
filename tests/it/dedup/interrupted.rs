//! A dedup that its caller stops: the lake stays as it was, and the next dedup is as any other.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow::{Break, Continue};
use std::path::{Path, PathBuf};

use steplake::dedup::{DedupOptions, DedupReport, dedup};
use steplake::lake::{Lake, LakeError, Table, to_the_end};
use steplake::model::EpisodeId;
use steplake::upkeep::Maintenance;

use crate::fixtures::support::{assert_same, contents, copy_folder};
use crate::fixtures::toy_lake::{APART, Author, identity};

/// All files of a lake.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| {
        if path.is_dir() && !path.is_symlink() { files(&path) } else { BTreeSet::from([path]) }
    };
    entries.flat_map(below).collect()
}

/// A lake with two layers, and steps in two segments that no layer counts.
fn uncounted(path: &Path) -> Lake {
    let lake = Lake::create(path, &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let mut author = Author::default();
    for part in 0..4 {
        for ordinal in 0..9 {
            let mut taken = (0..40)
                .map(|at| ((at + ordinal) % 5, Some((ordinal * part + 7 * at) % 90)))
                .collect::<Vec<_>>();
            taken.extend((ordinal == 4).then_some((7, None)));
            author.episode(EpisodeId::new(run, 10 * part + ordinal), 1, &taken);
        }
        writer.append(&author.take()).unwrap();
        writer.seal().unwrap();
        if part < 2 {
            dedup(&mut lake.maintenance().unwrap(), APART, &mut to_the_end).unwrap();
        }
    }
    let snapshot = lake.snapshot().unwrap();
    assert_eq!((snapshot.layers().len(), snapshot.uncounted_steps()), (2, 2 * (9 * 41 + 1)));
    lake
}

/// Dedups until the `calls_max`-th call of its progress. Also returns the number of calls.
fn stopped(
    maintenance: &mut Maintenance,
    settings: DedupOptions,
    calls_max: u64,
) -> (Result<DedupReport, LakeError>, u64) {
    let mut calls = 0;
    let report = dedup(maintenance, settings, &mut |done, all| {
        assert!(done <= all);
        calls += 1;
        assert!(calls <= calls_max, "after a break nobody asks again");
        if calls == calls_max { Break(()) } else { Continue(()) }
    });
    (report, calls)
}

fn check(settings: DedupOptions) {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("lake"), folder.path().join("undisturbed"));
    let lake = uncounted(&path);
    copy_folder(&path, &other);
    let undisturbed = Lake::open(&other).unwrap();
    let wanted = dedup(&mut undisturbed.maintenance().unwrap(), settings, &mut to_the_end).unwrap();

    let mut maintenance = lake.maintenance().unwrap();
    let (before, rows) = (files(&path), contents(&path));
    let newest = lake.snapshot().unwrap().id();
    let mut calls_max = 1;
    let done = loop {
        let (report, calls) = stopped(&mut maintenance, settings, calls_max);
        if calls < calls_max {
            break report.unwrap();
        }
        assert!(matches!(report, Err(LakeError::Interrupted)), "{settings:?}: {report:?}");
        assert_eq!(files(&path), before, "{settings:?}: call {calls}");
        assert_eq!(lake.snapshot().unwrap().id(), newest);
        calls_max += 1;
    };
    assert!(calls_max > 6, "{settings:?}: {calls_max} calls");
    assert_ne!(contents(&path), rows);
    assert_same(&path, &other);
    assert_eq!(DedupReport { elapsed: wanted.elapsed, ..done }, wanted);
    let names = |lake: &Lake| {
        let snapshot = lake.snapshot().unwrap();
        let segments = Table::ALL.map(|table| snapshot.segments(table).to_vec()).concat();
        segments.iter().map(|segment| segment.digest.clone()).collect::<BTreeSet<_>>()
    };
    assert_eq!(names(&lake), names(&undisturbed));
    drop(maintenance);
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}

#[test]
fn a_dedup_that_is_stopped_anywhere_leaves_the_lake_as_it_was() {
    let threads = NonZeroUsize::new(2).unwrap();
    let usual = DedupOptions { threads, ..DedupOptions::default() };
    for settings in [usual, APART, DedupOptions { full: true, ..usual }] {
        check(settings);
        // Sorts pieces in temporary files.
        check(DedupOptions { memory_bytes_max: 4 << 10, ..settings });
    }
}
