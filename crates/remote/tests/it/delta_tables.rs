//! The Delta tables of a published lake: complete, equal to the versions, and whole after anything.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::path::Path;
use serde_json::Value;
use steplake_lake::{Lake, Table};
use steplake_remote::gc::{AGE, AGE_MIN, gc};
use steplake_remote::publish::PublishOutcome;
use steplake_remote::remote::Remote;
use steplake_remote::{PublishOptions, RemoteError};

use crate::support::{
    Fault, Times, Wrapped, content, lake, memory, objects, place_at, place_in, put, record, send,
    send_plainly, version, wait,
};

/// The paths of files of a table.
type Files = BTreeSet<String>;

fn number_of(name: &str) -> u64 {
    name[..20].parse().unwrap()
}

fn is_actions(name: &str) -> bool {
    name.strip_suffix(".json").is_some()
}

/// Returns the names and contents of the files in a table's log.
fn log(store: &InMemory, table: Table) -> BTreeMap<String, Vec<u8>> {
    let folder = format!("some/where/segments/{table}/_delta_log/");
    let names = objects(store).into_iter().filter_map(|(path, _)| {
        let name = path.as_ref().strip_prefix(&folder)?.to_owned();
        Some((name, content(store, &path).to_vec()))
    });
    names.collect()
}

/// Returns the files of each Delta version of a table, by the files of actions. `versions` has the
/// files of published versions: a log that a collection has cut begins with one of them.
fn replayed(
    log: &BTreeMap<String, Vec<u8>>,
    versions: &BTreeMap<u64, Files>,
) -> BTreeMap<u64, Files> {
    let mut replayed = BTreeMap::new();
    let mut files: Option<Files> = None;
    for (name, text) in log.iter().filter(|(name, _)| is_actions(name)) {
        let number = number_of(name);
        let text = std::str::from_utf8(text).unwrap();
        let actions = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let actions = actions.collect::<Vec<_>>();
        // The first deletion vectors change the protocol of a table that is there.
        if files.is_none() && actions.iter().any(|action| action["protocol"].is_object()) {
            files = Some(Files::new());
        }
        if let Some(files) = &mut files {
            for action in actions {
                let path = |kind: &str| action[kind]["path"].as_str().map(str::to_owned);
                if let Some(path) = path("remove") {
                    assert!(files.remove(&path), "{name} removes {path} again");
                }
                if let Some(path) = path("add") {
                    assert!(files.insert(path.clone()), "{name} adds {path} again");
                }
            }
        } else {
            files = versions.get(&number).cloned();
        }
        replayed.extend(files.clone().map(|files| (number, files)));
    }
    replayed
}

/// Returns the files that other tools are to see of a version, from its list.
fn listed(store: &InMemory, list: &str, table: Table) -> Files {
    let path = Path::from(format!("some/where/lists/{list}.json"));
    let list: Value = serde_json::from_slice(&content(store, &path)).unwrap();
    let rows = list["files"].as_array().unwrap().iter();
    let of_table = rows.filter(|row| row["table"] == table.name());
    let object = |row: &Value| {
        let object = list["objects"][row["digest"].as_str().unwrap()].as_str().unwrap();
        object.strip_prefix(&format!("segments/{table}/")).unwrap().to_owned()
    };
    of_table.map(object).collect()
}

/// Asserts that every version is a Delta version of every table, with the same files, which exist.
pub(crate) fn assert_delta_tables(store: &InMemory, remote: &Remote) {
    let versions = wait(remote.versions()).unwrap();
    let there = objects(store).into_iter().map(|(path, _)| path).collect::<BTreeSet<_>>();
    for table in Table::ALL {
        let log = log(store, table);
        let versions = versions.iter().map(|(number, manifest)| {
            let list = manifest.as_ref().unwrap().list.as_deref().unwrap();
            (*number, listed(store, list, table))
        });
        let versions = versions.collect::<BTreeMap<_, _>>();
        let replayed = replayed(&log, &versions);
        for (number, files) in versions {
            assert_eq!(replayed.get(&number), Some(&files), "version {number} of {table}");
            let checkpoint = &log[&format!("{number:020}.checkpoint.parquet")];
            for file in files {
                let path = format!("some/where/segments/{table}/{file}");
                assert!(there.contains(&Path::from(path.clone())), "{path} is missing");
                let is_listed = checkpoint.windows(file.len()).any(|part| part == file.as_bytes());
                assert!(is_listed, "the checkpoint of version {number} lacks {file}");
            }
        }
    }
}

