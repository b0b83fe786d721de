//! What other tools see of a lake: the files below `current`, and the Delta tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use steplake::lake::{Disk, Lake, Snapshot, SnapshotId, Table};

use crate::fixtures::power::Power;
use crate::fixtures::support::scratch;
use crate::lake::failing_disk::{Act, Machine, script};

/// The names of files, by table.
type Files = BTreeMap<Table, BTreeSet<String>>;

/// The files that other tools are to see of a snapshot: of derived tables, those of the oldest
/// layer.
fn visible(snapshot: &Snapshot) -> Files {
    let segments = Table::ALL.into_iter().flat_map(|table| snapshot.segments(table));
    let oldest = segments.clone().filter_map(|segment| segment.layer).min();
    let mut files = Files::new();
    for segment in segments.filter(|segment| segment.layer.is_none() || segment.layer == oldest) {
        let name = segment.path.file_name().unwrap().to_str().unwrap().to_owned();
        files.entry(segment.table).or_default().insert(name);
    }
    files
}

/// The files below `current`.
fn globbed(lake: &Path) -> Files {
    let mut files = Files::new();
    for entry in std::fs::read_dir(lake.join("current")).unwrap() {
        let folder = entry.unwrap();
        let table = Table::from_name(folder.file_name().to_str().unwrap()).unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap();
            assert!(file.metadata().unwrap().len() > 0);
            let name = file.file_name().into_string().unwrap();
            files.entry(table).or_default().insert(name);
        }
    }
    files
}

/// The versions of a Delta table: for each, the files that it has.
fn versions(lake: &Path, table: Table) -> BTreeMap<i64, BTreeSet<String>> {
    let folder = lake.join("data").join(table.name()).join("_delta_log");
    let mut versions = BTreeMap::new();
    let mut files = BTreeSet::new();
    let mut number = 0;
    while let Ok(text) = std::fs::read_to_string(folder.join(format!("{number:020}.json"))) {
        for line in text.lines() {
            let action: Value = serde_json::from_str(line).unwrap();
            let path = |kind: &str| action[kind]["path"].as_str().map(str::to_owned);
            if let Some(path) = path("remove") {
                assert!(files.remove(&path), "version {number} removes {path} again");
            }
            if let Some(path) = path("add") {
                assert!(files.insert(path.clone()), "version {number} adds {path} again");
            }
        }
        versions.insert(number, files.clone());
        number += 1;
    }
    let listed = std::fs::read_dir(&folder).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name().into_string().unwrap();
        Path::new(&name).extension().is_some_and(|end| end == "json")
    });
    assert_eq!(listed.count(), versions.len(), "{table} lacks a version");
    versions
}

/// Whether all that other tools see is the newest snapshot, and each version its snapshot.
fn assert_shown(lake: &Lake) {
    let sealed = lake.sealed().unwrap();
    assert_eq!(globbed(lake.path()), visible(&sealed));
    for table in Table::ALL {
        let versions = versions(lake.path(), table);
        assert_eq!(versions.len(), usize::try_from(sealed.id().0).unwrap() + 1, "{table}");
        for row in sealed.history() {
            let files = visible(&lake.snapshot_at(row.id).unwrap());
            let files = files.get(&table).cloned().unwrap_or_default();
            assert_eq!(versions[&row.id.0], files, "{table} in {}", row.id);
            let folder = lake.path().join("data").join(table.name());
            assert!(files.iter().all(|file| folder.join(file).exists()));
        }
    }
}

#[test]
fn other_tools_see_each_snapshot_as_soon_as_it_is_there() {
    let folder = scratch();
    let path = folder.path().join("lake");
    let mut machine = Machine::start(Disk::default(), &path).unwrap();
    assert_shown(&machine.lake);
    for act in script() {
        machine.act(&act).unwrap();
        assert_shown(&machine.lake);
    }
}

#[test]
fn a_power_cut_shows_other_tools_one_snapshot_and_never_a_part_of_it() {
    let acts = script().into_iter().take(8).collect::<Vec<_>>();
    for operations in (0..).step_by(3) {
        let folder = scratch();
        let path = folder.path().join("lake");
        let (disk, power) = Power::while_showing(operations);
        let _cut = Machine::start(disk, &path)
            .and_then(|mut machine| acts.iter().try_for_each(|act: &Act| machine.act(act)));
        let is_over = !power.lock().unwrap().off;
        power.lock().unwrap().cut();
        let Ok(lake) = Lake::open(&path) else { continue };
        if path.join("current").exists() {
            let shown = globbed(&path);
            let newest = lake.sealed().unwrap().id();
            let mut snapshots = (1..=newest.0).map(|id| lake.snapshot_at(SnapshotId(id)).unwrap());
            assert!(snapshots.any(|snapshot| visible(&snapshot) == shown), "after {operations}");
        }
        drop(lake.writer().unwrap());
        assert_shown(&lake);
        if is_over {
            assert!(operations > 100, "{operations}");
            return;
        }
    }
}
