//! Fetches into new folders and into earlier copies, also interrupted ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::ProgressBar;
use steplake_lake::{
    Disk, DiskOperation, FaultEffect, Lake, LakeError, ScanColumns, Table, to_the_end,
};
use steplake_remote::fetch::fetch;
use steplake_remote::remote::Remote;
use steplake_remote::{FetchOptions, PublishOptions, RemoteError};

use crate::support::{
    Fault, Wrapped, assert_same, assert_sound, content, derive, lake, lake_with, memory, objects,
    place_in, put, receive, receive_on, record, record_unsealed, rows, segment, send, send_plainly,
    wait,
};

/// Makes a place with two versions, and their lakes. The second version has more columns.
fn two_versions(
    folder: &std::path::Path,
) -> (Arc<object_store::memory::InMemory>, Remote, Lake, Lake) {
    let (store, remote) = memory();
    let here = lake_with(&folder.join("here"), &["Cost"], &["Cost"]);
    record(&here, 1, 4);
    derive(&here);
    send_plainly(&remote, &here);
    let first = receive(&remote, &folder.join("first")).unwrap().lake;
    let here = lake_with(here.path(), &["Bits"], &["CostOz"]);
    record(&here, 2, 3);
    derive(&here);
    send_plainly(&remote, &here);
    (store, remote, here, first)
}

#[test]
fn a_copy_is_updated_to_newer_and_older_versions() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote, here, first) = two_versions(folder.path());
    let into = folder.path().join("there");
    receive_on(Disk::default(), &remote, Some(1), &into).unwrap();
    let there = Lake::open(&into).unwrap();
    assert_same(&first, &there);
    // A reader of the old copy reads on.
    let reader = there.snapshot().unwrap();
    let before = rows(&there, Table::Steps);
    let fetched = receive(&remote, &into).unwrap();
    assert!(fetched.files_fetched < fetched.files, "{fetched:?}");
    assert_same(&here, &there);
    assert_sound(&there);
    let read = reader.scan(Table::Steps, ScanColumns::All).map(|batch| batch.unwrap().num_rows());
    assert_eq!(read.sum::<usize>(), before.len());
    drop(reader);
    assert!(there.fetched().unwrap().unwrap().starts_with("version 2 of memory:///some/where"));
    receive_on(Disk::default(), &remote, Some(1), &into).unwrap();
    assert_same(&first, &there);
    assert_eq!(there.sealed().unwrap().history().len(), 1, "a copy has one snapshot");
    // A second fetch finds nothing missing.
    assert_eq!(receive_on(Disk::default(), &remote, Some(1), &into).unwrap().files_fetched, 0);
}

#[test]
fn a_refused_fetch_changes_no_column() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote, _here, _first) = two_versions(folder.path());
    let own = lake_with(&folder.path().join("own"), &["Number"], &["Cost"]);
    record(&own, 1, 2);
    let own = lake_with(own.path(), &["Cost"], &["CostOz"]);
    record_unsealed(&own, 2, 2);
    // The columns of this copy are in another order than those of the version.
    let (_other, other) = memory();
    let elsewhere = lake_with(&folder.path().join("elsewhere"), &["Bits"], &["CostOz"]);
    record(&elsewhere, 1, 2);
    derive(&elsewhere);
    send_plainly(&other, &elsewhere);
    let copy = receive(&other, &folder.path().join("copy")).unwrap().lake;
    for lake in [own, copy] {
        let file = lake.path().join("lake.json");
        let (identity, before) = (std::fs::read(&file).unwrap(), rows(&lake, Table::Steps));
        receive(&remote, lake.path()).unwrap_err();
        assert_eq!(std::fs::read(&file).unwrap(), identity);
        assert_eq!(rows(&lake, Table::Steps), before);
        assert_sound(&lake);
    }
}

