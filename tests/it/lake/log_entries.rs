//! Entries of the log of snapshots that are damaged or missing are found, and written again from
//! the database.

use std::path::{Path, PathBuf};

use steplake::lake::{Lake, Table};
use steplake::model::EpisodeId;
use steplake::upkeep::{Keep, RetractionTarget};

use super::restore::{Lists, append, record_and_retract, snapshots};
use crate::fixtures::support::{contents, copy_folder, fail, run, scratch};
use crate::fixtures::toy_lake::{Author, identity, uri};
use crate::lake::repair::{RUN, derive, findings, flip, repair};

fn truncate(path: &Path) {
    let content = std::fs::read(path).unwrap();
    std::fs::write(path, &content[..content.len() / 2]).unwrap();
}

fn remove(path: &Path) {
    std::fs::remove_file(path).unwrap();
}

/// A way to damage a file.
type Harm = fn(&Path);

const HARMS: [(&str, Harm); 3] = [("flipped", flip), ("truncated", truncate), ("removed", remove)];

/// A lake with snapshots of most kinds, and with files that came, went and were counted.
fn record(path: &Path) -> Lake {
    let lake = record_and_retract(path);
    let (mut maintenance, mut writer) = (lake.maintenance().unwrap(), lake.writer().unwrap());
    maintenance.retract(&mut writer, &RetractionTarget::benchmark(uri(1)), "why").unwrap();
    drop((maintenance, writer));
    derive(&lake).unwrap();
    lake
}

fn entries(lake: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lake.join("log")).unwrap();
    let mut entries = entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    entries.sort();
    entries
}

/// Harms some entries of a copy of a lake, and asserts that a repair writes them again so that the
/// database could be restored from them.
fn harm_and_mend(origin: &Lake, path: &Path, harmed: &[usize], harm: fn(&Path), case: &str) {
    copy_folder(origin.path(), path);
    let entries = entries(path);
    let harmed = harmed.iter().map(|&place| entries[place].clone()).collect::<Vec<_>>();
    for entry in &harmed {
        harm(entry);
    }
    let lake = Lake::open(path).unwrap();
    let found = findings(&lake);
    assert_eq!(found.len(), harmed.len(), "{case}: {found:?}");
    for (said, entry) in found.iter().zip(&harmed) {
        let named = said.starts_with(entry.to_str().unwrap());
        assert!(named && said.contains("a repair writes it again"), "{said}");
    }
    let done = repair(&lake).unwrap();
    assert_eq!((&done.entries, done.snapshot), (&harmed, None), "{case}");
    assert!(!done.is_nothing() && done.losses.is_empty(), "{case}: {done:?}");
    assert_eq!(findings(&lake), [""; 0], "{case}");
    assert!(repair(&lake).unwrap().is_nothing(), "{case}");

    std::fs::remove_file(path.join("hot.sqlite")).unwrap();
    assert!(repair(&lake).unwrap().restored.is_some(), "{case}");
    assert_eq!(findings(&lake), [""; 0], "{case}");
    assert_eq!(snapshots(&lake), snapshots(origin), "{case}");
    assert_eq!(Lists::of(&lake), Lists::of(origin), "{case}");
    let derived = |lake: &Path| contents(lake).split_off(5);
    assert_eq!(derived(path), derived(origin.path()), "{case}: no dedup is needed");
}

#[test]
fn every_entry_can_be_written_again() {
    let folder = scratch();
    let origin = record(&folder.path().join("origin"));
    let count = entries(origin.path()).len();
    assert!(count > 6, "{count}");
    let all = (0..count).collect::<Vec<_>>();
    for (name, harm) in HARMS {
        for place in 0..count {
            let case = format!("{name}-{place}");
            harm_and_mend(&origin, &folder.path().join(&case), &[place], harm, &case);
        }
        harm_and_mend(&origin, &folder.path().join(name), &all, harm, name);
    }
}

#[test]
fn the_log_is_written_again_from_the_oldest_snapshot_that_has_not_expired() {
    let folder = scratch();
    let origin = record(&folder.path().join("origin"));
    let mut maintenance = origin.maintenance().unwrap();
    maintenance.expire(Keep::Newest(4.try_into().unwrap())).unwrap();
    maintenance.collect().unwrap();
    drop(maintenance);
    assert_eq!(entries(origin.path()).len(), 4);
    for (name, harm) in HARMS {
        harm_and_mend(&origin, &folder.path().join(name), &[0, 1, 2, 3], harm, name);
    }
}

#[test]
fn the_command_finds_a_damaged_entry_and_mends_it() {
    let folder = scratch();
    let path = folder.path().join("lake");
    drop(record(&path));
    let entry = entries(&path).remove(1);
    flip(&entry);
    assert_eq!(fail(&path, &["verify"]).0, 4);
    let said = run(&path, &["verify", "--repair"]);
    assert!(said.contains(entry.to_str().unwrap()), "{said}");
    run(&path, &["verify"]);
}

#[test]
fn a_database_that_is_one_snapshot_old_is_refused_and_restored() {
    let folder = scratch();
    let lake = record(&folder.path().join("lake"));
    let older = std::fs::read(lake.path().join("hot.sqlite")).unwrap();
    let mut writer = lake.writer().unwrap();
    append(&mut writer, 9);
    writer.seal().unwrap();
    drop(writer);
    let before = snapshots(&lake);
    std::fs::write(lake.path().join("hot.sqlite"), older).unwrap();
    let error = lake.writer().unwrap_err().to_string();
    assert!(error.contains("so it is an older copy"), "{error}");
    assert!(repair(&lake).unwrap().restored.is_some());
    assert_eq!(snapshots(&lake), before);
    drop(lake.writer().unwrap());
}

#[test]
fn rows_that_were_taken_back_do_not_come_back_with_an_older_database() {
    let folder = scratch();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    writer.begin_run("{}", 0).unwrap();
    append(&mut writer, 0);
    // An episode that stays open.
    let mut author = Author::default();
    author.reset(EpisodeId::new(RUN, 1), 300);
    writer.append(&author.take()).unwrap();
    writer.seal().unwrap();
    drop(writer);
    let database = lake.path().join("hot.sqlite");
    let older = std::fs::read(&database).unwrap();
    let (mut maintenance, mut writer) = (lake.maintenance().unwrap(), lake.writer().unwrap());
    maintenance.retract(&mut writer, &RetractionTarget::Run(RUN), "why").unwrap();
    drop((maintenance, writer));
    std::fs::write(&database, older).unwrap();
    let restored = repair(&lake).unwrap().restored.unwrap();
    assert!(!restored.hot_rows);
    assert_eq!(lake.snapshot().unwrap().rows(Table::Steps), 0);
}
