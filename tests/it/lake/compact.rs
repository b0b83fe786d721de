//! Compaction: fewer files, the same rows.

use std::ops::ControlFlow;

use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{
    CompactReport, Extent, Lake, LakeError, SnapshotKind, Table, Writer, to_the_end,
};
use steplake::model::{EpisodeId, RunId};

use crate::fixtures::support::{fail, run, scratch};
use crate::fixtures::toy_lake::{Author, identity, read};

const RUN: RunId = RunId(1);

/// Seals so many episodes, each by itself. Nothing is merged meanwhile.
fn grow(lake: &Lake, author: &mut Author, episodes: std::ops::Range<u32>) {
    let _maintenance = lake.maintenance().ok();
    grow_and_merge(lake, author, episodes);
}

/// Seals so many episodes, each by itself, and merges what is due.
fn grow_and_merge(lake: &Lake, author: &mut Author, episodes: std::ops::Range<u32>) {
    let mut writer = lake.writer().unwrap();
    for number in episodes {
        let path = [(1, Some(1)), (2, Some(2)), (number % 8, Some(10 + number))];
        author.episode(EpisodeId::new(RUN, number), number % 3, &path);
        author.measure(10 + number, number % 3, 2);
        writer.append(&author.take()).unwrap();
        writer.seal().unwrap();
    }
}

fn create(folder: &tempfile::TempDir) -> Lake {
    Lake::create(folder.path().join("lake"), &identity()).unwrap()
}

fn files(lake: &Lake) -> [usize; 5] {
    let snapshot = lake.sealed().unwrap();
    [Table::Benchmarks, Table::Episodes, Table::Steps, Table::Observations, Table::Measurements]
        .map(|table| snapshot.segments(table).len())
}

/// The files in the folder of a table.
fn left(lake: &Lake, table: Table) -> usize {
    let files = std::fs::read_dir(lake.path().join("data").join(table.name())).unwrap();
    files.filter(|file| file.as_ref().unwrap().path().is_file()).count()
}

fn count(lake: &Lake) -> bool {
    let mut maintenance = lake.maintenance().unwrap();
    !dedup(&mut maintenance, DedupOptions::default(), &mut to_the_end).unwrap().unchanged
}

fn compact(lake: &Lake) -> CompactReport {
    lake.writer().unwrap().compact(&mut to_the_end).unwrap()
}

fn demand_sound(lake: &Lake) {
    for report in [
        lake.verify(&mut to_the_end).unwrap(),
        lake.verify_states(None, &mut to_the_end, &mut |_| ControlFlow::Continue(())).unwrap(),
    ] {
        assert!(report.is_sound(), "{:?}", report.findings);
    }
}

#[test]
fn a_table_is_one_file_afterwards_with_the_same_rows() {
    let folder = scratch();
    let (lake, mut author) = (create(&folder), Author::default());
    grow(&lake, &mut author, 0..10);
    assert_eq!(files(&lake), [3, 10, 10, 10, 10]);
    let (before, old) = (read(&lake), lake.sealed().unwrap().id());
    let report = compact(&lake);
    assert_eq!((report.merged, report.made), (3 + 5 * 10, 6));
    assert_eq!(files(&lake), [1; 5]);
    assert_eq!(read(&lake), before);
    let snapshot = lake.sealed().unwrap();
    assert_eq!(snapshot.history().last().unwrap().kind, SnapshotKind::Compact);
    assert_eq!(lake.snapshot_at(old).unwrap().segments(Table::Steps).len(), 10);
    demand_sound(&lake);
    assert_eq!(compact(&lake), CompactReport::default());
}

#[test]
fn what_a_dedup_has_counted_stays_counted() {
    let folder = scratch();
    let (lake, mut author) = (create(&folder), Author::default());
    grow(&lake, &mut author, 0..4);
    assert!(count(&lake));
    grow(&lake, &mut author, 4..7);
    compact(&lake);
    assert_eq!(files(&lake), [1, 1, 2, 1, 1], "counted steps stay apart from others");
    let transitions = |lake: &Lake| {
        let snapshot = lake.sealed().unwrap();
        snapshot.rows(Table::StateTransitions)
    };
    let before = transitions(&lake);
    assert_eq!(lake.sealed().unwrap().uncounted_steps(), 3 * 4);
    assert!(count(&lake));
    assert_eq!(transitions(&lake), before + 3);
    compact(&lake);
    assert_eq!(files(&lake), [1; 5]);
    assert!(!count(&lake), "all is counted");
    assert_eq!(lake.sealed().unwrap().uncounted_steps(), 0);
    demand_sound(&lake);
}