#[test]
fn a_fetch_refuses_to_overwrite_changes_of_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote, _here, _first) = two_versions(folder.path());
    let copy = |name: &str| {
        let into = folder.path().join(name);
        receive_on(Disk::default(), &remote, Some(1), &into).unwrap();
        Lake::open(into).unwrap()
    };
    let refused = |lake: &Lake, what: &str| {
        let before = rows(lake, Table::Steps);
        let error = receive(&remote, lake.path()).unwrap_err();
        assert!(matches!(error, RemoteError::Lake(LakeError::OwnWork { .. })), "{error}");
        let said = error.to_string();
        assert!(said.contains(what) && said.contains("merge the two"), "{said}");
        assert_eq!(rows(lake, Table::Steps), before);
    };
    let recorded = copy("recorded");
    record(&recorded, 9, 2);
    refused(&recorded, "a run was begun");
    let begun = copy("begun");
    begun.writer().unwrap().begin_run("{}", 0).unwrap();
    refused(&begun, "a run was begun");
    let retracted = copy("retracted");
    let subject = steplake_lake::upkeep::RetractionTarget::Run(steplake_model::RunId(1));
    let (mut maintenance, mut writer) =
        (retracted.maintenance().unwrap(), retracted.writer().unwrap());
    maintenance.retract(&mut writer, &subject, "a test").unwrap();
    drop((maintenance, writer));
    refused(&retracted, "something was retracted");
    let own = lake(&folder.path().join("own"));
    record(&own, 5, 1);
    refused(&own, "not made by a fetch");
    // Derived tables are made from what was fetched.
    let derived = copy("derived");
    derive(&derived);
    receive(&remote, derived.path()).unwrap();
    // An empty lake has nothing to lose.
    let empty = lake_with(&folder.path().join("empty"), &["Cost"], &["Cost"]);
    receive(&remote, empty.path()).unwrap();
    let notes = folder.path().join("notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("todo"), "this").unwrap();
    let error = receive(&remote, &notes).unwrap_err().to_string();
    assert!(error.contains("todo") && error.contains("no lake"), "{error}");
    assert_eq!(std::fs::read_dir(&notes).unwrap().count(), 1);
}

#[test]
fn a_flipped_bit_in_any_object_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (store, remote, _here, first) = two_versions(folder.path());
    let into = folder.path().join("there");
    receive_on(Disk::default(), &remote, Some(1), &into).unwrap();
    let there = Lake::open(&into).unwrap();
    let known: Vec<_> = first.known_files().unwrap().into_iter().collect();
    for (number, (path, bytes)) in objects(&store).into_iter().enumerate() {
        // A fetch reads neither files that are here already nor the logs of Delta tables.
        let is_read = !path.as_ref().contains("_delta_log")
            && known.iter().all(|digest| !path.as_ref().contains(digest.as_str()));
        if !is_read {
            continue;
        }
        let whole = content(&store, &path);
        let mut flipped = whole.to_vec();
        flipped[usize::try_from(bytes).unwrap() / 2] ^= 4;
        put(&store, &path, flipped.into());
        let name = path.filename().unwrap();
        // Files that an earlier attempt fetched would not be checked again.
        let _ = std::fs::remove_dir_all(into.join("fetching"));
        match receive(&remote, &into) {
            Err(RemoteError::Damaged { object, .. }) => assert!(object.ends_with(name), "{object}"),
            // Nothing checks the parts of a manifest that are for people.
            other if path.as_ref().contains("manifests") => drop(other),
            // This is the list of the version that is not fetched.
            Ok(_) if path.as_ref().contains("lists") => {}
            other => panic!("{path}: {other:?}"),
        }
        put(&store, &path, whole);
        if rows(&there, Table::Steps) != rows(&first, Table::Steps) {
            receive_on(Disk::default(), &remote, Some(1), &into).unwrap();
        }
        assert_same(&first, &there);
        if number % 5 == 0 {
            assert_sound(&there);
        }
    }
    receive(&remote, &into).unwrap();
}

#[test]
fn a_truncated_object_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (store, remote, _here, _first) = two_versions(folder.path());
    let path = segment(&objects(&store), Table::Steps);
    let short = content(&store, &path).slice(..10);
    put(&store, &path, short);
    let error = receive(&remote, &folder.path().join("there")).unwrap_err().to_string();
    assert!(error.contains(path.filename().unwrap()) && error.contains("10 bytes"), "{error}");
    assert!(!folder.path().join("there/lake.json").exists());
}

#[test]
fn a_failing_read_leaves_the_older_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (store, remote, here, first) = two_versions(folder.path());
    let into = folder.path().join("there");
    receive_on(Disk::default(), &remote, Some(1), &into).unwrap();
    let there = Lake::open(&into).unwrap();
    for at in 0.. {
        let faulty = place_in(Wrapped::new(&store, &Arc::default(), Some((at, Fault::Refuse))));
        match receive(&faulty, &into) {
            Ok(_) => {
                assert!(at > 4, "the fault comes at some operation");
                break;
            }
            Err(RemoteError::Store { .. }) => assert_same(&first, &there),
            Err(other) => panic!("{other}"),
        }
    }
    assert_same(&here, &there);
}

