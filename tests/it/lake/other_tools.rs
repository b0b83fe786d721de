//! What other tools see of a lake: the files below `current`, and the Delta tables.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::path::Path;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use steplake::lake::delta::checkpoint_name;
use steplake::lake::{Clock, Disk, Lake, RecordedReward, Segment, Snapshot, SnapshotId, Table};
use steplake::model::{EpisodeId, RunId};
use steplake::upkeep::Keep;

use crate::fixtures::power::Power;
use crate::fixtures::support::{copy_folder, scratch};
use crate::fixtures::toy_lake::{Author, identity};
use crate::lake::failing_disk::{Act, Machine, script};

/// The names of files, by table.
type Files = BTreeMap<Table, BTreeSet<String>>;

/// The files that globs are to see of a snapshot: of derived tables, those of the oldest layer.
fn visible(snapshot: &Snapshot) -> Files {
    let oldest = snapshot.layers().keys().next().copied();
    files(snapshot, |segment| segment.layer.is_none() || segment.layer == oldest)
}

fn files(snapshot: &Snapshot, is_wanted: impl Fn(&Segment) -> bool) -> Files {
    let segments = Table::ALL.into_iter().flat_map(|table| snapshot.segments(table));
    let mut files = Files::new();
    for segment in segments.filter(|segment| is_wanted(segment)) {
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
            let files = files(&lake.snapshot_at(row.id).unwrap(), |_| true);
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

#[test]
fn a_copy_that_followed_links_shows_what_is_sealed_in_it() {
    let folder = scratch();
    let path = folder.path().join("lake");
    let mut machine = Machine::start(Disk::default(), &path).unwrap();
    let acts = script();
    let (first, rest) = acts.split_at(3);
    for act in first {
        machine.act(act).unwrap();
    }
    let shown = std::fs::canonicalize(path.join("current")).unwrap();
    std::fs::remove_file(path.join("current")).unwrap();
    copy_folder(&shown, &path.join("current"));
    for act in rest {
        machine.act(act).unwrap();
    }
    assert_shown(&machine.lake);
}

#[test]
fn a_collection_frees_the_files_that_other_tools_read_long_ago() {
    let folder = scratch();
    let path = folder.path().join("lake");
    let mut machine = Machine::start(Disk::default(), &path).unwrap();
    for act in script() {
        machine.act(&act).unwrap();
    }
    let lake = machine.lake.clone();
    drop(machine);
    let views = || std::fs::read_dir(path.join("views")).unwrap().count();
    let collect = |lake: &Lake| {
        let mut maintenance = lake.maintenance().unwrap();
        maintenance.expire(Keep::Newest(NonZeroU64::MIN)).unwrap();
        maintenance.collect().unwrap().views_left
    };
    let log = path.join("data/steps/_delta_log");
    copy_folder(&log, &folder.path().join("log"));
    let left = collect(&lake);
    assert_eq!(left, views() as u64 - 1);
    // A crash kept the expiry from the Delta tables.
    std::fs::remove_dir_all(&log).unwrap();
    copy_folder(&folder.path().join("log"), &log);
    assert_eq!(left, 1);
    let later = Clock::new(|| i64::MAX / 2);
    assert_eq!(collect(&lake.clone().with_clock(later)), 0);
    let newest = lake.newest().unwrap();
    assert_eq!(
        std::fs::read_link(path.join("current")).unwrap(),
        Path::new("views").join(newest.to_string())
    );
    assert_eq!(views(), 1);
    for table in Table::ALL {
        let folder = path.join("data").join(table.name());
        let versions = std::fs::read_dir(folder.join("_delta_log")).unwrap();
        let names = versions.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let is_old = |name: &String| {
            name.split('.')
                .next()
                .and_then(|number| number.parse::<i64>().ok())
                .is_some_and(|it| it < newest.0)
        };
        assert_eq!(names.filter(is_old).count(), 0, "{table}");
        assert!(folder.join("_delta_log").join(checkpoint_name(newest.0)).exists(), "{table}");
    }
    // A crash left the view of a snapshot that was never committed.
    std::fs::create_dir(path.join("views").join((newest.0 + 1).to_string())).unwrap();
    collect(&lake.clone().with_clock(Clock::new(|| i64::MAX / 2)));
    assert_eq!(globbed(&path), visible(&lake.sealed().unwrap()));
}

#[test]
fn a_checkpoint_has_the_columns_that_came_since_the_lake_was_opened() {
    let folder = scratch();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let mut maintenance = lake.maintenance().unwrap();
    let mut grown = identity();
    grown.rewards.push(RecordedReward::new("Late", "Size"));
    let lake = Lake::open_or_create(lake.path(), &grown).unwrap();
    let mut author = Author::default();
    author.episode(EpisodeId::new(RunId(1), 0), 1, &[(1, Some(2)), (2, Some(3))]);
    let mut rows = author.take();
    for rewards in rows.steps.iter_mut().filter_map(|step| step.rewards.as_mut()) {
        *rewards = rewards.iter().copied().chain([1.0]).collect();
    }
    let mut writer = lake.writer().unwrap();
    writer.begin_run("{}", 0).unwrap();
    writer.append(&rows).unwrap();
    writer.seal().unwrap();
    maintenance.expire(Keep::Newest(NonZeroU64::MIN)).unwrap();
    let log = lake.path().join("data/steps/_delta_log");
    let entries = std::fs::read_dir(log).unwrap().map(|entry| entry.unwrap().path());
    let newest = entries.filter(|path| path.extension().is_some_and(|end| end == "parquet")).max();
    let file = std::fs::File::open(newest.unwrap()).unwrap();
    let batches = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let text = format!("{:?}", batches.collect::<Vec<_>>());
    assert!(text.contains("reward_Late"), "{text}");
}