#[test]
fn sealing_merges_what_is_due() {
    let folder = scratch();
    let (lake, mut author) = (create(&folder), Author::default());
    grow_and_merge(&lake, &mut author, 0..15);
    assert_eq!(files(&lake)[1..], [15; 4]);
    grow_and_merge(&lake, &mut author, 15..16);
    assert_eq!(files(&lake)[1..], [1; 4]);
    grow_and_merge(&lake, &mut author, 16..60);
    assert!(files(&lake).iter().all(|&files| files < 32), "{:?}", files(&lake));
    let folder = scratch();
    let (unmerged, mut author) = (create(&folder), Author::default());
    grow(&unmerged, &mut author, 0..60);
    assert_eq!(read(&lake), read(&unmerged));
    demand_sound(&lake);
}

#[test]
fn who_maintains_the_lake_is_not_disturbed() {
    let folder = scratch();
    let (lake, mut author) = (create(&folder), Author::default());
    let maintenance = lake.maintenance().unwrap();
    grow(&lake, &mut author, 0..20);
    assert_eq!(files(&lake)[1..], [20; 4], "a seal does not wait");
    let error = lake.writer().unwrap().compact(&mut to_the_end).unwrap_err();
    assert!(matches!(error, LakeError::BeingMaintained { .. }), "{error}");
    drop(maintenance);
    let stopped = lake.writer().unwrap().compact(&mut |_, _| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(LakeError::Interrupted)), "{stopped:?}");
    assert_eq!(files(&lake)[1..], [20; 4], "nothing has changed");
}

#[test]
fn what_others_did_meanwhile_counts() {
    let folder = scratch();
    let (lake, mut author) = (create(&folder), Author::default());
    grow(&lake, &mut author, 0..4);
    let mut writer = lake.writer().unwrap();
    let prepare = |writer: &Writer| {
        let compactor = writer.compactor();
        compactor.prepare(Table::Steps, Extent::All, &mut to_the_end).unwrap().unwrap()
    };
    let prepared = prepare(&writer);
    assert!(count(&lake));
    let report = writer.publish_compaction(prepared).unwrap();
    assert_eq!(report, CompactReport::default(), "the steps are counted now");
    let prepared = prepare(&writer);
    let maintenance = lake.maintenance().unwrap();
    let error = writer.publish_compaction(prepared).unwrap_err();
    assert!(matches!(error, LakeError::BeingMaintained { .. }), "{error}");
    drop(maintenance);
    assert_eq!(files(&lake)[1..], [4; 4]);
    assert_eq!(left(&lake, Table::Steps), 4, "what was prepared is gone");
    // A seal in between is no obstacle.
    let prepared = prepare(&writer);
    author.episode(EpisodeId::new(RUN, 4), 0, &[(1, Some(40))]);
    writer.append(&author.take()).unwrap();
    let maintenance = lake.maintenance().unwrap();
    writer.seal().unwrap();
    drop(maintenance);
    assert!(writer.publish_compaction(prepared).unwrap().merged > 0);
    assert_eq!(files(&lake), [3, 5, 2, 5, 4]);
    demand_sound(&lake);
}

#[test]
fn damage_is_not_written_anew() {
    let folder = scratch();
    let (lake, mut author) = (create(&folder), Author::default());
    grow(&lake, &mut author, 0..4);
    let path = lake.sealed().unwrap().segments(Table::Observations)[1].path.clone();
    let mut content = std::fs::read(&path).unwrap();
    content[40] ^= 1;
    std::fs::write(&path, content).unwrap();
    let error = lake.writer().unwrap().compact(&mut to_the_end).unwrap_err();
    assert!(matches!(&error, LakeError::Corrupt { path: named, .. } if *named == path), "{error}");
    assert_eq!(left(&lake, Table::Observations), 4, "nothing is left of what was merged");
    // What is sound was merged before.
    assert_eq!(files(&lake)[..4], [1, 1, 1, 4]);
}

#[test]
fn the_command_says_what_it_did() {
    let folder = scratch();
    let (lake, mut author) = (create(&folder), Author::default());
    grow(&lake, &mut author, 0..3);
    let said = run(lake.path(), &["compact"]);
    assert!(said.starts_with("merged 18 files into 6 files ("), "{said}");
    assert_eq!(run(lake.path(), &["compact"]), "nothing to merge\n");
    let _writer = lake.writer().unwrap();
    let (code, said) = fail(lake.path(), &["compact"]);
    assert!(code == 3 && said.contains("another process"), "{said}");
}