fn three_versions(store: &Arc<InMemory>, times: &Arc<Times>, lake: &Lake) -> Remote {
    let remote = place_at(store, times, None, 0);
    for seed in 1..=3 {
        record(lake, seed, 3);
        send_plainly(&remote, lake);
    }
    remote
}

#[test]
fn each_version_is_a_version_of_every_table() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = memory();
    let here = lake(&folder.path().join("here"));
    let remote = three_versions(&store, &Arc::default(), &here);
    assert_delta_tables(&store, &remote);
    let steps = replayed(&log(&store, Table::Steps), &BTreeMap::new());
    assert_eq!(steps.values().map(BTreeSet::len).collect::<Vec<_>>(), [1, 2, 3]);
    // Nothing is written twice.
    let before = objects(&store);
    assert_eq!(send_plainly(&remote, &here), PublishOutcome::UpToDate { version: 3 });
    assert_eq!(objects(&store), before);
}

#[test]
fn a_publisher_that_dies_before_the_logs_is_completed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 3);
    let (rehearsal, _) = memory();
    let counting = Wrapped::new(&rehearsal, &Arc::default(), None);
    let counts = [&counting.operations, &counting.announcement].map(Arc::clone);
    send_plainly(&place_in(counting), &here);
    let [all, announcement] = counts.map(|count| count.load(Ordering::SeqCst));
    assert!(all > announcement + 2 * Table::ALL.len(), "{all} {announcement}");
    for at in announcement + 1..all {
        let (store, remote) = memory();
        let faulty = Wrapped::new(&store, &Arc::default(), Some((at, Fault::Refuse)));
        let error = send(&place_in(faulty), &here, &PublishOptions::default()).unwrap_err();
        assert!(matches!(error, RemoteError::DeltaTables { version: 1, .. }), "{error}");
        assert!(error.to_string().contains("publish again"), "{error}");
        // What is there already is never changed.
        let before = Table::ALL.map(|table| log(&store, table));
        assert_eq!(send_plainly(&remote, &here), PublishOutcome::UpToDate { version: 1 });
        assert_delta_tables(&store, &remote);
        for (table, before) in Table::ALL.into_iter().zip(before) {
            let now = log(&store, table);
            assert!(before.iter().all(|(name, content)| now[name] == *content), "{table}");
        }
    }
}

#[test]
fn logs_that_are_several_versions_behind_are_completed() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = memory();
    let here = lake(&folder.path().join("here"));
    let remote = three_versions(&store, &Arc::default(), &here);
    let logs = Table::ALL.map(|table| log(&store, table));
    for behind in 0..=3 {
        for table in [Table::Steps, Table::Ir] {
            for name in log(&store, table).keys().filter(|name| number_of(name) > behind) {
                let path = format!("some/where/segments/{table}/_delta_log/{name}");
                wait(object_store::ObjectStoreExt::delete(&*store, &Path::from(path))).unwrap();
            }
        }
        assert_eq!(send_plainly(&remote, &here), PublishOutcome::UpToDate { version: 3 });
        assert_eq!(Table::ALL.map(|table| log(&store, table)), logs, "they are written as before");
    }
}