/// Whether two lakes have the same number of steps. One of them may have more columns.
fn has_as_many(one: &Lake, other: &Lake) -> bool {
    let steps = |lake: &Lake| lake.snapshot().unwrap().rows(Table::Steps);
    steps(one) == steps(other)
}

/// Returns a disk on which operation number `last` and all later ones fail, as in a power cut.
fn failing(last: usize) -> Disk {
    failing_of(last, Arc::default())
}

/// Does the same as [`failing`], and counts the operations.
fn failing_of(last: usize, count: Arc<AtomicUsize>) -> Disk {
    Disk::with_faults(move |operation| {
        if matches!(operation, DiskOperation::Open(_) | DiskOperation::Read(..)) {
            return FaultEffect::Proceed;
        }
        if count.fetch_add(1, Ordering::SeqCst) < last {
            return FaultEffect::Proceed;
        }
        FaultEffect::Fail(std::io::Error::other("the power is gone"))
    })
}

#[test]
fn a_fetch_that_is_interrupted_anywhere_can_be_continued() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote, here, first) = two_versions(folder.path());
    for older in [false, true] {
        for last in (0..).step_by(3) {
            let into = folder.path().join(format!("{older}-{last}"));
            if older {
                receive_on(Disk::default(), &remote, Some(1), &into).unwrap();
            }
            let cut = receive_on(failing(last), &remote, None, &into);
            match Lake::open(&into) {
                Ok(there) if has_as_many(&there, &first) => {
                    assert!(older && cut.is_err());
                    assert_same(&first, &there);
                }
                Ok(there) => assert_same(&here, &there),
                Err(error) => assert!(!older && cut.is_err(), "{error}"),
            }
            let fetched = receive(&remote, &into).unwrap();
            assert_same(&here, &fetched.lake);
            assert_sound(&fetched.lake);
            std::fs::remove_dir_all(&into).unwrap();
            if cut.is_ok() {
                assert!(last > 20, "the fault comes at some operation");
                break;
            }
        }
    }
}

#[test]
fn a_copy_of_an_older_version_is_not_known_to_contain_a_newer_one() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote, here, first) = two_versions(folder.path());
    let count = Arc::<AtomicUsize>::default();
    let into = folder.path().join("whole");
    receive(&remote, &into).unwrap();
    receive_on(failing_of(usize::MAX, Arc::clone(&count)), &remote, Some(1), &into).unwrap();
    let all = count.load(Ordering::SeqCst);
    let mut uncleared = 0;
    for last in (all.saturating_sub(400)..=all).step_by(9) {
        let into = folder.path().join(format!("{last}"));
        receive(&remote, &into).unwrap();
        let _ = receive_on(failing(last), &remote, Some(1), &into);
        let there = Lake::open(&into).unwrap();
        if has_as_many(&there, &first) {
            uncleared += usize::from(there.sealed().unwrap().history().len() > 1);
            record(&there, 9, 2);
            let error = send(&remote, &there, &PublishOptions::default()).unwrap_err();
            assert!(matches!(error, RemoteError::Diverged { version: 2, .. }), "{error}");
        }
        std::fs::remove_dir_all(&into).unwrap();
    }
    assert!(uncleared > 0, "some are cut short before the newer copy is let go of");
    assert_same(&here, &receive(&remote, &folder.path().join("newest")).unwrap().lake);
}

#[test]
fn damaged_local_files_are_fetched_again_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote, here, _first) = two_versions(folder.path());
    let there = receive(&remote, &folder.path().join("there")).unwrap().lake;
    for table in [Table::Steps, Table::StateTransitions] {
        let path = there.sealed().unwrap().segments(table)[0].path.clone();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[100] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(!there.verify(&mut to_the_end).unwrap().findings.is_empty());
        assert_eq!(receive(&remote, there.path()).unwrap().files_fetched, 0);
        let (options, bar) =
            (FetchOptions { verify: true, ..Default::default() }, ProgressBar::hidden());
        let fetching = fetch(&remote, None, there.path(), Disk::default(), &options, &bar);
        assert_eq!(wait(fetching).unwrap().files_fetched, 1);
        assert_same(&here, &there);
        assert_sound(&there);
    }
}