#[test]
fn forgotten_versions_leave_the_logs_of_the_others_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = memory();
    let times = Arc::<Times>::default();
    let here = lake(&folder.path().join("here"));
    let remote = three_versions(&store, &times, &here);
    times.pass(AGE_MIN);
    let two = NonZeroU64::new(2);
    assert_eq!(wait(gc(&remote, two, Duration::ZERO)).unwrap().versions, 1);
    assert_delta_tables_from(&store, &remote, 2);
    // The collection took number 4, which changes nothing.
    record(&here, 4, 2);
    assert_eq!(version(&send_plainly(&remote, &here)), 5);
    assert_delta_tables_from(&store, &remote, 2);
    times.pass(AGE);
    assert_eq!(wait(gc(&remote, NonZeroU64::new(1), AGE)).unwrap().versions, 2);
    assert_delta_tables_from(&store, &remote, 5);
    record(&here, 5, 2);
    send_plainly(&remote, &here);
    assert_delta_tables_from(&store, &remote, 5);
}

/// Asserts that every log begins with the checkpoint of a version and has all later numbers.
fn assert_delta_tables_from(store: &InMemory, remote: &Remote, oldest: u64) {
    let numbers = wait(remote.versions()).unwrap().into_iter().map(|(number, _)| number);
    let numbers = numbers.collect::<Vec<_>>();
    assert_eq!(numbers[0], oldest);
    for table in Table::ALL {
        let log = log(store, table);
        let actions = log.keys().filter(|name| is_actions(name));
        let actions = actions.map(|name| number_of(name)).collect::<Vec<_>>();
        let last = *actions.last().unwrap();
        assert_eq!(actions, (oldest..=last).collect::<Vec<_>>(), "{table}");
        assert!(last >= *numbers.last().unwrap());
        for number in &numbers {
            assert!(log.contains_key(&format!("{number:020}.checkpoint.parquet")), "{table}");
        }
    }
}

#[test]
fn a_collection_completes_the_logs_before_it_forgets() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = memory();
    let times = Arc::<Times>::default();
    let here = lake(&folder.path().join("here"));
    let remote = place_at(&store, &times, None, 0);
    record(&here, 1, 3);
    send_plainly(&remote, &here);
    record(&here, 2, 3);
    // This publisher dies right after its version has appeared.
    let (rehearsal, _) = memory();
    for (path, _) in objects(&store) {
        put(&rehearsal, &path, content(&store, &path));
    }
    let counting = Wrapped::new(&rehearsal, &times, None);
    let announcement = Arc::clone(&counting.announcement);
    send_plainly(&place_in(counting), &here);
    let at = announcement.load(Ordering::SeqCst) + 1;
    let dying = place_at(&store, &times, Some((at, Fault::Refuse)), 0);
    let error = send(&dying, &here, &PublishOptions::default()).unwrap_err();
    assert!(matches!(error, RemoteError::DeltaTables { version: 2, .. }), "{error}");
    assert_eq!(wait(gc(&remote, NonZeroU64::new(1), AGE)).unwrap().versions, 1);
    assert_delta_tables(&store, &remote);
    record(&here, 3, 3);
    send_plainly(&remote, &here);
    assert_delta_tables(&store, &remote);
}

#[test]
fn a_damaged_version_is_left_out_and_the_next_begins_with_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let (store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 3);
    send_plainly(&remote, &here);
    record(&here, 2, 3);
    send_plainly(&remote, &here);
    put(&store, &Path::from("some/where/manifests/00000000000000000002.json"), "{".into());
    record(&here, 3, 3);
    let options = PublishOptions { replace_damaged: true, ..PublishOptions::default() };
    assert_eq!(version(&send(&remote, &here, &options).unwrap()), 3);
    record(&here, 4, 3);
    assert_eq!(version(&send_plainly(&remote, &here)), 4);
    for table in Table::ALL {
        let names = log(&store, table).into_keys().collect::<Vec<_>>();
        let short = names.iter().map(|name| name.trim_start_matches('0')).collect::<Vec<_>>();
        let wanted = [
            ("1.checkpoint.parquet", "1.json"),
            ("2.checkpoint.parquet", "2.json"),
            ("3.checkpoint.parquet", "4.checkpoint.parquet"),
        ];
        let wanted = wanted.into_iter().flat_map(|(one, other)| [one, other]).chain(["4.json"]);
        assert_eq!(short, wanted.collect::<Vec<_>>(), "{table}");
    }
}
